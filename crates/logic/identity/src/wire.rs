//! The words of the authentication service, exactly as peers spell them.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use liqo_api::discovery::ClusterIdentity;
use liqo_api::names::{Cluster, InvalidName};
use serde::{Deserialize, Serialize};

/// Where a cluster tells who it is.
pub const IDS: &str = "/ids";
/// Where a cluster issues certificates.
pub const CERTIFICATE: &str = "/identity/certificate";

/// Who a cluster is, as it tells everybody.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Ids {
    /// What programs call it.
    #[serde(rename = "clusterId")]
    pub cluster_id: String,
    /// What people call it.
    #[serde(rename = "clusterName", default, skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
}

impl Ids {
    /// The cluster, with both members checked.
    pub fn parse(&self) -> Result<Cluster, InvalidName> {
        Ok(Cluster { id: self.cluster_id.parse()?, name: self.cluster_name.parse()? })
    }
}

impl From<&Cluster> for Ids {
    fn from(cluster: &Cluster) -> Self {
        Self { cluster_id: cluster.id.to_string(), cluster_name: cluster.name.to_string() }
    }
}

/// What a cluster asks for an identity.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRequest {
    /// Who asks.
    pub cluster: ClusterIdentity,
    /// The token of the cluster that asks, for the way back.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin_cluster_token: String,
    /// The token of the cluster that is asked.
    #[serde(default)]
    pub destination_cluster_token: String,
    /// The signing request: PEM in base64.
    pub certificate_signing_request: String,
}

impl CertificateRequest {
    /// A request without tokens.
    pub fn new(from: &Cluster, signing_request: &str) -> Self {
        Self {
            cluster: from.into(),
            origin_cluster_token: String::new(),
            destination_cluster_token: String::new(),
            certificate_signing_request: BASE64_STANDARD.encode(signing_request),
        }
    }

    /// The signing request in PEM.
    pub fn signing_request(&self) -> Result<String, NotEncoded> {
        decode("certificateSigningRequest", &self.certificate_signing_request)
    }
}

impl fmt::Debug for CertificateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateRequest").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// What a cluster answers when it has issued an identity.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateReply {
    /// The namespace it keeps for the one who asked.
    pub namespace: String,
    /// The certificate: PEM in base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub certificate: String,
    /// Where its API server is.
    pub api_server_url: String,
    /// Who vouches for its API server: PEM in base64; the system's authorities when empty.
    #[serde(rename = "apiServerCA", default, skip_serializing_if = "String::is_empty")]
    pub api_server_ca: String,
    /// The identity on AWS, where that is how peers are known; always present, mostly empty.
    #[serde(default)]
    pub aws: AwsIdentity,
}

impl CertificateReply {
    /// A reply with a certificate; both it and the authority are PEM.
    pub fn new(
        namespace: &str,
        certificate: &str,
        api_server_url: &str,
        authority: Option<&str>,
    ) -> Self {
        Self {
            namespace: namespace.to_owned(),
            certificate: BASE64_STANDARD.encode(certificate),
            api_server_url: api_server_url.to_owned(),
            api_server_ca: authority.map(|pem| BASE64_STANDARD.encode(pem)).unwrap_or_default(),
            aws: AwsIdentity::default(),
        }
    }

    /// The certificate in PEM.
    pub fn certificate(&self) -> Result<String, NotEncoded> {
        decode("certificate", &self.certificate)
    }

    /// The authority of the API server in PEM; none when the system's count.
    pub fn authority(&self) -> Result<Option<String>, NotEncoded> {
        let authority = decode("apiServerCA", &self.api_server_ca)?;
        Ok((!authority.is_empty()).then_some(authority))
    }
}

impl fmt::Debug for CertificateReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateReply")
            .field("namespace", &self.namespace)
            .field("api_server_url", &self.api_server_url)
            .finish_non_exhaustive()
    }
}

/// An identity on AWS.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct AwsIdentity {
    /// The access key.
    #[serde(rename = "accessKeyID")]
    pub access_key_id: String,
    /// The secret of the access key.
    #[serde(rename = "secretAccessKey")]
    pub secret_access_key: String,
    /// The region of the cluster.
    pub region: String,
    /// The name of the cluster.
    #[serde(rename = "eksClusterID")]
    pub eks_cluster_id: String,
    /// The user that the access key belongs to.
    #[serde(rename = "iamUserArn")]
    pub iam_user_arn: String,
}

impl fmt::Debug for AwsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsIdentity").field("region", &self.region).finish_non_exhaustive()
    }
}

/// A field that is not text in base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not text in base64")]
pub struct NotEncoded(&'static str);

fn decode(field: &'static str, text: &str) -> Result<String, NotEncoded> {
    let bytes = BASE64_STANDARD.decode(text.trim()).map_err(|_| NotEncoded(field))?;
    String::from_utf8(bytes).map_err(|_| NotEncoded(field))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";

    #[test]
    fn a_cluster_tells_who_it_is_as_peers_expect_it() {
        let text = serde_json::to_string(&Ids::from(&rome())).unwrap();
        assert_eq!(text, format!(r#"{{"clusterId":"{ROME}","clusterName":"rome"}}"#));

        let silent: Ids = serde_json::from_str(&format!(r#"{{"clusterId":"{ROME}"}}"#)).unwrap();
        assert_eq!(silent.cluster_name, "");
        assert!(silent.parse().is_err());
    }

    #[test]
    fn a_request_is_spelled_as_peers_expect_it() {
        let request = CertificateRequest::new(&rome(), "PEM");
        let want = json!({
            "cluster": {"clusterID": ROME, "clusterName": "rome"},
            "destinationClusterToken": "",
            "certificateSigningRequest": "UEVN",
        });
        assert_eq!(serde_json::to_value(&request).unwrap(), want);
        assert_eq!(request.signing_request().unwrap(), "PEM");

        let whole = CertificateRequest { origin_cluster_token: "back".to_owned(), ..request };
        let value = serde_json::to_value(&whole).unwrap();
        assert_eq!(value.get("originClusterToken"), Some(&Value::from("back")));
    }

    #[test]
    fn a_reply_always_carries_the_place_for_aws() {
        let reply = CertificateReply::new("tenant", "C", "https://198.18.0.1:6443", Some("A"));
        let want = json!({
            "namespace": "tenant",
            "certificate": "Qw==",
            "apiServerUrl": "https://198.18.0.1:6443",
            "apiServerCA": "QQ==",
            "aws": {
                "accessKeyID": "", "secretAccessKey": "", "region": "", "eksClusterID": "",
                "iamUserArn": "",
            },
        });
        assert_eq!(serde_json::to_value(&reply).unwrap(), want);
        assert_eq!(reply.certificate().unwrap(), "C");
        assert_eq!(reply.authority().unwrap().as_deref(), Some("A"));
    }

    #[test]
    fn a_trusted_authority_is_left_out() {
        let reply = CertificateReply::new("tenant", "C", "https://api.rome", None);
        assert!(serde_json::to_value(&reply).unwrap().get("apiServerCA").is_none());
        assert_eq!(reply.authority().unwrap(), None);
    }

    #[test]
    fn tokens_and_keys_are_not_printed() {
        let mut request = CertificateRequest::new(&rome(), "PEM");
        request.origin_cluster_token = "hush".to_owned();
        request.destination_cluster_token = "hush".to_owned();
        let mut reply = CertificateReply::default();
        reply.aws.secret_access_key = "hush".to_owned();
        assert!(!format!("{request:?} {reply:?} {:?}", reply.aws).contains("hush"));
    }

    #[test]
    fn what_is_not_encoded_is_named() {
        let mut request = CertificateRequest::new(&rome(), "PEM");
        request.certificate_signing_request = "%".to_owned();
        let error = request.signing_request().unwrap_err();
        assert_eq!(error.to_string(), "'certificateSigningRequest' is not text in base64");
    }

    fn rome() -> Cluster {
        Cluster { id: ROME.parse().unwrap(), name: "rome".parse().unwrap() }
    }
}

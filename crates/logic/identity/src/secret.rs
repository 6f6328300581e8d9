//! Secrets that hold tokens and identities, as values.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::keys::{annotation, label, object, secret as field};
use liqo_api::names::ClusterId;
use secrecy::{ExposeSecret as _, SecretString};

use crate::certificate::{NoCertificate, Validity};
use crate::issue::labels;
use crate::token::Token;
use crate::wire::{CertificateReply, NotEncoded};

/// Selects the Secrets with tokens to present to other clusters.
pub const REMOTE_TOKENS: &str = label::AUTH_TOKEN;

/// The token that peers have to present here.
pub fn auth_token(namespace: &str, token: &Token) -> Secret {
    let metadata = named(namespace, object::AUTH_TOKEN_SECRET);
    secret(metadata, [(field::TOKEN, token.reveal())])
}

/// The token to present to another cluster.
pub fn remote_token(namespace: &str, remote: &ClusterId, token: &Token) -> Secret {
    let mut metadata = named(namespace, &object::remote_token_secret(remote));
    let mut labels = labels(remote);
    labels.insert(label::AUTH_TOKEN.to_owned(), String::new());
    metadata.labels = Some(labels);
    secret(metadata, [(field::TOKEN, token.reveal())])
}

/// The token in a Secret of either kind, if there is one.
pub fn token(secret: &Secret) -> Option<Token> {
    Token::known(&text(secret, field::TOKEN)?)
}

/// A reply of a peer cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    /// A field is malformed.
    #[error(transparent)]
    NotEncoded(#[from] NotEncoded),
    /// The certificate cannot be read.
    #[error("the peer sent something that is {0}")]
    NoCertificate(#[from] NoCertificate),
    /// A field is missing.
    #[error("the peer sent no '{0}'")]
    Missing(&'static str),
    /// The identity is one for AWS.
    #[error("the peer sent an identity of AWS, which is not supported")]
    Aws,
}

/// The identity that a remote cluster gave us, for the tenant namespace that we keep for it.
///
/// Kubernetes completes the name; whoever renews an identity sets the name of the one before.
pub fn identity(
    tenant: &str,
    remote: &ClusterId,
    key: &SecretString,
    reply: &CertificateReply,
    proxy: Option<&str>,
) -> Result<Secret, BadReply> {
    if !reply.aws.access_key_id.is_empty() {
        return Err(BadReply::Aws);
    }
    if reply.namespace.is_empty() {
        return Err(BadReply::Missing("namespace"));
    }
    if reply.api_server_url.is_empty() {
        return Err(BadReply::Missing("apiServerUrl"));
    }
    let certificate = reply.certificate()?;
    let expiry = Validity::of(&certificate)?.until.as_second();
    let authority = reply.authority()?;
    let mut labels = labels(remote);
    for mark in [label::LOCAL_IDENTITY, label::CERTIFICATE_AVAILABLE] {
        labels.insert(mark.to_owned(), label::TRUE.to_owned());
    }
    let expiry = (annotation::CERTIFICATE_EXPIRE_TIME.to_owned(), expiry.to_string());
    let metadata = ObjectMeta {
        namespace: Some(tenant.to_owned()),
        generate_name: Some(object::IDENTITY_SECRET_PREFIX.to_owned()),
        labels: Some(labels),
        annotations: Some(BTreeMap::from([expiry])),
        ..ObjectMeta::default()
    };
    let fields = [
        (field::PRIVATE_KEY, Some(key.expose_secret())),
        (field::CERTIFICATE, Some(certificate.as_str())),
        (field::API_SERVER_URL, Some(&reply.api_server_url)),
        (field::NAMESPACE, Some(&reply.namespace)),
        (field::API_SERVER_CA, authority.as_deref()),
        (field::PROXY_URL, proxy),
    ];
    let present = fields.into_iter().filter_map(|(name, text)| Some((name, text?)));
    Ok(secret(metadata, present))
}

/// Selects the Secrets with identities at a remote cluster.
pub fn identities_at(remote: &str) -> String {
    format!("{}={},{}={remote}", label::LOCAL_IDENTITY, label::TRUE, label::CLUSTER_ID)
}

/// Of several identities, the one whose certificate lasts longest; without a word on that, until
/// now.
pub fn latest<'a>(
    secrets: impl IntoIterator<Item = &'a Secret>,
    now: Timestamp,
) -> Option<&'a Secret> {
    secrets.into_iter().max_by_key(|secret| {
        let annotations = secret.metadata.annotations.as_ref();
        let expiry = annotations.and_then(|all| all.get(annotation::CERTIFICATE_EXPIRE_TIME));
        let seconds = expiry.and_then(|text| text.parse().ok()).unwrap_or(now.as_second());
        // The name decides between equals, so that everybody takes the same one.
        (seconds, secret.metadata.name.as_deref())
    })
}

/// How long the certificate of an identity lasts; none when there is no readable certificate.
pub fn validity(identity: &Secret) -> Option<Validity> {
    Validity::of(&text(identity, field::CERTIFICATE)?).ok()
}

/// Whether an identity is used through this proxy, or through none.
pub fn is_through(identity: &Secret, proxy: Option<&str>) -> bool {
    text(identity, field::PROXY_URL).as_deref() == proxy
}

/// What was issued to a peer: the signing request as it came, and the certificate; both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The signing request.
    pub request: String,
    /// The certificate.
    pub certificate: String,
}

impl Issued {
    /// Reads what was issued; a Secret that lacks a part holds nothing.
    pub fn read(secret: &Secret) -> Option<Self> {
        let request = text(secret, field::CSR)?;
        let certificate = text(secret, field::CERTIFICATE)?;
        Some(Self { request, certificate })
    }

    /// The Secret in the tenant namespace of the peer.
    pub fn secret(&self, tenant: &str, peer: &ClusterId) -> Secret {
        let mut metadata = named(tenant, object::REMOTE_CERTIFICATE_SECRET);
        metadata.labels = Some(labels(peer));
        secret(metadata, [(field::CSR, &*self.request), (field::CERTIFICATE, &self.certificate)])
    }
}

fn named(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn secret<'a>(
    metadata: ObjectMeta,
    fields: impl IntoIterator<Item = (&'static str, &'a str)>,
) -> Secret {
    let data = fields.into_iter().map(|(name, text)| (name.to_owned(), ByteString(text.into())));
    Secret {
        metadata,
        data: Some(data.collect()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

/// A field as text; one that is empty is not there.
fn text(secret: &Secret, name: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(name)?;
    let text = std::str::from_utf8(&bytes.0).ok()?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::json;

    use super::*;

    const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    #[test]
    fn tokens_are_kept_where_everybody_looks_for_them() {
        let token_of = Token::known("abc").unwrap();
        let own = auth_token("liqo", &token_of);
        assert_eq!(shape(&own), json!({"name": "auth-token", "namespace": "liqo"}));
        assert_eq!(token(&own).unwrap().reveal(), "abc");

        let remote = remote_token("liqo", &milan(), &token_of);
        let labels =
            json!({"discovery.liqo.io/auth-token": "", "discovery.liqo.io/cluster-id": MILAN});
        let name = format!("remote-token-{MILAN}");
        assert_eq!(shape(&remote), json!({"name": name, "namespace": "liqo", "labels": labels}));
        assert!(token(&Secret::default()).is_none());
    }

    #[test]
    fn an_identity_carries_what_a_client_needs_and_when_it_ends() {
        let (pem, until) = certificate();
        let reply =
            CertificateReply::new("theirs", &pem, "https://198.18.0.1:6443", Some("authority"));
        let key = "key".to_owned().into();
        let secret = identity("ours", &milan(), &key, &reply, Some("http://198.18.0.9:8118"));
        let secret = secret.unwrap();
        let want = json!({
            "generateName": "liqo-identity-",
            "namespace": "ours",
            "annotations": {"discovery.liqo.io/certificate-expire-time": until.to_string()},
            "labels": {
                "discovery.liqo.io/certificate-available": "true",
                "discovery.liqo.io/cluster-id": MILAN,
                "discovery.liqo.io/local-identity": "true",
            },
        });
        assert_eq!(shape(&secret), want);
        let keys: Vec<_> = secret.data.iter().flatten().map(|(key, _)| key.as_str()).collect();
        let all =
            ["apiServerCa", "apiServerUrl", "certificate", "namespace", "private-key", "proxyURL"];
        assert_eq!(keys, all);
        assert_eq!(validity(&secret).unwrap().until.as_second(), until);
        assert!(is_through(&secret, Some("http://198.18.0.9:8118")));
        assert!(!is_through(&secret, None) && is_through(&Secret::default(), None));
        assert_eq!(secret.type_.as_deref(), Some("Opaque"));
    }

    #[test]
    fn a_useless_reply_is_not_kept() {
        let (pem, _) = certificate();
        let keep = |reply: &CertificateReply| {
            identity("ours", &milan(), &"key".to_owned().into(), reply, None).unwrap_err()
        };
        let url = "https://198.18.0.1:6443";
        let reply = CertificateReply::new("", &pem, url, None);
        assert_eq!(keep(&reply), BadReply::Missing("namespace"));
        let reply = CertificateReply::new("theirs", "hello", url, None);
        assert_eq!(
            keep(&reply).to_string(),
            "the peer sent something that is not a certificate in PEM"
        );
        let mut reply = CertificateReply::new("theirs", &pem, url, None);
        reply.aws.access_key_id = "AKIA".to_owned();
        assert_eq!(keep(&reply), BadReply::Aws);
    }

    #[test]
    fn what_was_issued_is_read_back() {
        let issued = Issued { request: "csr".to_owned(), certificate: "pem".to_owned() };
        let mut secret = issued.secret("tenant", &milan());
        assert_eq!(Issued::read(&secret), Some(issued));
        secret.data.as_mut().unwrap().remove(field::CSR);
        assert_eq!(Issued::read(&secret), None);
    }

    #[test]
    fn the_identity_that_lasts_longest_is_used() {
        let secret = |name: &str, expiry: Option<&str>| {
            let expiry = expiry.map(|text| {
                BTreeMap::from([(annotation::CERTIFICATE_EXPIRE_TIME.to_owned(), text.to_owned())])
            });
            let name = Some(name.to_owned());
            let metadata = ObjectMeta { name, annotations: expiry, ..ObjectMeta::default() };
            Secret { metadata, ..Secret::default() }
        };
        let secrets = [
            secret("old", Some("500")),
            secret("silent", None),
            secret("new", Some("2000")),
            secret("wrong", Some("soon")),
        ];
        let now = Timestamp::from_second(1000).unwrap();
        let name = |secrets: &[Secret]| latest(secrets, now).unwrap().metadata.name.clone();
        assert_eq!(name(&secrets).as_deref(), Some("new"));
        assert_eq!(name(&secrets[..2]).as_deref(), Some("silent"));
        assert!(latest(&[], now).is_none());
    }

    fn shape(secret: &Secret) -> serde_json::Value {
        serde_json::to_value(&secret.metadata).unwrap()
    }

    fn certificate() -> (String, i64) {
        let params = CertificateParams::default();
        let until = params.not_after.unix_timestamp();
        (params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem(), until)
    }

    fn milan() -> ClusterId {
        MILAN.parse().unwrap()
    }
}

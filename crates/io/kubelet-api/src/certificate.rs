//! The certificate that the port is served with: asked for, waited for, and renewed in time.
//!
//! The key never leaves the process; who starts again asks again.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use clap::ValueEnum;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::object;
use liqo_identity::certificate::{NoCertificate, Validity};
use liqo_kit::keyed::chain;
use liqo_kit::retry::Backoff;
use liqo_kit::tls::{self, Pair, Replace};
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ED25519, SanType};
use time::OffsetDateTime;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// How long a request may go unanswered before another one is made.
const PATIENCE: Duration = Duration::from_mins(15);
/// How long a certificate that vouches for itself lasts.
const LIFE: Duration = Duration::from_hours(365 * 24);
/// How long before its end such a one is replaced.
const MARGIN: SignedDuration = SignedDuration::from_hours(24);
/// The longest pause between two looks at the clock, which may be set.
const NAP: Duration = Duration::from_hours(1);

/// Where the certificate of a virtual kubelet comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CertificateType {
    /// From the signer of kubelets.
    #[default]
    Kubelet,
    /// From the signer of EKS.
    Aws,
    /// From itself.
    SelfSigned,
}

/// There is no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot make a key and a signing request")]
    Make(#[from] rcgen::Error),
    #[error("cannot {action}")]
    Request { action: &'static str, source: kube::Error },
    #[error("cannot wait for signing request {name}")]
    Wait { name: String, source: kube::runtime::wait::Error },
    #[error("signing request {name} was refused: {reason}")]
    Refused { name: String, reason: String },
    #[error(
        "signing request {name} is still without a certificate; see kubectl describe csr {name}, and \
         whether liqo-controller-manager and a signer for it run"
    )]
    Late { name: String },
    #[error("signing request {name} is gone")]
    Gone { name: String },
    #[error("what was signed for {name} is of no use")]
    Unreadable { name: String, source: NoCertificate },
    #[error(transparent)]
    Use(#[from] tls::Error),
}

/// What the certificate has to say.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) node: String,
    pub(crate) address: IpAddr,
    pub(crate) source: CertificateType,
}

impl Wanted {
    /// A certificate, however long it takes.
    pub(crate) async fn obtain(&self, client: &Client) -> Pair {
        let backoff = Backoff { first: Duration::from_secs(1), limit: Duration::from_mins(5) };
        let mut failures = 0;
        loop {
            match self.try_to_obtain(client).await {
                Ok(pair) => return pair,
                Err(error) => {
                    failures += 1;
                    let pause = backoff.jittered(failures);
                    warn!(node = self.node, error = chain(&error), ?pause, "No certificate");
                    sleep(pause).await;
                }
            }
        }
    }

    /// Replaces a certificate whenever its time has come; never ends.
    pub(crate) async fn renew(&self, client: &Client, first: Pair, replace: Replace) {
        let mut pair = first;
        let mut since = Timestamp::now();
        loop {
            let due = self.due(&pair, since);
            loop {
                let now = Timestamp::now();
                if now >= due {
                    break;
                }
                let left = Duration::try_from(due.duration_since(now)).unwrap_or(NAP);
                sleep(left.min(NAP)).await;
            }
            pair = self.obtain(client).await;
            since = Timestamp::now();
            match replace.with(&pair) {
                Ok(()) => info!(node = self.node, "Certificate renewed"),
                Err(error) => warn!(error = chain(&error), "Certificate not renewed"),
            }
        }
    }

    /// When the next certificate is asked for.
    fn due(&self, pair: &Pair, since: Timestamp) -> Timestamp {
        let Ok(validity) = Validity::of(&pair.certificate) else { return since };
        match self.source {
            CertificateType::SelfSigned => {
                validity.until.checked_sub(MARGIN).unwrap_or(validity.until)
            }
            CertificateType::Kubelet | CertificateType::Aws => validity.due_since(since),
        }
    }

    async fn try_to_obtain(&self, client: &Client) -> Result<Pair, Error> {
        match self.source {
            CertificateType::Kubelet => self.ask(client, object::SIGNER_KUBELET).await,
            CertificateType::Aws => self.ask(client, object::SIGNER_EKS).await,
            CertificateType::SelfSigned => self.vouch(OffsetDateTime::now_utc()),
        }
    }

    fn params(&self, organization: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        params.distinguished_name.push(DnType::CommonName, format!("system:node:{}", self.node));
        params.subject_alt_names = vec![SanType::IpAddress(self.address)];
        params
    }

    /// A certificate that vouches for itself.
    fn vouch(&self, now: OffsetDateTime) -> Result<Pair, Error> {
        let mut params = self.params(object::PEER_GROUP);
        params.not_before = now;
        params.not_after = now + LIFE;
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let certificate = params.self_signed(&key)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// A certificate that a signer of the cluster made.
    async fn ask(&self, client: &Client, signer: &str) -> Result<Pair, Error> {
        let key = KeyPair::generate()?;
        let request = self.params("system:nodes").serialize_request(&key)?.pem()?;
        let request = CertificateSigningRequest {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", self.node)),
                ..ObjectMeta::default()
            },
            spec: CertificateSigningRequestSpec {
                request: ByteString(request.into_bytes()),
                signer_name: signer.to_owned(),
                usages: Some(
                    ["digital signature", "key encipherment", "server auth"]
                        .map(str::to_owned)
                        .into(),
                ),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        };
        let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
        let made = requests.create(&PostParams::default(), &request).await;
        let made =
            made.map_err(|source| Error::Request { action: "make a signing request", source })?;
        let name = made.name_any();
        info!(request = name, signer, "Certificate requested");
        let decided =
            await_condition(requests, &name, |found: Option<&_>| found.is_none_or(is_decided));
        let found =
            timeout(PATIENCE, decided).await.map_err(|_| Error::Late { name: name.clone() })?;
        let found = found.map_err(|source| Error::Wait { name: name.clone(), source })?;
        let found = found.ok_or_else(|| Error::Gone { name: name.clone() })?;
        if let Some(condition) = refusal(&found) {
            let mut reason = condition.reason.clone().unwrap_or_default();
            let _ = write!(reason, " {}", condition.message.as_deref().unwrap_or_default());
            return Err(Error::Refused { name, reason: reason.trim().to_owned() });
        }
        let certificate = found.status.and_then(|status| status.certificate).unwrap_or_default();
        let certificate = String::from_utf8_lossy(&certificate.0).into_owned();
        Validity::of(&certificate).map_err(|source| Error::Unreadable { name, source })?;
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}

/// Whether there is a certificate, or never will be.
fn is_decided(request: &CertificateSigningRequest) -> bool {
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    certificate.is_some_and(|certificate| !certificate.0.is_empty()) || refusal(request).is_some()
}

fn refusal(request: &CertificateSigningRequest) -> Option<&CertificateSigningRequestCondition> {
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions?.iter().find(|condition| ["Denied", "Failed"].contains(&condition.type_.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_our_own_is_replaced_a_day_before_its_end() {
        let wanted = wanted(CertificateType::SelfSigned);
        let start = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let pair = wanted.vouch(start).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let end = now + SignedDuration::from_hours(365 * 24);
        assert_eq!(wanted.due(&pair, now), end - SignedDuration::from_hours(24));
        assert!(pair.certificate.contains("BEGIN CERTIFICATE"));
    }

    #[test]
    fn a_signed_certificate_is_renewed_in_the_last_third_of_its_life() {
        let wanted = wanted(CertificateType::Kubelet);
        let start = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let pair = wanted.vouch(start).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        assert_eq!(wanted.due(&pair, now), now + SignedDuration::from_hours(365 * 16));
    }

    #[tokio::test]
    async fn a_certificate_that_ends_soon_is_replaced_while_it_is_used() {
        let wanted = wanted(CertificateType::SelfSigned);
        let old =
            wanted.vouch(OffsetDateTime::now_utc() - LIFE + Duration::from_hours(12)).unwrap();
        let (mut certificate, replace) = tls::Certificate::given(&old).unwrap();
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        tokio::select! {
            () = wanted.renew(&client, old, replace) => {}
            changed = certificate.changed() => assert!(changed),
        }
    }

    #[test]
    fn a_request_is_decided_when_it_is_signed_or_refused() {
        let request = |status| -> CertificateSigningRequest {
            serde_json::from_value(serde_json::json!({
                "metadata": {}, "status": status,
                "spec": {"request": "", "signerName": "kubernetes.io/kubelet-serving"},
            }))
            .unwrap()
        };
        let condition = |kind: &str| serde_json::json!({"type": kind, "status": "True"});
        assert!(!is_decided(&request(serde_json::json!({}))));
        let approved = serde_json::json!({"conditions": [condition("Approved")]});
        assert!(!is_decided(&request(approved)), "it is not signed yet");
        assert!(is_decided(&request(serde_json::json!({"conditions": [condition("Denied")]}))));
        assert!(is_decided(&request(serde_json::json!({"certificate": "YQ=="}))));
    }

    fn wanted(source: CertificateType) -> Wanted {
        Wanted { node: "liqo-milan".to_owned(), address: [10, 0, 0, 9].into(), source }
    }
}

//! Whether a peer is given a certificate, and which; with the objects that it takes.
//!
//! ```text
//!                 issued before?
//!                  │no        │yes
//!                sign     the same key?
//!                          │yes          │no
//!            time to renew?              token checked, or the old one has ended?
//!              │yes    │no                │yes       │no
//!             sign   the stored one      sign      refuse
//! ```

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use liqo_api::keys::{label, object, reason};
use liqo_api::names::ClusterId;

use crate::certificate::Validity;
use crate::secret::Issued;
use crate::signing::{Flaw, SigningRequest};

/// How an answer begins that refuses a second identity; peers recognise it by this.
pub const ALREADY_ISSUED: &str = "an identity has already been issued";

/// What is done about a signing request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The stored certificate is returned once more.
    Return(String),
    /// A certificate is signed.
    Sign(Occasion),
    /// Nothing is signed.
    Refuse,
}

/// Why a certificate is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The peer has none yet.
    First,
    /// The one it has ends soon, or has ended.
    Renewal,
    /// The peer has lost its key, and made another one.
    Loss,
}

/// Decides what is done about a request that passed its checks.
///
/// `authenticated` says whether the peer had to present a token: with it, another key is as good as
/// the first one was; without it, anybody could take the place of a peer.
pub fn decide(
    issued: Option<&Issued>,
    request: &SigningRequest,
    authenticated: bool,
    now: Timestamp,
) -> Decision {
    let Some(issued) = issued else { return Decision::Sign(Occasion::First) };
    let validity = Validity::of(&issued.certificate).ok();
    let is_due = validity.is_none_or(|validity| validity.is_due(now));
    let has_ended = validity.is_none_or(|validity| validity.has_ended(now));
    if request.has_the_key_of(&issued.request) {
        if is_due {
            Decision::Sign(Occasion::Renewal)
        } else {
            Decision::Return(issued.certificate.clone())
        }
    } else if authenticated || has_ended {
        Decision::Sign(Occasion::Loss)
    } else {
        Decision::Refuse
    }
}

/// The request to Kubernetes to sign what a peer asks for.
pub fn kubernetes_request(request: &SigningRequest) -> CertificateSigningRequest {
    let usages = ["digital signature", "key encipherment", "client auth"];
    let labels = [(label::REMOTE_TENANT_CSR, label::TRUE)];
    CertificateSigningRequest {
        metadata: ObjectMeta {
            generate_name: Some(object::IDENTITY_SECRET_PREFIX.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            groups: Some(vec!["system:authenticated".to_owned()]),
            request: ByteString(request.pem().into()),
            signer_name: object::SIGNER_CLIENT.to_owned(),
            usages: Some(usages.map(str::to_owned).into()),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}

/// The word that lets Kubernetes sign.
pub fn approval(peer: &ClusterId, now: Timestamp) -> CertificateSigningRequestCondition {
    CertificateSigningRequestCondition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: Some(reason::CSR_PEER_IDENTITY.to_owned()),
        message: Some(format!("This is the identity of cluster {peer}")),
        last_update_time: Some(Time(now)),
        last_transition_time: None,
    }
}

/// What became of a request to Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing yet.
    Waiting,
    /// It has been signed; the certificate in PEM.
    Signed(String),
    /// It will not be signed, for this reason.
    Failed(String),
}

/// Reads what became of a request to Kubernetes.
pub fn progress(request: &CertificateSigningRequest) -> Progress {
    let Some(status) = &request.status else { return Progress::Waiting };
    let certificate = status.certificate.as_ref().map(|bytes| String::from_utf8_lossy(&bytes.0));
    if let Some(pem) = certificate.filter(|pem| !pem.trim().is_empty()) {
        return Progress::Signed(pem.into_owned());
    }
    let ends = |kind: &str| matches!(kind, "Denied" | "Failed");
    let conditions = status.conditions.iter().flatten();
    match conditions.into_iter().find(|condition| ends(&condition.type_)) {
        Some(condition) => {
            let message = condition.message.as_deref().unwrap_or("no reason was given");
            Progress::Failed(format!("{}: {message}", condition.type_))
        }
        None => Progress::Waiting,
    }
}

/// Why a peer is not given an identity: a status of HTTP, and a sentence for the peer's user.
///
/// No sentence repeats a token, right or wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request is malformed.
    #[error("cannot read the request: {0}")]
    Malformed(String),
    /// The token is wrong, or missing.
    #[error(
        "invalid token: run \"liqoctl generate peer-command\" in this cluster for the right one"
    )]
    WrongToken,
    /// The signing request asks for what the peer may not have.
    #[error("cannot sign the request: {0}")]
    Flawed(#[from] Flaw),
    /// Another identity is in use, and nobody proved to be the same peer.
    #[error(
        "{ALREADY_ISSUED} to cluster {0}, for another key; to let it ask again, delete Secret \
         {secret} in its tenant namespace",
        secret = object::REMOTE_CERTIFICATE_SECRET
    )]
    AlreadyIssued(ClusterId),
    /// The cluster that asks is this one.
    #[error("cluster {0} asks itself for an identity")]
    Oneself(ClusterId),
    /// Too many wrong tokens came of late.
    #[error("too many requests with a wrong token; try again in a minute")]
    TooMany,
    /// The API server of this cluster did not allow it.
    #[error("this cluster does not allow it: {0}")]
    Forbidden(String),
    /// Something in this cluster failed.
    #[error("cannot issue an identity: {0}")]
    Failed(String),
}

impl Refusal {
    /// The status of HTTP.
    pub fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) | Self::Flawed(Flaw::Unreadable) => 400,
            Self::WrongToken => 401,
            Self::Flawed(_) | Self::AlreadyIssued(_) | Self::Oneself(_) | Self::Forbidden(_) => 403,
            Self::TooMany => 429,
            Self::Failed(_) => 500,
        }
    }

    /// The sentence as it is sent.
    pub fn body(&self) -> String {
        format!("{self}\n")
    }
}

/// Labels of what is kept for a peer.
pub(crate) fn labels(peer: &ClusterId) -> BTreeMap<String, String> {
    BTreeMap::from([(label::CLUSTER_ID.to_owned(), peer.to_string())])
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::certificates::v1::CertificateSigningRequestStatus;
    use rcgen::{CertificateParams, KeyPair};
    use time::OffsetDateTime;

    use super::*;
    use crate::signing::Application;

    const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";

    #[test]
    fn the_first_request_is_signed() {
        let (request, _) = made();
        for authenticated in [true, false] {
            let decision = decide(None, &request, authenticated, at(0));
            assert_eq!(decision, Decision::Sign(Occasion::First));
        }
    }

    #[test]
    fn the_same_key_gets_the_same_certificate_until_it_is_time_to_renew() {
        let (request, issued) = made();
        for authenticated in [true, false] {
            let decide = |now| decide(Some(&issued), &request, authenticated, at(now));
            assert_eq!(decide(1199), Decision::Return(issued.certificate.clone()));
            assert_eq!(decide(1200), Decision::Sign(Occasion::Renewal));
            assert_eq!(decide(5000), Decision::Sign(Occasion::Renewal));
        }
    }

    #[test]
    fn another_key_needs_a_token_while_the_old_certificate_is_good() {
        let ((_, issued), (other, _)) = (made(), made());
        let decide = |authenticated, now| decide(Some(&issued), &other, authenticated, at(now));
        assert_eq!(decide(true, 1100), Decision::Sign(Occasion::Loss));
        assert_eq!(decide(false, 1100), Decision::Refuse);
        assert_eq!(decide(false, 1300), Decision::Sign(Occasion::Loss));
    }

    #[test]
    fn a_stored_certificate_that_cannot_be_read_does_not_stand_in_the_way() {
        let (request, mut issued) = made();
        issued.certificate = "hello".to_owned();
        let decision = decide(Some(&issued), &request, false, at(1100));
        assert_eq!(decision, Decision::Sign(Occasion::Renewal));
    }

    #[test]
    fn progress_is_read_from_the_status() {
        let (request, _) = made();
        let mut object = kubernetes_request(&request);
        assert_eq!(progress(&object), Progress::Waiting);
        let peer = ROME.parse().unwrap();
        let approved = CertificateSigningRequestStatus {
            conditions: Some(vec![approval(&peer, at(1))]),
            certificate: None,
        };
        object.status = Some(approved.clone());
        assert_eq!(progress(&object), Progress::Waiting);
        let failed = CertificateSigningRequestCondition {
            type_: "Failed".to_owned(),
            message: Some("no such signer".to_owned()),
            ..approval(&peer, at(1))
        };
        object.status.get_or_insert_default().conditions = Some(vec![failed]);
        assert_eq!(progress(&object), Progress::Failed("Failed: no such signer".to_owned()));
        let certificate = Some(ByteString(b"PEM".to_vec()));
        object.status = Some(CertificateSigningRequestStatus { certificate, ..approved });
        assert_eq!(progress(&object), Progress::Signed("PEM".to_owned()));
    }

    #[test]
    fn refusals_are_one_line_with_the_status_peers_expect() {
        let flaw = Flaw::Organization("admins".to_owned());
        let id: ClusterId = ROME.parse().unwrap();
        for (refusal, status) in [
            (Refusal::Malformed("no JSON".to_owned()), 400),
            (Refusal::WrongToken, 401),
            (Refusal::Flawed(Flaw::Unreadable), 400),
            (Refusal::Flawed(flaw), 403),
            (Refusal::AlreadyIssued(id.clone()), 403),
            (Refusal::Oneself(id), 403),
            (Refusal::TooMany, 429),
            (Refusal::Forbidden("quota".to_owned()), 403),
            (Refusal::Failed("no disk".to_owned()), 500),
        ] {
            assert_eq!(refusal.status(), status);
            assert_eq!(refusal.body().matches('\n').count(), 1, "{refusal}");
            assert!(refusal.body().ends_with('\n'));
        }
    }

    #[test]
    fn a_second_identity_is_refused_in_words_that_peers_recognise() {
        let text = Refusal::AlreadyIssued(ROME.parse().unwrap()).to_string();
        assert!(text.starts_with(ALREADY_ISSUED), "{text}");
    }

    /// A request, and what was stored when it was signed; good from second 1000 to 1300.
    fn made() -> (SigningRequest, Issued) {
        let cluster = ROME.parse().unwrap();
        let application = Application::new(&cluster).unwrap();
        let request = SigningRequest::check(&application.request, &cluster).unwrap();
        let mut params = CertificateParams::default();
        let moment = |second| OffsetDateTime::from_unix_timestamp(second).unwrap();
        (params.not_before, params.not_after) = (moment(1000), moment(1300));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        (request, Issued { request: application.request, certificate })
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}

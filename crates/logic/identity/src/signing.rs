//! Signing requests: made for ourselves, and checked when they come from peers.
//!
//! Kubernetes takes the user and the groups of a certificate from its subject. Whoever could choose
//! the subject freely could be anybody, so it has to name the cluster that asks, the group of peers
//! and nothing else.

use liqo_api::keys::object::PEER_GROUP;
use liqo_api::names::ClusterId;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519};
use secrecy::SecretString;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

const BLOCK: &str = "CERTIFICATE REQUEST";

/// A private key, and the request to certify it; both in PEM.
#[derive(Clone, Debug)]
pub struct Application {
    /// The private key, in PKCS#8.
    pub key: SecretString,
    /// The signing request.
    pub request: String,
}

/// A key or a request cannot be made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot make a signing request")]
pub struct CannotApply(#[from] rcgen::Error);

impl Application {
    /// Makes a key, and the request of a cluster to certify it.
    pub fn new(cluster: &ClusterId) -> Result<Self, CannotApply> {
        Self::sign(cluster, &KeyPair::generate_for(&PKCS_ED25519)?)
    }

    /// The request of a cluster to certify a key it already has; for renewals.
    pub fn again(cluster: &ClusterId, key: &str) -> Result<Self, CannotApply> {
        Self::sign(cluster, &KeyPair::from_pem(key)?)
    }

    fn sign(cluster: &ClusterId, key: &KeyPair) -> Result<Self, CannotApply> {
        let mut subject = DistinguishedName::new();
        subject.push(DnType::OrganizationName, PEER_GROUP);
        subject.push(DnType::CommonName, cluster.as_str());
        let mut params = CertificateParams::default();
        params.distinguished_name = subject;
        let request = params.serialize_request(key)?.pem()?;
        Ok(Self { key: key.serialize_pem().into(), request })
    }
}

/// Why a signing request of a peer is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It cannot be read.
    #[error("it is not one signing request in PEM")]
    Unreadable,
    /// It was not made by who has the key.
    #[error("its signature does not fit its key")]
    Signature,
    /// It is for another cluster.
    #[error("its common name is '{found}', and the cluster that asks is '{claimed}'")]
    CommonName {
        /// The name in the request.
        found: String,
        /// The cluster that asks.
        claimed: ClusterId,
    },
    /// It asks for another group.
    #[error("its organization is '{0}' instead of '{PEER_GROUP}'")]
    Organization(String),
    /// Its subject says more.
    #[error("its subject has more than one common name and one organization")]
    Subject,
    /// It asks for more than a name and a group.
    #[error("it asks for extensions of the certificate")]
    Extensions,
}

/// A signing request of a peer that asks for what it may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningRequest {
    pem: String,
    public_key: Vec<u8>,
}

impl SigningRequest {
    /// Checks a request in PEM of a cluster that says who it is.
    pub fn check(pem: &str, claimed: &ClusterId) -> Result<Self, Flaw> {
        let block = only_block(pem)?;
        let request = parse(&block)?;
        request.verify_signature().map_err(|_| Flaw::Signature)?;
        let info = &request.certification_request_info;
        check_subject(&info.subject, claimed)?;
        // Other attributes, such as a challenge, do not end up in the certificate.
        let asks_more = |attribute: &ParsedCriAttribute<'_>| {
            matches!(attribute, ParsedCriAttribute::ExtensionRequest(request)
                if !request.extensions.is_empty())
        };
        if info.iter_attributes().any(|attribute| asks_more(attribute.parsed_attribute())) {
            return Err(Flaw::Extensions);
        }
        Ok(Self { pem: pem.to_owned(), public_key: info.subject_pki.raw.to_vec() })
    }

    /// The request as it came.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Whether another request, in PEM, is for the same key.
    pub fn has_the_key_of(&self, other: &str) -> bool {
        let Ok(block) = only_block(other) else { return false };
        let Ok(request) = parse(&block) else { return false };
        request.certification_request_info.subject_pki.raw == self.public_key
    }
}

fn only_block(pem: &str) -> Result<Pem, Flaw> {
    let mut blocks = Pem::iter_from_buffer(pem.as_bytes());
    let (Some(Ok(block)), None) = (blocks.next(), blocks.next()) else {
        return Err(Flaw::Unreadable);
    };
    if block.label == BLOCK { Ok(block) } else { Err(Flaw::Unreadable) }
}

fn parse(block: &Pem) -> Result<X509CertificationRequest<'_>, Flaw> {
    match X509CertificationRequest::from_der(&block.contents) {
        Ok(([], request)) => Ok(request),
        Ok(_) | Err(_) => Err(Flaw::Unreadable),
    }
}

fn check_subject(subject: &X509Name<'_>, claimed: &ClusterId) -> Result<(), Flaw> {
    if subject.iter_attributes().count() != 2 {
        return Err(Flaw::Subject);
    }
    let name = only(subject.iter_common_name())?;
    if name != claimed.as_str() {
        return Err(Flaw::CommonName { found: name.to_owned(), claimed: claimed.clone() });
    }
    let group = only(subject.iter_organization())?;
    if group != PEER_GROUP {
        return Err(Flaw::Organization(group.to_owned()));
    }
    Ok(())
}

fn only<'a>(
    mut values: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>,
) -> Result<&'a str, Flaw> {
    match (values.next(), values.next()) {
        (Some(value), None) => value.as_str().map_err(|_| Flaw::Unreadable),
        (_, Some(_)) | (None, None) => Err(Flaw::Subject),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
    const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    #[test]
    fn our_own_requests_pass() {
        let made = Application::new(&id(ROME)).unwrap();
        assert!(made.key.expose_secret().starts_with("-----BEGIN PRIVATE KEY-----"));
        let checked = SigningRequest::check(&made.request, &id(ROME)).unwrap();
        assert_eq!(checked.pem(), made.request);
    }

    #[test]
    fn a_cluster_asks_for_itself_only() {
        let made = Application::new(&id(ROME)).unwrap();
        let error = SigningRequest::check(&made.request, &id(MILAN)).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("its common name is '{ROME}', and the cluster that asks is '{MILAN}'")
        );
    }

    #[test]
    fn nobody_asks_for_another_group() {
        let admin = request(&[(DnType::CommonName, ROME), (DnType::OrganizationName, "admins")]);
        assert_eq!(check(&admin), Err(Flaw::Organization("admins".to_owned())));
        assert_eq!(check(&request(&[(DnType::CommonName, ROME)])), Err(Flaw::Subject));
        let more = request(&[
            (DnType::CommonName, ROME),
            (DnType::OrganizationName, PEER_GROUP),
            (DnType::OrganizationalUnitName, "more"),
        ]);
        assert_eq!(check(&more), Err(Flaw::Subject));
    }

    #[test]
    fn nobody_asks_for_names_of_hosts() {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::new(vec!["api.rome".to_owned()]).unwrap();
        params.distinguished_name =
            subject(&[(DnType::CommonName, ROME), (DnType::OrganizationName, PEER_GROUP)]);
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        assert_eq!(check(&pem), Err(Flaw::Extensions));
    }

    #[test]
    fn a_request_that_was_changed_is_refused() {
        let made = Application::new(&id(ROME)).unwrap();
        let block = only_block(&made.request).unwrap();
        let mut bytes = block.contents.clone();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(check(&encode(&bytes)), Err(Flaw::Signature));
        bytes.push(0);
        assert_eq!(check(&encode(&bytes)), Err(Flaw::Unreadable), "nothing may follow");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let twice = Application::new(&id(ROME)).unwrap().request.repeat(2);
        for text in ["", "hello", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA", &twice] {
            assert_eq!(check(text), Err(Flaw::Unreadable), "{text}");
        }
    }

    #[test]
    fn a_renewal_is_told_by_its_key() {
        let made = Application::new(&id(ROME)).unwrap();
        let again = Application::again(&id(ROME), made.key.expose_secret()).unwrap();
        let other = Application::new(&id(ROME)).unwrap();
        let checked = SigningRequest::check(&again.request, &id(ROME)).unwrap();
        assert!(checked.has_the_key_of(&made.request));
        assert!(!checked.has_the_key_of(&other.request));
        assert!(!checked.has_the_key_of("hello"));
    }

    fn check(pem: &str) -> Result<(), Flaw> {
        SigningRequest::check(pem, &id(ROME)).map(|_| ())
    }

    fn request(values: &[(DnType, &str)]) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(values);
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    }

    fn subject(values: &[(DnType, &str)]) -> DistinguishedName {
        let mut subject = DistinguishedName::new();
        for (kind, value) in values {
            subject.push(kind.clone(), *value);
        }
        subject
    }

    fn encode(der: &[u8]) -> String {
        use base64::Engine as _;
        let text = base64::prelude::BASE64_STANDARD.encode(der);
        format!("-----BEGIN {BLOCK}-----\n{text}\n-----END {BLOCK}-----\n")
    }

    fn id(text: &str) -> ClusterId {
        text.parse().unwrap()
    }
}

//! Whom a cluster vouches for: the authorities that Kubernetes publishes for those who extend it.
//!
//! Kubernetes keeps a ConfigMap that names who signs the certificates of its users, and who signs the
//! certificate that its API server shows to extensions. Whoever serves inside a cluster knows its
//! callers by that. As long as the ConfigMap could not be read, nobody is known; once it was, what was
//! read last counts until it changes.

use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::object;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use tracing::{info, warn};
use x509_parser::parse_x509_certificate;

use crate::watch::{Key, watch};

/// The ConfigMap that Kubernetes publishes it in.
const PUBLISHED: &str = "extension-apiserver-authentication";
/// Who signs the certificates of users, in PEM.
const USERS: &str = "client-ca-file";
/// Who signs the certificate that the API server shows to extensions, in PEM.
const API_SERVER: &str = "requestheader-client-ca-file";
/// The names that certificate may carry, as a list in JSON; none is any.
const API_SERVER_NAMES: &str = "requestheader-allowed-names";

/// Whose certificates an authority signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// Those of everybody who may talk to the API server; that of the API server, too, when it talks
    /// to kubelets.
    Users,
    /// That of the API server, when it talks to extensions of its API.
    ApiServer,
}

/// Who somebody is, by a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The common name.
    pub user: String,
    /// The organizations.
    pub groups: Vec<String>,
}

/// What is published.
#[derive(Debug)]
struct Rules {
    verifier: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
}

impl Rules {
    fn read(map: &ConfigMap, signs: Signs) -> Result<Self, String> {
        let data = map.data.as_ref();
        let text = |key: &str| data.and_then(|data| data.get(key)).map(String::as_str);
        let (key, lacks) = match signs {
            Signs::Users => (USERS, "the API server accepts no certificates"),
            Signs::ApiServer => (API_SERVER, "the aggregation layer is off"),
        };
        let authority = text(key).ok_or_else(|| format!("{PUBLISHED} has no {key}: {lacks}"))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        let names = match signs {
            Signs::Users => Ok(Vec::new()),
            Signs::ApiServer => serde_json::from_str(text(API_SERVER_NAMES).unwrap_or("[]")),
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| error.to_string())?;
        let names = names.map_err(|error| format!("{API_SERVER_NAMES}: {error}"))?;
        Ok(Self { verifier, names })
    }

    fn allows(&self, certificate: &CertificateDer<'_>) -> bool {
        let names = || subject(certificate).map(|subject| subject.user);
        self.names.is_empty() || names().is_some_and(|name| self.names.contains(&name))
    }
}

/// An authority of a cluster, as it is known now; a clone follows it, too.
#[derive(Clone, Debug)]
pub struct Authority {
    signs: Signs,
    rules: Arc<RwLock<Option<Arc<Rules>>>>,
}

impl Authority {
    /// An authority that is not known yet.
    pub fn new(signs: Signs) -> Self {
        Self { signs, rules: Arc::default() }
    }

    /// Follows what is published, and says when something is known; never ends.
    pub async fn follow(self, client: Client, tell_known: impl Fn() + Send) {
        let maps: Api<ConfigMap> = Api::namespaced(client, object::SYSTEM_NAMESPACE);
        let config = Config::default().fields(&format!("metadata.name={PUBLISHED}"));
        let (store, touched) = watch(maps, config);
        let mut touched = pin!(touched);
        let key = Key::namespaced(object::SYSTEM_NAMESPACE, PUBLISHED);
        while touched.next().await.is_some() {
            let Some(map) = store.object(&key) else { continue };
            match self.learn(&map) {
                Ok(()) => {
                    info!(signs = ?self.signs, "Knows who signs for its callers");
                    tell_known();
                }
                Err(reason) => warn!(reason, "Does not know who signs for its callers"),
            }
        }
    }

    /// Who shows a chain of certificates, if the authority vouches for it now.
    pub fn identify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Subject, Error> {
        let (certificate, chain) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        self.verify(certificate, chain, now)?;
        subject(certificate).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
    }

    /// Lets only those in whom the authority vouches for.
    pub fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(Door(Some(self.clone())))
    }

    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner).clone();
        let rules = rules.ok_or_else(|| Error::General("callers are not known yet".to_owned()))?;
        let verified = rules.verifier.verify_client_cert(certificate, chain, now)?;
        if rules.allows(certificate) {
            Ok(verified)
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn learn(&self, map: &ConfigMap) -> Result<(), String> {
        let rules = Rules::read(map, self.signs)?;
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(rules));
        Ok(())
    }
}

/// Asks callers for certificates and takes any, or none: who has one has its key, and that is all
/// that is known until an authority [identifies](Authority::identify) it.
pub fn any_certificate() -> Arc<dyn ClientCertVerifier> {
    Arc::new(Door(None))
}

fn subject(certificate: &CertificateDer<'_>) -> Option<Subject> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    let subject = certificate.subject();
    let mut users = subject.iter_common_name();
    let user = users.next()?.as_str().ok()?.to_owned();
    if users.next().is_some() {
        return None;
    }
    let groups = subject.iter_organization().map(|name| name.as_str().map(str::to_owned));
    Some(Subject { user, groups: groups.collect::<Result<_, _>>().ok()? })
}

/// Lets in whom an authority vouches for; without one, everybody.
#[derive(Debug)]
struct Door(Option<Authority>);

impl ClientCertVerifier for Door {
    fn client_auth_mandatory(&self) -> bool {
        self.0.is_some()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // None: a caller shows what it has.
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match &self.0 {
            Some(authority) => authority.verify(certificate, chain, now),
            None => Ok(ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    aws_lc_rs::default_provider().signature_verification_algorithms
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };

    use super::*;

    #[test]
    fn only_a_known_name_of_the_right_authority_is_let_in() {
        let (signer, stranger) = (Signer::new(), Signer::new());
        let authority = Authority::new(Signs::ApiServer);
        let server = signer.sign("front-proxy-client", "");
        assert!(!is_let_in(&authority, &server), "nobody is known yet");
        publish(
            &authority,
            &[(API_SERVER, &signer.pem), (API_SERVER_NAMES, r#"["front-proxy-client"]"#)],
        );
        assert!(is_let_in(&authority, &server));
        assert!(!is_let_in(&authority, &signer.sign("somebody", "")));
        assert!(!is_let_in(&authority, &stranger.sign("front-proxy-client", "")));
        publish(&authority, &[(API_SERVER, &signer.pem), (API_SERVER_NAMES, "[]")]);
        assert!(is_let_in(&authority, &signer.sign("somebody", "")), "any name will do");
    }

    #[test]
    fn a_user_is_who_its_certificate_says() {
        let (signer, stranger) = (Signer::new(), Signer::new());
        let authority = Authority::new(Signs::Users);
        let user = signer.sign("kube-apiserver-kubelet-client", "kubeadm:cluster-admins");
        assert!(identify(&authority, &user).is_err(), "nobody is known yet");
        publish(&authority, &[(USERS, &signer.pem)]);
        let known = Subject {
            user: "kube-apiserver-kubelet-client".to_owned(),
            groups: vec!["kubeadm:cluster-admins".to_owned()],
        };
        assert_eq!(identify(&authority, &user), Ok(known));
        assert!(identify(&authority, &stranger.sign("admin", "system:masters")).is_err());
        assert!(authority.identify(&[], now()).is_err(), "nothing was shown");
    }

    #[test]
    fn what_was_read_last_counts_when_the_next_is_broken() {
        let signer = Signer::new();
        let authority = Authority::new(Signs::Users);
        publish(&authority, &[(USERS, &signer.pem)]);
        let reason = authority.learn(&ConfigMap::default()).unwrap_err();
        assert!(reason.contains("has no client-ca-file"), "{reason}");
        assert!(identify(&authority, &signer.sign("admin", "")).is_ok());
    }

    #[test]
    fn without_an_aggregation_layer_the_reason_is_told() {
        let reason = Rules::read(&ConfigMap::default(), Signs::ApiServer).unwrap_err();
        assert!(reason.contains("aggregation layer is off"), "{reason}");
    }

    fn publish(authority: &Authority, data: &[(&str, &str)]) {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let map = ConfigMap { data: Some(data.collect()), ..ConfigMap::default() };
        authority.learn(&map).unwrap();
    }

    fn is_let_in(authority: &Authority, certificate: &CertificateDer<'_>) -> bool {
        authority.verifier().verify_client_cert(certificate, &[], now()).is_ok()
    }

    fn identify(authority: &Authority, shown: &CertificateDer<'_>) -> Result<Subject, Error> {
        authority.identify(std::slice::from_ref(shown), now())
    }

    fn now() -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_hours(500_000))
    }

    struct Signer {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Signer {
        fn new() -> Self {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let pem = params.self_signed(&key).unwrap().pem();
            Self { pem, issuer: Issuer::new(params, key) }
        }

        fn sign(&self, name: &str, group: &str) -> CertificateDer<'static> {
            let mut params = CertificateParams::new(vec![]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.distinguished_name.push(DnType::OrganizationName, group);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            params.signed_by(&key, &self.issuer).unwrap().der().clone()
        }
    }
}

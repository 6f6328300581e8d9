//! Who may call: the API server, known by the certificate it shows to extensions.
//!
//! Kubernetes publishes in a ConfigMap who signs that certificate and which names it may carry.

use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::object;
use liqo_kit::health::Check;
use liqo_kit::watch::{Key, watch};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs;
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

/// The ConfigMap that Kubernetes publishes it in.
const PUBLISHED: &str = "extension-apiserver-authentication";
/// Who signs, in PEM.
const AUTHORITY: &str = "requestheader-client-ca-file";
/// The names a certificate may carry, as a list in JSON; none is any.
const NAMES: &str = "requestheader-allowed-names";

/// What is published.
#[derive(Debug)]
struct Rules {
    verifier: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
}

impl Rules {
    fn read(map: &ConfigMap) -> Result<Self, String> {
        let data = map.data.as_ref();
        let text = |key: &str| data.and_then(|data| data.get(key)).map(String::as_str);
        let authority = text(AUTHORITY).ok_or_else(|| {
            format!("{PUBLISHED} has no {AUTHORITY}: the aggregation layer is off")
        })?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        let names = serde_json::from_str(text(NAMES).unwrap_or("[]"));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { verifier, names: names.map_err(|error| format!("{NAMES}: {error}"))? })
    }

    fn allows(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok((_, certificate)) = parse_x509_certificate(certificate) else { return false };
        let mut names =
            certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        self.names.is_empty() || names.any(|name| self.names.iter().any(|known| known == name))
    }
}

/// Lets the API server in, and nobody while it is not known who that is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApiServerOnly(Arc<RwLock<Option<Arc<Rules>>>>);

impl ApiServerOnly {
    pub(crate) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(self.clone())
    }

    /// Follows what is published; never ends.
    pub(crate) async fn follow(self, client: Client, known: Check) {
        let maps: Api<ConfigMap> = Api::namespaced(client, object::SYSTEM_NAMESPACE);
        let config = Config::default().fields(&format!("metadata.name={PUBLISHED}"));
        let (store, touched) = watch(maps, config);
        let mut touched = pin!(touched);
        let key = Key::namespaced(object::SYSTEM_NAMESPACE, PUBLISHED);
        while touched.next().await.is_some() {
            let Some(map) = store.object(&key) else { continue };
            match Rules::read(&map) {
                Ok(rules) => {
                    info!(names = ?rules.names, "Knows the API server");
                    *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(rules));
                    known.pass();
                }
                Err(reason) => warn!(reason, "Does not know the API server"),
            }
        }
    }

    fn rules(&self) -> Result<Arc<Rules>, Error> {
        let rules = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        rules.ok_or_else(|| Error::General("callers are not known yet".to_owned()))
    }
}

impl ClientCertVerifier for ApiServerOnly {
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
        let rules = self.rules()?;
        let verified = rules.verifier.verify_client_cert(certificate, chain, now)?;
        if rules.allows(certificate) {
            Ok(verified)
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.rules()?.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.rules()?.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
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
        let (authority, stranger) = (Authority::new(), Authority::new());
        let callers = ApiServerOnly::default();
        let server = authority.sign("front-proxy-client");
        assert!(!is_let_in(&callers, &server), "nobody is known yet");
        publish(&callers, &authority.pem, r#"["front-proxy-client"]"#);
        assert!(is_let_in(&callers, &server));
        assert!(!is_let_in(&callers, &authority.sign("somebody")));
        assert!(!is_let_in(&callers, &stranger.sign("front-proxy-client")));
        publish(&callers, &authority.pem, "[]");
        assert!(is_let_in(&callers, &authority.sign("somebody")), "any name will do");
    }

    #[test]
    fn without_an_aggregation_layer_the_reason_is_told() {
        let reason = Rules::read(&ConfigMap::default()).unwrap_err();
        assert!(reason.contains("aggregation layer is off"), "{reason}");
    }

    fn publish(callers: &ApiServerOnly, authority: &str, names: &str) {
        let data = [(AUTHORITY, authority), (NAMES, names)];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let map = ConfigMap { data: Some(data.into()), ..ConfigMap::default() };
        *callers.0.write().unwrap() = Some(Arc::new(Rules::read(&map).unwrap()));
    }

    fn is_let_in(callers: &ApiServerOnly, certificate: &CertificateDer<'_>) -> bool {
        let now = UnixTime::since_unix_epoch(Duration::from_hours(500_000));
        callers.verify_client_cert(certificate, &[], now).is_ok()
    }

    struct Authority {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Authority {
        fn new() -> Self {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let pem = params.self_signed(&key).unwrap().pem();
            Self { pem, issuer: Issuer::new(params, key) }
        }

        fn sign(&self, name: &str) -> CertificateDer<'static> {
            let mut params = CertificateParams::new(vec![]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            params.signed_by(&key, &self.issuer).unwrap().der().clone()
        }
    }
}

//! Serves over TLS with a certificate that may change while the program runs.
//!
//! The files are watched, not polled: the folders they are in tell when something in them changes,
//! which covers mounted Secrets, too, whose files change by the swap of a link.

mod files;
mod listener;
mod notice;

use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoClientAuth, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;
use tokio::sync::watch;
use tracing::{info, warn};

pub use self::files::ensure;
pub use self::listener::TlsListener;
use self::notice::Notice;
use crate::keyed::chain;

/// How much earlier than now a certificate had better begin: clocks of those who look at it may be late.
pub const HEAD_START: Duration = Duration::from_hours(1);

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A text is no certificate or no key.
    #[error("cannot read the certificate")]
    Parse(#[source] pem::Error),
    /// The key does not fit, or is of a kind that is not known.
    #[error("cannot use the certificate")]
    Use(#[source] rustls::Error),
    /// A folder cannot be watched.
    #[error("cannot watch {}", path.display())]
    Watch {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate")]
    Make(#[source] rcgen::Error),
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A certificate and its private key, both in PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Pair {
    /// Makes a certificate that vouches for itself, for names and addresses.
    pub fn self_signed(
        names: &[String],
        start: OffsetDateTime,
        length: Duration,
    ) -> Result<Self, Error> {
        let mut params = CertificateParams::new(names).map_err(Error::Make)?;
        params.not_before = start;
        params.not_after = start + length;
        let key = KeyPair::generate().map_err(Error::Make)?;
        let certificate = params.self_signed(&key).map_err(Error::Make)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// The certificate in use, as files have it.
pub struct Certificate {
    current: Arc<Current>,
    loads: watch::Receiver<u64>,
}

impl Certificate {
    /// Reads a certificate; the future follows its files, and never ends by itself.
    ///
    /// Files that cannot be used, for instance because they are half-written, leave the certificate
    /// as it was.
    pub fn follow(
        certificate: &Path,
        key: &Path,
    ) -> Result<(Self, impl Future<Output = io::Result<()>> + Send + use<>), Error> {
        let files = (certificate.to_owned(), key.to_owned());
        // Watched before it is read, so that no change falls in between.
        let mut notice = Notice::on([certificate, key])?;
        let current = Arc::new(Current(RwLock::new(load(&files.0, &files.1)?)));
        let (tell, loads) = watch::channel(0);
        let this = Self { current: Arc::clone(&current), loads };
        let follow = async move {
            loop {
                notice.wait().await?;
                match load(&files.0, &files.1) {
                    Ok(loaded) => {
                        if current.replace(loaded) {
                            info!(path = %files.0.display(), "Certificate changed");
                            tell.send_modify(|count| *count += 1);
                        }
                    }
                    Err(error) => warn!(error = chain(&error), "Certificate not changed"),
                }
            }
        };
        Ok((this, follow))
    }

    /// Uses a given certificate until it is replaced by another one.
    pub fn given(pair: &Pair) -> Result<(Self, Replace), Error> {
        let current = Arc::new(Current(RwLock::new(parse(pair)?)));
        let (tell, loads) = watch::channel(0);
        Ok((Self { current: Arc::clone(&current), loads }, Replace { current, tell }))
    }

    /// A server with this certificate, also after it has changed; TLS 1.2 and later.
    pub fn server(&self) -> Arc<ServerConfig> {
        self.server_for(Arc::new(NoClientAuth))
    }

    /// The same for clients that have to show certificates of their own.
    pub fn server_for(&self, clients: Arc<dyn ClientCertVerifier>) -> Arc<ServerConfig> {
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Current>::clone(&self.current);
        let mut config =
            ServerConfig::builder().with_client_cert_verifier(clients).with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    /// A server for those who ask much at once, over one connection; nobody may switch protocols there.
    pub fn busy_server(&self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.server());
        config.alpn_protocols.insert(0, b"h2".to_vec());
        Arc::new(config)
    }

    /// Waits for the certificate to change; false when nobody follows it any more.
    pub async fn changed(&mut self) -> bool {
        self.loads.changed().await.is_ok()
    }
}

/// Replaces a given certificate.
pub struct Replace {
    current: Arc<Current>,
    tell: watch::Sender<u64>,
}

impl Replace {
    /// Uses another certificate for new connections.
    pub fn with(&self, pair: &Pair) -> Result<(), Error> {
        if self.current.replace(parse(pair)?) {
            self.tell.send_modify(|count| *count += 1);
        }
        Ok(())
    }
}

/// What new connections are answered with.
struct Current(RwLock<Arc<CertifiedKey>>);

impl Current {
    /// Uses another certificate; false when it is the same.
    fn replace(&self, loaded: Arc<CertifiedKey>) -> bool {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let differs = current.cert != loaded.cert;
        *current = loaded;
        differs
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn parse(pair: &Pair) -> Result<Arc<CertifiedKey>, Error> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(Error::Parse)?;
    let private = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(Error::Parse)?;
    certified(chain, private)
}

fn load(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>, Error> {
    let read = |path: &Path, source| Error::Read { path: path.to_owned(), source };
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|source| read(certificate, source))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|source| read(key, source))?;
    certified(chain, private)
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    private: PrivateKeyDer<'static>,
) -> Result<Arc<CertifiedKey>, Error> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    CertifiedKey::from_der(chain, private, &provider).map(Arc::new).map_err(Error::Use)
}

#[cfg(test)]
mod tests;

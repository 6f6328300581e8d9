//! The way to a peer: directly or through a proxy, protected or not.

use std::io;
use std::sync::Arc;

use http::{Method, Request, Uri};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::Error;
use crate::trust::Trust;

/// A connection, however it came about.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The way to a peer.
#[derive(Clone)]
pub struct Route {
    peer: Place,
    /// What stands before every path.
    prefix: String,
    proxy: Option<Place>,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The host; an address of IPv6 without its brackets.
    host: String,
    port: u16,
}

impl Route {
    pub fn new(url: &str, trust: Trust, proxy: Option<&str>) -> Result<Self, Error> {
        let refuse = || Error::Url { url: url.to_owned() };
        let uri: Uri = url.trim().parse().map_err(|_| refuse())?;
        let (secure, port) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            Some(_) | None => return Err(refuse()),
        };
        let peer = Place::of(&uri, port).ok_or_else(refuse)?;
        let proxy = proxy.filter(|url| !url.trim().is_empty()).map(proxy_at).transpose()?;
        let tls = if secure {
            let name = ServerName::try_from(peer.host.clone()).map_err(|_| refuse())?;
            Some((trust.config()?, name))
        } else {
            None
        };
        Ok(Self { peer, prefix: uri.path().trim_end_matches('/').to_owned(), proxy, tls })
    }

    /// Host and port of the peer.
    pub fn address(&self) -> String {
        self.peer.text()
    }

    /// What stands before every path.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub async fn connect(&self) -> Result<Box<dyn Stream>, Error> {
        let stream: Box<dyn Stream> = match &self.proxy {
            None => Box::new(self.peer.connect().await?),
            Some(proxy) => self.through(proxy).await?,
        };
        let Some((config, name)) = &self.tls else { return Ok(stream) };
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector
            .connect(name.clone(), stream)
            .await
            .map_err(|source| Error::Tls { address: self.address(), source })?;
        Ok(Box::new(stream))
    }

    async fn through(&self, proxy: &Place) -> Result<Box<dyn Stream>, Error> {
        let stream = TokioIo::new(proxy.connect().await?);
        let failed =
            |answer: String| Error::Proxy { proxy: proxy.text(), address: self.address(), answer };
        let broken = |error: hyper::Error| failed(error.to_string());
        let (mut sender, connection) = http1::handshake(stream).await.map_err(broken)?;
        let request = Request::builder()
            .method(Method::CONNECT)
            .uri(self.address())
            .header(http::header::HOST, self.address())
            .body(Empty::<Bytes>::new())
            .map_err(|error| failed(error.to_string()))?;
        // It owns the sender, and with it ends the connection of a proxy that does not agree.
        let exchange = async move {
            let response = sender.send_request(request).await.map_err(broken)?;
            if !response.status().is_success() {
                return Err(failed(response.status().to_string()));
            }
            hyper::upgrade::on(response).await.map_err(broken)
        };
        // The connection hands itself over once the proxy agrees.
        let (upgraded, _) = tokio::join!(exchange, connection.with_upgrades());
        Ok(Box::new(TokioIo::new(upgraded?)))
    }
}

impl Place {
    fn of(uri: &Uri, default_port: u16) -> Option<Self> {
        let host = uri.host().filter(|host| !host.is_empty())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(Self { host: bare.to_owned(), port: uri.port_u16().unwrap_or(default_port) })
    }

    fn text(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    async fn connect(&self) -> Result<TcpStream, Error> {
        let fail = |source: io::Error| Error::Unreachable { address: self.text(), source };
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(fail)?;
        stream.set_nodelay(true).map_err(fail)?;
        Ok(stream)
    }
}

fn proxy_at(url: &str) -> Result<Place, Error> {
    let refuse = || Error::ProxyUrl { url: url.to_owned() };
    let uri: Uri = url.trim().parse().map_err(|_| refuse())?;
    if uri.scheme_str() != Some("http") {
        return Err(refuse());
    }
    Place::of(&uri, 80).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_to_hosts_and_ports() {
        for (url, address, prefix) in [
            ("https://auth.rome", "auth.rome:443", ""),
            ("https://198.18.0.4:30443/", "198.18.0.4:30443", ""),
            ("https://[fd00::1]:8443", "[fd00::1]:8443", ""),
            ("http://auth.rome/liqo/", "auth.rome:80", "/liqo"),
        ] {
            let route = Route::new(url, Trust::Anybody, None).unwrap();
            assert_eq!((route.address().as_str(), route.prefix()), (address, prefix), "{url}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for url in ["", "auth.rome", "ftp://auth.rome", "https://", "https://a b"] {
            let error = Route::new(url, Trust::Anybody, None).err().unwrap();
            assert!(matches!(error, Error::Url { .. }), "{url}");
        }
        let error = Route::new("https://a", Trust::Anybody, Some("socks5://b")).err().unwrap();
        assert!(matches!(error, Error::ProxyUrl { .. }));
    }
}

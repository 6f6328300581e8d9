//! Connections to an API server, each shared by many requests.
//!
//! Over HTTP/1, every watch holds a connection, and every connection costs a handshake with
//! certificates both ways: most of what crosses the wire when clusters peer. API servers also speak
//! HTTP/2, where one connection carries all of it, up to a number of requests at a time; beyond that
//! there is a further one. Only what becomes a stream of its own, into a pod, has a connection of its
//! own. A connection that was silently cut is noticed by what is asked of it in
//! between.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::header::UPGRADE;
use http::{Request, Response, Uri};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connect, Connection, HttpConnector};
use hyper_util::client::legacy::{Client as HttpClient, Error as HttpError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt as _, DynBody};
use tower::retry::RetryLayer;
use tower::util::BoxService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

/// How many requests one connection carries at a time; API servers take a hundred.
const REQUESTS: usize = 64;

/// How long a connection may say nothing before it is asked whether it still works.
const SILENCE: Duration = Duration::from_secs(20);

/// How long the answer to that may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a request is repeated that an API server is too busy for; most say to wait for a second,
/// and one that was just taught a new kind of object may be busy for a few.
const RETRIES: u32 = 8;

/// What sends requests to an API server, and takes the answers.
pub(super) type Stack = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// What a client of a cluster is made from.
pub(super) fn builder(config: Config) -> Result<ClientBuilder<Stack>, kube::Error> {
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    plain.set_nodelay(true);
    match &config.proxy_url {
        None => stack(plain, &config),
        Some(proxy) if proxy.scheme_str() == Some("http") && !has_password(proxy) => {
            let tunnel = Tunnel::new(proxy.clone(), plain);
            stack(tunnel, &config)
        }
        // Other proxies are rare, and what is known of them is known there.
        Some(_) => ClientBuilder::try_from(config),
    }
}

fn has_password(proxy: &Uri) -> bool {
    proxy.authority().is_some_and(|authority| authority.as_str().contains('@'))
}

fn stack<C>(connector: C, config: &Config) -> Result<ClientBuilder<Stack>, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let namespace = config.default_namespace.clone();
    let tls = config.rustls_client_config()?;
    let mut secure =
        hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = config.tls_server_name.clone().and_then(|name| name.try_into().ok()) {
        secure = secure.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
    }
    let limited = |secure| {
        let mut limited = TimeoutConnector::new(secure);
        limited.set_connect_timeout(config.connect_timeout);
        limited.set_read_timeout(config.read_timeout);
        limited.set_write_timeout(config.write_timeout);
        limited.set_reset_reader_on_write(config.reset_reader_on_write);
        limited
    };
    let alone = limited(config.rustls_https_connector_with_connector(connector.clone())?);
    let shared = limited(secure.enable_all_versions().wrap_connector(connector));
    let retry = if config.default_retry { few_retries() } else { None };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retry)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(Lines::new(shared, alone));
    let service = service.map_response(|response: Response<Carried>| {
        response.map(|body| Box::new(body) as Box<DynBody>)
    });
    Ok(ClientBuilder::new(service.boxed(), namespace))
}

/// A few quick attempts at what an API server is too busy for, or as it says when to come back: whoever
/// asks has waits of its own, knows what else to do meanwhile, and has to learn that something is wrong.
fn few_retries() -> Option<RetryLayer<RetryPolicy>> {
    let (first, longest) = (Duration::from_millis(5), Duration::from_secs(1));
    RetryPolicy::new(first, longest, RETRIES, true).ok().map(RetryLayer::new)
}

/// The connections there are; a clone shares them.
struct Lines<C> {
    connector: C,
    open: Arc<Mutex<Vec<Arc<Line<C>>>>>,
    /// For streams into pods, each of which takes a connection over.
    alone: HttpClient<C, Body>,
}

impl<C: Clone> Clone for Lines<C> {
    fn clone(&self) -> Self {
        let (connector, alone) = (self.connector.clone(), self.alone.clone());
        Self { connector, open: Arc::clone(&self.open), alone }
    }
}

/// One connection, or the way to make it.
struct Line<C> {
    client: HttpClient<C, Body>,
    load: Arc<AtomicUsize>,
    /// Whether it was used: what it speaks is known then.
    is_open: AtomicBool,
    /// How many requests had an answer, or none.
    attempts: AtomicUsize,
    /// Held by the first one to use it, so that not everybody makes a connection.
    opening: tokio::sync::Mutex<()>,
}

impl<C: Connect + Clone + Send + Sync + 'static> Lines<C> {
    fn new(shared: C, alone: C) -> Self {
        let alone = HttpClient::builder(TokioExecutor::new()).build(alone);
        Self { connector: shared, open: Arc::default(), alone }
    }

    /// A connection with room, and the place taken on it.
    fn take(&self) -> (Arc<Line<C>>, Place) {
        let mut lines = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let found = lines.iter().find(|line| line.load.load(Ordering::Relaxed) < REQUESTS).cloned();
        let line = found.unwrap_or_else(|| {
            let line = Arc::new(Line::new(self.connector.clone()));
            // Those that nobody uses are closed with the last reference to them.
            lines.retain(|line| line.load.load(Ordering::Relaxed) > 0);
            lines.push(Arc::clone(&line));
            line
        });
        let place = Place::on(&line.load);
        (line, place)
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Line<C> {
    fn new(connector: C) -> Self {
        let client = HttpClient::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(SILENCE)
            .http2_keep_alive_timeout(PATIENCE)
            .build(connector);
        let (load, is_open) = (Arc::default(), AtomicBool::new(false));
        let (attempts, opening) = (AtomicUsize::new(0), tokio::sync::Mutex::default());
        Self { client, load, is_open, attempts, opening }
    }

    /// Waits for whoever is first; nothing when somebody was, with success or without.
    async fn open(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let before = self.attempts.load(Ordering::Acquire);
        let guard = self.opening.lock().await;
        (self.attempts.load(Ordering::Acquire) == before).then_some(guard)
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, HttpError> {
        let opening = if self.is_open.load(Ordering::Acquire) { None } else { self.open().await };
        let result = self.client.request(request).await;
        self.is_open.store(result.is_ok(), Ordering::Release);
        self.attempts.fetch_add(1, Ordering::Release);
        drop(opening);
        result
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Service<Request<Body>> for Lines<C> {
    type Response = Response<Carried>;
    type Error = HttpError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.headers().contains_key(UPGRADE) {
            let answer = self.alone.request(request);
            return answer.map_ok(|response| response.map(Carried::alone)).boxed();
        }
        let (line, place) = self.take();
        async move {
            let response = line.send(request).await?;
            Ok(response.map(|body| Carried { body, _place: Some(place) }))
        }
        .boxed()
    }
}

/// A place on a connection, as long as a request takes.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn on(load: &Arc<AtomicUsize>) -> Self {
        load.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(load))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer that still comes, and its place if it shares a connection.
struct Carried {
    body: Incoming,
    _place: Option<Place>,
}

impl Carried {
    fn alone(body: Incoming) -> Self {
        Self { body, _place: None }
    }
}

impl HttpBody for Carried {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

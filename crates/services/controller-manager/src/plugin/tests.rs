//! A plugin that really is one, on loopback.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::server::{self, NamedService, ServerStreamingService, UnaryService};
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Response, codegen::Service};

use super::*;

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_plugin_says_what_to_offer_and_when_that_changed() {
    let (address, mut forgotten) = serve();
    let plugin = Plugin::connect(&address).await.unwrap();
    let rome: ClusterId = ROME.parse().unwrap();

    let amounts = plugin.read(&rome).await.unwrap();
    assert_eq!(amounts.of("cpu"), "1500m".parse().unwrap());
    assert!(amounts.of("nothing").is_zero());
    assert_eq!(amounts.iter().count(), 2);

    let (send, mut told) = mpsc::unbounded_channel();
    let follow = plugin.follow(|change| {
        let _ = send.send(change);
        std::future::ready(())
    });
    let hear = async { [told.recv().await, told.recv().await, told.recv().await] };
    let heard = tokio::select! {
        () = follow => unreachable!("it never ends"),
        heard = timeout(LIMIT, hear) => heard.unwrap(),
    };
    assert_eq!(heard, [Some(None), Some(Some(rome.clone())), Some(None)]);

    plugin.forget(&rome).await;
    plugin.forget(&rome).await;
    assert_eq!(forgotten.recv().await.as_deref(), Some(ROME));
    assert!(forgotten.is_empty(), "told once");
}

#[tokio::test]
async fn a_plugin_that_is_not_there_is_named() {
    let error = Plugin::connect("127.0.0.1:1").await.err().unwrap().to_string();
    assert!(error.contains("127.0.0.1:1"), "{error}");
}

fn serve() -> (String, mpsc::UnboundedReceiver<String>) {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap().to_string();
    let (send, receive) = mpsc::unbounded_channel();
    let fixed = Fixed { forgotten: Arc::new(send) };
    tokio::spawn(Server::builder().add_routes(Routes::new(fixed)).serve_with_incoming(incoming));
    (address, receive)
}

#[derive(Clone)]
struct Fixed {
    forgotten: Arc<mpsc::UnboundedSender<String>>,
}

impl NamedService for Fixed {
    const NAME: &'static str = "resource_reader";
}

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

struct Read;

impl UnaryService<ClusterIdentity> for Read {
    type Response = ResourceList;
    type Future = Answer<Response<ResourceList>>;

    fn call(&mut self, request: Request<ClusterIdentity>) -> Self::Future {
        assert_eq!(request.into_inner().cluster_id, ROME);
        let quantity = |text: Option<&str>| wire::Quantity { string: text.map(str::to_owned) };
        let resources = HashMap::from([
            ("cpu".to_owned(), quantity(Some("1500m"))),
            ("nothing".to_owned(), quantity(None)),
        ]);
        Box::pin(async { Ok(Response::new(ResourceList { resources })) })
    }
}

struct Remove(Fixed);

impl UnaryService<ClusterIdentity> for Remove {
    type Response = Empty;
    type Future = Answer<Response<Empty>>;

    fn call(&mut self, request: Request<ClusterIdentity>) -> Self::Future {
        let _ = self.0.forgotten.send(request.into_inner().cluster_id);
        Box::pin(async { Ok(Response::new(Empty {})) })
    }
}

struct Tell;

impl ServerStreamingService<Empty> for Tell {
    type Response = ClusterIdentity;
    type ResponseStream = stream::Iter<std::vec::IntoIter<Result<ClusterIdentity, Status>>>;
    type Future = Answer<Response<Self::ResponseStream>>;

    fn call(&mut self, _: Request<Empty>) -> Self::Future {
        let of = |id: &str| Ok(ClusterIdentity { cluster_id: id.to_owned() });
        Box::pin(async move { Ok(Response::new(stream::iter(vec![of(ROME), of("")]))) })
    }
}

impl Service<http::Request<Body>> for Fixed {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/resource_reader/ReadResources" => {
                    server::Grpc::new(ProstCodec::default()).unary(Read, request).await
                }
                "/resource_reader/RemoveCluster" => {
                    server::Grpc::new(ProstCodec::default()).unary(Remove(this), request).await
                }
                _ => server::Grpc::new(ProstCodec::default()).server_streaming(Tell, request).await,
            })
        })
    }
}

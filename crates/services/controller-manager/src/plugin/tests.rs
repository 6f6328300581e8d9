//! A plugin that really is one, on loopback.

use std::collections::HashMap;

use futures::stream;
use liqo_wire::resource_reader::resource_reader_server::{ResourceReader, ResourceReaderServer};
use liqo_wire::resource_reader::{self as wire, ResourceList};
use tokio::sync::mpsc;
use tonic::Request;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

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
    let (forgotten, receive) = mpsc::unbounded_channel();
    let fixed = ResourceReaderServer::new(Fixed { forgotten });
    tokio::spawn(Server::builder().add_service(fixed).serve_with_incoming(incoming));
    (address, receive)
}

struct Fixed {
    forgotten: mpsc::UnboundedSender<String>,
}

#[tonic::async_trait]
impl ResourceReader for Fixed {
    type SubscribeStream = stream::Iter<std::vec::IntoIter<Result<ClusterIdentity, Status>>>;

    async fn read_resources(
        &self,
        request: Request<ClusterIdentity>,
    ) -> Result<Response<ResourceList>, Status> {
        assert_eq!(request.into_inner().cluster_id, ROME);
        let quantity = |text: Option<&str>| wire::Quantity { string: text.map(str::to_owned) };
        let resources = HashMap::from([
            ("cpu".to_owned(), quantity(Some("1500m"))),
            ("nothing".to_owned(), quantity(None)),
        ]);
        Ok(Response::new(ResourceList { resources }))
    }

    async fn remove_cluster(
        &self,
        request: Request<ClusterIdentity>,
    ) -> Result<Response<Empty>, Status> {
        let _ = self.forgotten.send(request.into_inner().cluster_id);
        Ok(Response::new(Empty {}))
    }

    async fn subscribe(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let of = |id: &str| Ok(ClusterIdentity { cluster_id: id.to_owned() });
        Ok(Response::new(stream::iter(vec![of(ROME), of("")])))
    }
}

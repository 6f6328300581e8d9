//! Where the metrics come from: the kubelets of all nodes, through the API server.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{ListParams, VersionMatch};
use kube::{Api, Client};
use liqo_api::keys::{annotation, label};
use liqo_api::names::ClusterId;
use liqo_scrape::{Subject, Tenancy, merge};

/// Metrics are not to be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub(crate) struct Error {
    action: String,
    source: kube::Error,
}

/// Asks the API server and the kubelets.
#[derive(Clone)]
pub(crate) struct Source(Client);

impl Source {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    /// What the kubelets say on a subject, as a consumer may see it.
    pub(crate) async fn scrape(
        &self,
        consumer: &ClusterId,
        subject: Subject,
    ) -> Result<String, Error> {
        let (tenancy, nodes) = tokio::try_join!(self.tenancy(consumer), self.nodes())?;
        let texts = try_join_all(nodes.iter().map(|node| self.ask(node, subject))).await?;
        Ok(merge(texts.iter().map(String::as_str), &tenancy))
    }

    /// What a consumer runs here.
    async fn tenancy(&self, consumer: &ClusterId) -> Result<Tenancy, Error> {
        let namespaces: Api<Namespace> = Api::all(self.0.clone());
        let hosted = format!("{}={consumer}", label::REMOTE_CLUSTER_ID);
        let pods: Api<Pod> = Api::all(self.0.clone());
        let shadows = format!(
            "{}={consumer},{}={}",
            label::ORIGIN,
            label::MANAGED_BY,
            label::MANAGED_BY_SHADOW_POD
        );
        let (hosted, shadows) = (cached(&hosted), cached(&shadows));
        let lists = (namespaces.list_metadata(&hosted), pods.list_metadata(&shadows));
        let (namespaces, pods) = tokio::try_join!(lists.0, lists.1)
            .map_err(|source| Error { action: "list the consumer's pods".to_owned(), source })?;
        let home = |namespace: &_| -> Option<(String, String)> {
            let home = kube::ResourceExt::annotations(namespace).get(annotation::ORIGINAL_NAME)?;
            Some((kube::ResourceExt::name_any(namespace), home.clone()))
        };
        let place = |pod: &_| {
            let namespace = kube::ResourceExt::namespace(pod).unwrap_or_default();
            (namespace, kube::ResourceExt::name_any(pod))
        };
        Ok(Tenancy {
            namespaces: namespaces.iter().filter_map(home).collect(),
            pods: pods.iter().map(place).collect(),
        })
    }

    /// The nodes that can be asked: real ones that are ready.
    async fn nodes(&self) -> Result<Vec<String>, Error> {
        let nodes: Api<Node> = Api::all(self.0.clone());
        let real = format!("{}!={}", label::TYPE, label::TYPE_VIRTUAL_NODE);
        let listed = nodes.list(&cached(&real)).await;
        let listed =
            listed.map_err(|source| Error { action: "list the nodes".to_owned(), source })?;
        Ok(listed.iter().filter(|node| is_ready(node)).map(kube::ResourceExt::name_any).collect())
    }

    /// What one kubelet says; one that does not know the subject says nothing.
    async fn ask(&self, node: &str, subject: Subject) -> Result<String, Error> {
        let path = format!("/api/v1/nodes/{node}/proxy/{}", subject.path());
        let request = http::Request::get(path).body(vec![]);
        let action = || format!("ask the kubelet of node {node}");
        let request = request
            .map_err(|error| Error { action: action(), source: kube::Error::HttpError(error) })?;
        match self.0.request_text(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(String::new()),
            answer => answer.map_err(|source| Error { action: action(), source }),
        }
    }
}

/// A list as the API server remembers it, which costs it little.
fn cached(labels: &str) -> ListParams {
    ListParams {
        version_match: Some(VersionMatch::NotOlderThan),
        resource_version: Some("0".to_owned()),
        ..ListParams::default().labels(labels)
    }
}

fn is_ready(node: &Node) -> bool {
    let status = node.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

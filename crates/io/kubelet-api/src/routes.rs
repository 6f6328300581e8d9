//! The paths of a kubelet, and what is behind each of them in the other cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use http::{StatusCode, header};
use jiff::Timestamp;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, ObjectMeta, VersionMatch};
use kube::{Api, Client};
use liqo_api::keys::label;
use liqo_api::keys::object::{API_VERSION, GROUP_METRICS};
use liqo_api::names::ClusterId;
use liqo_kit::keyed::chain;
use liqo_scrape::Subject;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::Provider;
use crate::answer::Form;
use crate::caller::{Callers, Peer, Refusal};
use crate::splice::splice;
use crate::summary::{PodMetricsList, summary};
use crate::translate::{Part, target};

/// What all requests share.
pub(crate) struct Server {
    pub(crate) node: String,
    pub(crate) home: Client,
    pub(crate) consumer: ClusterId,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) callers: Callers,
    pub(crate) since: Timestamp,
    pub(crate) stop: CancellationToken,
}

type Shared = State<Arc<Server>>;

/// All paths; everything else is not there.
pub(crate) fn routes(server: Arc<Server>) -> Router {
    let stream = |part: Part| -> MethodRouter<Arc<Server>> {
        let open = move |State(server): Shared,
                         Path((namespace, pod, container)): Path<(String, String, String)>,
                         request: Request| async move {
            server.open(part, &namespace, &pod, Some(&container), request).await
        };
        get(open).post(open)
    };
    let forward = async |State(server): Shared,
                         Path((namespace, pod)): Path<(String, String)>,
                         request: Request| {
        server.open(Part::PortForward, &namespace, &pod, None, request).await
    };
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/pods", get(async |State(server): Shared| server.pods(|_| true).await))
        .route("/runningpods/", get(async |State(server): Shared| server.pods(is_running).await))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(logs))
        .route("/exec/{namespace}/{pod}/{container}", stream(Part::Exec))
        .route("/attach/{namespace}/{pod}/{container}", stream(Part::Attach))
        .route("/portForward/{namespace}/{pod}", get(forward).post(forward))
        .route("/stats/summary", get(stats))
        .route("/stats/summary/", get(stats))
        .route("/metrics", get(async |State(server): Shared| server.scrape(Subject::Kubelet).await))
        .route(
            "/metrics/cadvisor",
            get(async |State(server): Shared| server.scrape(Subject::Containers).await),
        )
        .route(
            "/metrics/resource",
            get(async |State(server): Shared| server.scrape(Subject::Resources).await),
        )
        .route(
            "/metrics/probes",
            get(async |State(server): Shared| server.scrape(Subject::Probes).await),
        )
        .fallback(async || (StatusCode::NOT_FOUND, "a virtual kubelet has nothing here\n"))
        .layer(from_fn_with_state(Arc::clone(&server), admit))
        .with_state(server)
}

/// Nobody gets further who may not.
async fn admit(
    State(server): Shared,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    let admitted = server.callers.admit(&peer, method, path, headers).await;
    match admitted {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            let reason = chain(&refusal);
            let code = match refusal {
                Refusal::Unknown => StatusCode::UNAUTHORIZED,
                Refusal::Forbidden { .. } => StatusCode::FORBIDDEN,
                Refusal::Unanswered(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            // Whoever floods the port must not flood the log.
            if code == StatusCode::UNAUTHORIZED {
                debug!(%method, path, reason, "Not let in");
            } else {
                warn!(%method, path, reason, "Not let in");
            }
            Form::Text.error(code, &reason)
        }
    }
}

async fn logs(
    State(server): Shared,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    request: Request,
) -> Response {
    let query = request.uri().query();
    let form = Form::Text;
    let (client, target) =
        match server.locate(Part::Log, &namespace, &pod, Some(&container), query, form) {
            Ok(found) => found,
            Err(response) => return *response,
        };
    // A container may be silent for long before its first line: there is no limit.
    relay(&client, &target, form).await
}

async fn stats(State(server): Shared) -> Response {
    match server.summary().await {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => {
            let reason = chain(&error);
            warn!(reason, "No statistics");
            Form::Text.error(StatusCode::BAD_GATEWAY, &format!("no statistics: {reason}"))
        }
    }
}

impl Server {
    /// The client of the other cluster, and the path of a pod's part there.
    fn locate(
        &self,
        part: Part,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        query: Option<&str>,
        form: Form,
    ) -> Result<(Client, String), Box<Response>> {
        let refuse = |code, message: &str| Box::new(form.error(code, message));
        let Some(remote) = self.provider.namespaces().remove(namespace) else {
            let message = format!(
                "namespace {namespace} is not offloaded to the cluster behind node {}",
                self.node
            );
            return Err(refuse(StatusCode::NOT_FOUND, &message));
        };
        let target = target(part, &remote, pod, container, query)
            .map_err(|error| refuse(StatusCode::BAD_REQUEST, &error.to_string()))?;
        Ok((
            self.client().map_err(|message| refuse(StatusCode::SERVICE_UNAVAILABLE, message))?,
            target,
        ))
    }

    fn client(&self) -> Result<Client, &'static str> {
        self.provider.client().ok_or("there is no identity for the other cluster now")
    }

    async fn open(
        &self,
        part: Part,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        request: Request,
    ) -> Response {
        let query = request.uri().query();
        match self.locate(part, namespace, pod, container, query, Form::Status) {
            Ok((client, target)) => splice(request, &client, &target, self.stop.clone()).await,
            Err(response) => *response,
        }
    }

    /// What the provider's metric agent says of our pods.
    async fn scrape(&self, subject: Subject) -> Response {
        let (consumer, subject) = (&self.consumer, subject.path());
        let path = format!("/apis/{GROUP_METRICS}/{API_VERSION}/scrape/{consumer}/{subject}");
        match self.client() {
            Ok(client) => relay(&client, &path, Form::Text).await,
            Err(message) => Form::Text.error(StatusCode::SERVICE_UNAVAILABLE, message),
        }
    }

    /// The pods of this cluster that are bound to the node.
    async fn pods(&self, counts: impl Fn(&Pod) -> bool) -> Response {
        let pods: Api<Pod> = Api::all(self.home.clone());
        match pods.list(&self.here()).await {
            Ok(list) => {
                let items = list.items.into_iter().filter(counts).collect();
                let list = List::<Pod> { items, ..List::default() };
                let text = serde_json::to_string(&list).unwrap_or_default();
                ([(header::CONTENT_TYPE, "application/json")], text).into_response()
            }
            Err(error) => {
                let message = format!("cannot list the pods of the node: {}", chain(&error));
                Form::Text.error(StatusCode::INTERNAL_SERVER_ERROR, &message)
            }
        }
    }

    async fn summary(&self) -> Result<String, kube::Error> {
        let pods: Api<Pod> = Api::all(self.home.clone());
        let pods = pods.list_metadata(&self.here()).await?;
        let pods: Vec<ObjectMeta> = pods.items.into_iter().map(|pod| pod.metadata).collect();
        let mut metrics = Vec::new();
        if let Some(client) = self.provider.client() {
            for (namespace, remote) in used(self.provider.namespaces(), &pods) {
                let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{remote}/pods");
                let origin = format!("labelSelector={}%3D{}", label::ORIGIN, self.consumer);
                let request = http::Request::get(format!("{path}?{origin}")).body(vec![]);
                let list: PodMetricsList =
                    client.request(request.map_err(kube::Error::HttpError)?).await?;
                metrics.extend(list.items.into_iter().map(|pod| (namespace.clone(), pod)));
            }
        }
        let summary = summary(&self.node, self.since, &pods, &metrics);
        serde_json::to_string(&summary).map_err(kube::Error::SerdeError)
    }

    /// A list of what is on the node, as the API server remembers it.
    fn here(&self) -> ListParams {
        ListParams {
            version_match: Some(VersionMatch::NotOlderThan),
            resource_version: Some("0".to_owned()),
            ..ListParams::default().fields(&format!("spec.nodeName={}", self.node))
        }
    }
}

/// The namespaces that have pods; the others need not be asked for.
fn used(mut namespaces: BTreeMap<String, String>, pods: &[ObjectMeta]) -> BTreeMap<String, String> {
    namespaces.retain(|name, _| pods.iter().any(|pod| pod.namespace.as_ref() == Some(name)));
    namespaces
}

/// Passes on what is behind a path of the other cluster, as it comes.
async fn relay(client: &Client, path: &str, form: Form) -> Response {
    let request = http::Request::get(path).body(kube::client::Body::empty());
    let request = match request {
        Ok(request) => request,
        Err(error) => return form.error(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match client.send(request).await {
        Ok(response) if response.status().is_success() => {
            let (parts, body) = response.into_parts();
            let mut response = Response::new(Body::new(body));
            // A pod that has no node yet has no content.
            *response.status_mut() = parts.status;
            if let Some(kind) = parts.headers.get(header::CONTENT_TYPE) {
                response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
            }
            response
        }
        Ok(response) => {
            debug!(path, code = response.status().as_u16(), "Refused by the other cluster");
            form.theirs(response).await
        }
        Err(error) => {
            let reason = chain(&error);
            warn!(path, reason, "The other cluster does not answer");
            let message = format!("the other cluster does not answer: {reason}");
            form.error(StatusCode::BAD_GATEWAY, &message)
        }
    }
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

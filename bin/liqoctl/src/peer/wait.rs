//! Waits for a peering, and tells how far it has come.

use std::pin::pin;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _, select};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use liqo_api::Time;
use liqo_api::discovery::ForeignCluster;
use liqo_api::discovery::PeeringType;
use liqo_peering::progress::{self, Phase, Progress};
use tokio::time::{Instant, sleep_until};

use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::printer::{Printer, Step};

/// How long a refusal that was there before may be an old one.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no peering.
pub enum Error {
    /// It was refused.
    Refused(String),
    /// Something else.
    Failed(Failure),
}

impl Error {
    /// In words.
    pub fn failure(self) -> Failure {
        match self {
            Self::Refused(why) => Failure::text(format!("the peering was refused: {why}")),
            Self::Failed(failure) => failure,
        }
    }
}

/// Which phases are waited for, and told.
#[derive(Clone, Copy)]
pub struct Span {
    /// The one after which it begins; the first one, without.
    pub after: Option<Phase>,
    /// The one with which it ends.
    pub last: Phase,
}

impl Span {
    /// All phases.
    pub const WHOLE: Self = Self { after: None, last: Phase::Node };
}

/// What is new.
enum News {
    Cluster(Option<Box<ForeignCluster>>),
    Node(Option<Box<Node>>),
}

/// Waits until a cluster's virtual node is ready.
pub async fn until_ready(
    client: &Client,
    name: &str,
    limit: Duration,
    printer: &Printer,
) -> Result<(), Error> {
    until(client, name, Span::WHOLE, limit, printer).await
}

/// The same for a cluster that was not known before: whatever is refused is what was just asked for.
pub async fn until_new_is_ready(
    client: &Client,
    name: &str,
    limit: Duration,
    printer: &Printer,
) -> Result<(), Error> {
    follow(client, name, Span::WHOLE, limit, Duration::ZERO, printer).await
}

/// Waits until some phases are over.
pub async fn until(
    client: &Client,
    name: &str,
    span: Span,
    limit: Duration,
    printer: &Printer,
) -> Result<(), Error> {
    follow(client, name, span, limit, PATIENCE, printer).await
}

async fn follow(
    client: &Client,
    name: &str,
    span: Span,
    limit: Duration,
    patience: Duration,
    printer: &Printer,
) -> Result<(), Error> {
    let start = Instant::now();
    let asked = Time(Timestamp::now());
    let (peering, news) = news(client, name).await?;
    let mut news = pin!(news);
    let mut teller = Teller::new(printer, name, peering, span);
    let (mut cluster, mut node) = (None, None);
    let mut deadline = pin!(sleep_until(start + limit));
    let mut patient = !patience.is_zero();
    let mut patience = pin!(sleep_until(start + patience));
    loop {
        tokio::select! {
            Some(item) = news.next() => match item {
                News::Cluster(found) => cluster = found,
                News::Node(found) => node = found,
            },
            () = &mut patience, if patient => patient = false,
            () = &mut deadline => return Err(Error::Failed(teller.timed_out(limit, cluster.as_deref()))),
            () = interrupted() => return Err(Error::Failed(
                Failure::text("interrupted").hint("The peering goes on; see `liqoctl status peer`."),
            )),
        }
        let Some(cluster) = &cluster else { continue };
        match progress::of(cluster, node.as_deref(), &asked, patient) {
            Progress::Waiting(phase, why) => {
                if teller.tell(phase, why.as_deref()) {
                    return Ok(());
                }
            }
            Progress::Refused(why) => return Err(Error::Refused(why)),
            Progress::Held(why) => {
                let failure = Failure::text(why).hint(
                    "The peering goes on by itself once that has changed; see `liqoctl status peer`.",
                );
                return Err(Error::Failed(failure));
            }
            Progress::Done => {
                teller.finish();
                return Ok(());
            }
        }
    }
}

/// Follows a cluster and its node.
async fn news(
    client: &Client,
    name: &str,
) -> Result<(PeeringType, BoxStream<'static, News>), Error> {
    let clusters: Api<ForeignCluster> = Api::all(client.clone());
    let found = clusters.get(name).await;
    let found = found.map_err(|error| Error::Failed(super::unknown(name, error)))?;
    let known = found.spec.cluster_identity.map(|identity| identity.cluster_name);
    let called = known.filter(|known| !known.is_empty()).unwrap_or_else(|| name.to_owned());
    let nodes: Api<Node> = Api::all(client.clone());
    let node = format!("liqo-{called}");
    let clusters = watch_object(clusters, name)
        .filter_map(async |item| item.ok().map(|item| News::Cluster(item.map(Box::new))));
    let nodes = watch_object(nodes, &node)
        .filter_map(async |item| item.ok().map(|item| News::Node(item.map(Box::new))));
    Ok((found.spec.peering_type, select(clusters.boxed(), nodes.boxed()).boxed()))
}

/// Tells phases, each when it is over.
struct Teller<'a> {
    printer: &'a Printer,
    name: &'a str,
    order: [Phase; 4],
    /// How many phases are told, or nobody wants to know.
    over: usize,
    /// How many phases there are to wait for.
    end: usize,
    now: Option<(Phase, Option<String>)>,
    step: Option<Step<'a>>,
}

impl<'a> Teller<'a> {
    fn new(printer: &'a Printer, name: &'a str, peering: PeeringType, span: Span) -> Self {
        let order = progress::order(peering);
        let place = |phase| order.iter().take_while(|other| **other != phase).count() + 1;
        let (over, end) = (span.after.map_or(0, place), place(span.last));
        Self { printer, name, order, over, end, now: None, step: None }
    }

    /// Tells that a phase is being waited for; whether those that matter are over.
    fn tell(&mut self, phase: Phase, why: Option<&str>) -> bool {
        let now = Some((phase, why.map(str::to_owned)));
        if self.now == now {
            return false;
        }
        // The line before has to go before the next one is there.
        self.step = None;
        let reached = self.order.iter().take_while(|other| **other != phase).count();
        self.tell_over(reached);
        if reached >= self.end {
            return true;
        }
        let text = match why {
            Some(why) => format!("{}: {why}", doing(phase, self.name)),
            None => doing(phase, self.name),
        };
        self.step = Some(self.printer.start(text));
        self.now = now;
        false
    }

    /// Tells the phases that are over, each once: one may come again, for instance when the remote
    /// cluster was lost.
    fn tell_over(&mut self, reached: usize) {
        let reached = reached.min(self.end);
        for phase in self.order.iter().take(reached).skip(self.over) {
            self.printer.success(done(*phase, self.name));
        }
        self.over = self.over.max(reached);
    }

    fn finish(&mut self) {
        self.step = None;
        self.tell_over(self.end);
    }

    fn timed_out(&mut self, limit: Duration, cluster: Option<&ForeignCluster>) -> Failure {
        self.step = None;
        let first = self.order.get(self.over).copied().unwrap_or(Phase::Node);
        let (phase, why) = self.now.clone().unwrap_or((first, None));
        let seconds = limit.as_secs();
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let failure = Failure::text(format!(
            "timed out waiting for the condition: after {seconds} s, {}{why}",
            doing(phase, self.name).to_lowercase()
        ));
        let url = cluster.map(|cluster| cluster.spec.foreign_auth_url.clone()).unwrap_or_default();
        let hint = match phase {
            Phase::Authentication => format!(
                "Check that pods of this cluster reach {url} over TCP, and that liqo-auth runs there."
            ),
            Phase::Resources => format!(
                "Check that liqo-crd-replicator and liqo-controller-manager run in both clusters, \
                 that each reaches the API server of the other, and that {} lets others peer with it.",
                self.name
            ),
            Phase::Network => {
                "Check that the gateways reach each other over UDP: see `liqoctl status peer`.".to_owned()
            }
            Phase::Node => {
                "See the log of the virtual kubelet: `kubectl logs -A -l app.kubernetes.io/name=virtual-kubelet`."
                    .to_owned()
            }
        };
        failure.hint(hint).hint("The peering goes on in the background; see `liqoctl status peer`.")
    }
}

fn doing(phase: Phase, name: &str) -> String {
    match phase {
        Phase::Authentication => format!("Waiting for authentication to the cluster {name}"),
        Phase::Resources => format!("Waiting for resources of the cluster {name}"),
        Phase::Network => format!("Waiting for the network to the cluster {name}"),
        Phase::Node => format!("Waiting for the node of the cluster {name}"),
    }
}

fn done(phase: Phase, name: &str) -> String {
    match phase {
        Phase::Authentication => format!("Authenticated to the cluster {name}"),
        Phase::Resources => format!("Resources of the cluster {name} are offered"),
        Phase::Network => format!("Network to the cluster {name} is there"),
        Phase::Node => format!("Node of the cluster {name} is ready"),
    }
}

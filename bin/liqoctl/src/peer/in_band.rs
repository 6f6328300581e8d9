//! `peer in-band`: introduces two clusters to each other, to talk through the tunnel between them.
//!
//! ```text
//!  look at both ─> namespaces ─> networks told and answered ─> services exported
//!       ─> tokens and ForeignClusters ─> resources asked for ─> wait
//! ```
//!
//! Every step leaves alone what is so already, so the command can be run again at any time: to go on,
//! to peer in both directions, or after an address changed.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watch_object, watcher};
use kube::{Api, ResourceExt as _};
use liqo_api::discovery::{ForeignCluster, PeeringEnabled};
use liqo_api::keys::{label, manager, object};
use liqo_api::names::Cluster;
use liqo_api::net::{NatMapping, NetworkConfig, NetworkConfigStatus};
use liqo_network_exchange::by_hand::{self, Heard};
use liqo_peering::in_band::{self, Place, Reached};
use liqo_peering::progress::Phase;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::out_of_band;
use super::wait::{self, Span};
use crate::cluster::remote::RemoteArguments;
use crate::cluster::{ClusterArguments, duration};
use crate::failure::Failure;
use crate::home;
use crate::interrupt::repeatable;
use crate::ipam::Ipam;
use crate::printer::Printer;
use crate::sides::{Equipment, Side, Sides, Time};

const EXAMPLES: &str = "\
Examples:
  # Use the resources of another cluster; only the gateways have to reach each other
  liqoctl peer in-band --context consumer --remote-context provider
  # With a kubeconfig for each
  liqoctl peer in-band --kubeconfig rome.yaml --remote-kubeconfig milan.yaml
  # Each uses the resources of the other
  liqoctl peer in-band --context rome --remote-context milan --bidirectional";

/// How long a refusal that was there before may be an old one.
const PATIENCE: Duration = Duration::from_secs(5);

/// Peers with a cluster through the tunnel between the two
///
/// Everything that the clusters say to each other goes through the tunnel, so their API servers need
/// not reach each other: only the gateways do. This machine has to reach both clusters while the
/// command runs. It can be run again without harm, for instance with --bidirectional, or after the
/// address of a gateway changed.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "ib", after_help = EXAMPLES)]
pub struct InBand {
    /// Let the remote cluster use resources of this one, too
    #[arg(long)]
    bidirectional: bool,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    other: Other,
}

/// The other cluster, and Liqo in it.
#[derive(Clone, Debug, clap::Args)]
pub struct Other {
    /// Namespace of Liqo in the remote cluster
    #[arg(long = "remote-namespace", value_name = "NAME", default_value = object::NAMESPACE)]
    pub remote_namespace: String,
    #[command(flatten)]
    pub arguments: RemoteArguments,
}

/// Peers.
pub async fn run(
    arguments: &InBand,
    cluster: &ClusterArguments,
    namespace: &str,
    printer: &Printer,
) -> Result<(), Failure> {
    repeatable(Box::pin(peer(arguments, cluster, namespace, printer))).await
}

async fn peer(
    arguments: &InBand,
    cluster: &ClusterArguments,
    namespace: &str,
    printer: &Printer,
) -> Result<(), Failure> {
    let time = Time::of(arguments.timeout);
    let other = &arguments.other;
    let far = other.arguments.cluster(printer.is_verbose());
    let sides = Sides::find((cluster, namespace), (&far, &other.remote_namespace), printer).await?;
    let Sides { local, remote } = &sides;
    let mut here = Party::of(local, &remote.cluster, time).await?;
    let mut there = Party::of(remote, &local.cluster, time).await?;
    here.tenant = local.tenant(&remote.cluster, time).await?;
    there.tenant = remote.tenant(&local.cluster, time).await?;
    Box::pin(tell(&here, &there, time)).await?;
    Box::pin(tell(&there, &here, time)).await?;
    here.outside = Box::pin(export(&here, &remote.cluster, time)).await?;
    there.outside = Box::pin(export(&there, &local.cluster, time)).await?;
    here.name = introduce(&here, &there, time).await?;
    there.name = introduce(&there, &here, time).await?;
    here.ask(time).await?;
    if arguments.bidirectional {
        there.ask(time).await?;
    } else if there.is_user() {
        remote.printer.info(format!("It goes on using resources of {}", local.cluster.name));
    }
    let acquainted = Span { after: None, last: Phase::Authentication };
    let used = Span { after: Some(Phase::Authentication), last: Phase::Node };
    let mut waits = vec![(&here, acquainted), (&there, acquainted), (&here, used)];
    if arguments.bidirectional {
        waits.push((&there, used));
    }
    for (party, span) in waits {
        let side = party.side;
        let done = wait::until(&side.client, &party.name, span, time.left(), &side.printer);
        Box::pin(done).await.map_err(|error| {
            let (one, other) = (&here.equipment.gateway, &there.equipment.gateway);
            error.failure().about(side.scope).hint(format!(
                "The gateways are at {}:{}/udp (local) and {}:{}/udp (remote): one has to reach the \
                 other, through all firewalls.",
                one.address, one.port, other.address, other.port,
            ))
        })?;
    }
    Ok(())
}

/// One of the two that are introduced to each other.
struct Party<'a> {
    side: &'a Side,
    equipment: Equipment,
    /// The ForeignCluster of the other one, before.
    known: Option<ForeignCluster>,
    /// The namespace that is kept for the other one.
    tenant: String,
    /// Where the other one finds its services.
    outside: Reached,
    /// What the ForeignCluster of the other one is called.
    name: String,
}

impl<'a> Party<'a> {
    async fn of(side: &'a Side, other: &Cluster, time: Time) -> Result<Self, Failure> {
        let equipment = side.equipment().await?;
        let mut known = side.known(other).await?;
        if let Some(ending) = known.take_if(|known| known.metadata.deletion_timestamp.is_some()) {
            let name = ending.name_any();
            let _step = side.printer.start(format!("Waiting for the end of ForeignCluster {name}"));
            side.gone(&Api::all(side.client.clone()), &ending, time).await?;
        }
        let (tenant, name, outside) = (String::new(), String::new(), equipment.inside);
        Ok(Self { side, equipment, known, tenant, outside, name })
    }

    /// Whether it uses resources of the other one already.
    fn is_user(&self) -> bool {
        let wanted = self.known.as_ref().map(|known| known.spec.outgoing_peering_enabled);
        wanted == Some(PeeringEnabled::Yes)
    }

    /// Asks for resources of the other one.
    async fn ask(&self, time: Time) -> Result<(), Failure> {
        let Self { side, name, .. } = self;
        if !self.is_user() {
            let clusters: Api<ForeignCluster> = Api::all(side.client.clone());
            let yes = PeeringEnabled::Yes;
            let asked = super::want(&clusters, name, yes, time.left(), &side.printer).await;
            asked.map_err(|error| super::unknown(name, error).about(side.scope))?;
        }
        let text = format!("Outgoing peering activated to the remote cluster {name}");
        side.printer.success(text);
        Ok(())
    }
}

/// Tells one cluster's network to the other, and the answer back.
async fn tell(one: &Party<'_>, other: &Party<'_>, time: Time) -> Result<(), Failure> {
    let (from, to) = (one.side, other.side);
    let Equipment { networks, gateway, .. } = &one.equipment;
    let word = by_hand::word(&to.cluster, &one.tenant, *networks, gateway);
    let copy = by_hand::copy(&word, &from.cluster, &other.tenant);
    let words: Api<NetworkConfig> = Api::namespaced(from.client.clone(), &one.tenant);
    let copies: Api<NetworkConfig> = Api::namespaced(to.client.clone(), &other.tenant);
    let word = write(from, &words, &word, time).await?;
    let name = write(to, &copies, &copy, time).await?.name_any();
    let step =
        to.printer.start(format!("Waiting for a place for the network of {}", from.cluster.name));
    let what = format!(
        "the network manager of the {} cluster has not answered NetworkConfig {}/{}",
        to.scope, other.tenant, name
    );
    let check = format!(
        "See the log of liqo-network-manager in the {} cluster: `kubectl logs -n {} -l {}={}`.",
        to.scope,
        to.namespace,
        label::APP_NAME,
        liqo_api::keys::component::NETWORK_MANAGER
    );
    let answer = Box::pin(answered(to, &copies, &name));
    let answer = time.bound(what, check, answer).await?;
    step.done(format!("The network of {} {}", from.cluster.name, called(&answer)));
    if word.status.as_ref() == Some(&answer) {
        return Ok(());
    }
    let status = Patch::Merge(json!({ "status": answer }));
    let written = words.patch_status(&word.name_any(), &PatchParams::default(), &status).await;
    written.map_err(|error| from.failure("cannot write the answer of the other cluster", error))?;
    Ok(())
}

/// Writes what is said, and waits for the end of what was said before.
async fn write(
    side: &Side,
    api: &Api<NetworkConfig>,
    want: &NetworkConfig,
    time: Time,
) -> Result<NetworkConfig, Failure> {
    let name = want.name_any();
    let what = format!("cannot write NetworkConfig {name}");
    let found = api.get_opt(&name).await.map_err(|error| side.failure(&what, error))?;
    if let Some(found) = &found {
        if found.metadata.deletion_timestamp.is_some() {
            side.gone(api, found, time).await?;
        } else if found.spec == want.spec && has_labels(found, want) {
            return Ok(found.clone());
        }
    }
    let params = PatchParams::apply(manager::LIQOCTL).force();
    let written = api.patch(&name, &params, &Patch::Apply(want)).await;
    written.map_err(|error| side.failure(&what, error))
}

fn has_labels(found: &NetworkConfig, want: &NetworkConfig) -> bool {
    want.labels().iter().all(|(name, value)| found.labels().get(name) == Some(value))
}

/// Waits for the answer to what was said.
async fn answered(
    side: &Side,
    api: &Api<NetworkConfig>,
    name: &str,
) -> Result<NetworkConfigStatus, Failure> {
    let mut news = watch_object(api.clone(), name).boxed();
    let end = Instant::now() + PATIENCE;
    let mut refusal: Option<String> = None;
    loop {
        let next = match &refusal {
            // It may be about what was said before.
            Some(why) => timeout_at(end, news.next()).await.map_err(|_| {
                let what = "it refuses the network of the other cluster";
                Failure::text(format!("{what}: {why}")).about(side.scope).hint(
                    "Free the network that it collides with, or give one of the clusters others.",
                )
            })?,
            None => news.next().await,
        };
        let Some(next) = next else {
            return Err(Failure::text("the API server ended the watch").about(side.scope));
        };
        // Watches are made again by themselves.
        let Ok(Some(config)) = next else { continue };
        match by_hand::heard(&config) {
            Heard::Answered(status) => return Ok(status.clone()),
            Heard::Refused(why) => refusal = Some(why.to_owned()),
            Heard::Waiting => refusal = None,
        }
    }
}

fn called(answer: &NetworkConfigStatus) -> String {
    let other =
        |text: &Option<String>| text.clone().filter(|text| text != "None" && !text.is_empty());
    match other(&answer.pod_cidr_nat) {
        Some(network) => format!("is known here as {network}"),
        None => "has its place here".to_owned(),
    }
}

/// Exports the services of one cluster to the other: where that one finds them.
async fn export(party: &Party<'_>, to: &Cluster, time: Time) -> Result<Reached, Failure> {
    let (side, inside) = (party.side, party.equipment.inside);
    let step = side.printer.start(format!("Exporting the services to {}", to.name));
    let what = format!("the network manager of the {} cluster does not translate yet", side.scope);
    let check = format!(
        "See its log: `kubectl logs -n {} deployment/{}`.",
        side.namespace,
        object::NETWORK_MANAGER
    );
    time.bound(&what, &check, Box::pin(translated(side, to))).await?;
    let work = async {
        let mut ipam = Ipam::connect(&side.client, &side.namespace).await?;
        let proxy = ipam.map(&to.id, inside.proxy.address).await?;
        let auth = ipam.map(&to.id, inside.auth.address).await?;
        Ok((proxy, auth))
    };
    let (proxy, auth) = time
        .bound(&what, &check, Box::pin(work))
        .await
        .map_err(|failure| failure.about(side.scope))?;
    let reached = Reached {
        auth: Place { address: auth, ..inside.auth },
        proxy: Place { address: proxy, ..inside.proxy },
    };
    step.done(format!(
        "{} finds liqo-auth at {auth}:{}/tcp, liqo-proxy at {proxy}:{}/tcp",
        to.name, reached.auth.port, reached.proxy.port
    ));
    Ok(reached)
}

/// Waits until addresses are translated for a peer.
async fn translated(side: &Side, peer: &Cluster) -> Result<(), Failure> {
    let mappings: Api<NatMapping> = Api::all(side.client.clone());
    let own = Config::default().labels(&format!("{}={}", label::PEER_ID, peer.id));
    let mut news = watcher(mappings, own).default_backoff().applied_objects().boxed();
    let found = news.try_next().await;
    found.map(drop).map_err(|error| side.failure("cannot watch the NatMappings", error))
}

/// Makes a cluster known to the other; by which name it is.
async fn introduce(party: &Party<'_>, other: &Party<'_>, time: Time) -> Result<String, Failure> {
    let (side, known, remote) = (party.side, party.known.as_ref(), &other.side.cluster);
    let token = &other.equipment.token;
    let stored = home::store_token(&side.client, &side.namespace, &remote.id, token).await;
    stored.map_err(|failure| failure.about(side.scope))?;
    let wanted = in_band::foreign(remote, other.outside, known);
    let name = wanted.name_any();
    if known.is_none_or(|known| known.spec != wanted.spec) {
        let clusters: Api<ForeignCluster> = Api::all(side.client.clone());
        let written = out_of_band::write(&clusters, &wanted, known, time.left(), &side.printer);
        written.await.map_err(|failure| failure.about(side.scope))?;
        side.printer.success(format!("The cluster {name} is introduced"));
    }
    Ok(name)
}

//! `peer out-of-band`: introduces another cluster by its address and its token.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use kube::{Api, Client, ResourceExt};
use liqo_api::discovery::{
    ClusterIdentity, ForeignCluster, ForeignClusterSpec, PeeringEnabled, PeeringType,
};
use liqo_api::keys::{label, object};
use liqo_api::names::{ClusterId, ClusterName};
use liqo_handshake::{Peer, Trust};
use liqo_identity::token::Token;
use tokio::time::timeout;

use super::wait;
use crate::cluster::duration;
use crate::failure::Failure;
use crate::home;
use crate::patience::despite_restarts;
use crate::printer::Printer;

const EXAMPLES: &str = "\
Examples:
  # As `liqoctl generate peer-command` prints it in the cluster that is to be used
  liqoctl peer out-of-band milan --auth-url https://198.18.2.11:30443 --cluster-id UUID --auth-token TOKEN
  # See what would happen, and whether the cluster answers
  liqoctl peer out-of-band milan --auth-url … --cluster-id … --auth-token … --dry-run";

/// How long taking back a refused peering may take.
const UNDOING: Duration = Duration::from_secs(15);

/// Peers with a cluster over the network that both are in
#[derive(Debug, clap::Args)]
#[command(visible_alias = "oob", after_help = EXAMPLES)]
pub struct OutOfBand {
    /// Name of the other cluster
    #[arg(value_name = "NAME")]
    cluster_name: ClusterName,
    /// URL of its authentication service
    #[arg(long, value_name = "URL")]
    auth_url: String,
    /// Identifier of it
    #[arg(long, value_name = "UUID")]
    cluster_id: ClusterId,
    /// Token of it
    #[arg(long, value_name = "TOKEN")]
    auth_token: String,
    /// Say what would happen, and whether the other cluster answers from here
    #[arg(long)]
    dry_run: bool,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration)]
    timeout: Duration,
}

/// Peers.
pub async fn run(
    arguments: &OutOfBand,
    client: &Client,
    namespace: &str,
    printer: &Printer,
) -> Result<(), Failure> {
    let own = home::identity(client, namespace).await?;
    if own.id == arguments.cluster_id {
        return Err(Failure::text("a cluster cannot peer with itself").hint(
            "Run the command for another cluster: choose it with --kubeconfig or --context.",
        ));
    }
    let token = Token::known(&arguments.auth_token)
        .ok_or_else(|| Failure::text("the token is empty").hint("Give --auth-token."))?;
    let clusters: Api<ForeignCluster> = Api::all(client.clone());
    let known = known(&clusters, &arguments.cluster_id, &arguments.cluster_name).await?;
    let wanted = wanted(arguments, known.as_ref())?;
    if arguments.dry_run {
        return Box::pin(probe(arguments, &wanted, known.is_some(), printer)).await;
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let new_secret = home::store_token(client, namespace, &arguments.cluster_id, &token).await?;
    write(&clusters, &wanted, known.as_ref(), arguments.timeout, printer).await?;
    let name = wanted.name_any();
    printer.success(format!("Outgoing peering activated to the remote cluster {name}"));
    let outcome = match known {
        Some(_) => Box::pin(wait::until_ready(client, &name, arguments.timeout, printer)).await,
        None => Box::pin(wait::until_new_is_ready(client, &name, arguments.timeout, printer)).await,
    };
    match outcome {
        Ok(()) => Ok(()),
        Err(wait::Error::Refused(why)) if known.is_none() => {
            let failure = Failure::text(format!("the peering was refused: {why}"));
            let secret = new_secret.then_some((&secrets, &arguments.cluster_id));
            let undone = undo(&clusters, &name, secret).await;
            Err(failure.hint(undone.err().unwrap_or_else(|| "Nothing was left behind.".to_owned())))
        }
        Err(error) => Err(error.failure()),
    }
}

/// The ForeignCluster that there is for a cluster; another one must not have its name.
async fn known(
    clusters: &Api<ForeignCluster>,
    id: &ClusterId,
    name: &ClusterName,
) -> Result<Option<ForeignCluster>, Failure> {
    // As the API server has it at hand; each is then read as it is now.
    let labelled = ListParams::default().labels(&format!("{}={id}", label::CLUSTER_ID)).match_any();
    let found = clusters.list(&labelled).await;
    let found = found.map_err(|error| Failure::new("cannot list the ForeignClusters", error))?;
    let listed = found.items.iter().map(ResourceExt::name_any);
    for name in listed.chain([name.to_string()]) {
        let found = clusters.get_opt(&name).await;
        let found =
            found.map_err(|error| Failure::new("cannot read the ForeignClusters", error))?;
        let Some(found) = found else { continue };
        let its = found.spec.cluster_identity.as_ref().map(|identity| &*identity.cluster_id);
        return if its == Some(id.as_str()) { Ok(Some(found)) } else { Err(taken(&name)) };
    }
    Ok(None)
}

/// The ForeignCluster as it should be.
fn wanted(
    arguments: &OutOfBand,
    known: Option<&ForeignCluster>,
) -> Result<ForeignCluster, Failure> {
    let Some(known) = known else {
        let mut spec = ForeignClusterSpec::reached_at(&arguments.auth_url);
        spec.cluster_identity = Some(ClusterIdentity {
            cluster_id: arguments.cluster_id.to_string(),
            cluster_name: arguments.cluster_name.to_string(),
        });
        spec.outgoing_peering_enabled = PeeringEnabled::Yes;
        spec.insecure_skip_tls_verify = true;
        let mut cluster = ForeignCluster::new(arguments.cluster_name.as_str(), spec);
        cluster.metadata.labels =
            Some([(label::CLUSTER_ID.to_owned(), arguments.cluster_id.to_string())].into());
        return Ok(cluster);
    };
    if known.spec.peering_type != PeeringType::OutOfBand {
        return Err(Failure::text(format!(
            "the cluster {} is peered with inside the tunnel already",
            known.name_any()
        ))
        .hint("Unpeer it first: `liqoctl unpeer in-band`."));
    }
    let metadata = ObjectMeta { name: known.metadata.name.clone(), ..ObjectMeta::default() };
    let mut spec = known.spec.clone();
    spec.foreign_auth_url.clone_from(&arguments.auth_url);
    spec.foreign_proxy_url = None;
    spec.outgoing_peering_enabled = PeeringEnabled::Yes;
    Ok(ForeignCluster { metadata, spec, status: None })
}

/// Writes a ForeignCluster, new or known.
pub async fn write(
    clusters: &Api<ForeignCluster>,
    wanted: &ForeignCluster,
    known: Option<&ForeignCluster>,
    limit: Duration,
    printer: &Printer,
) -> Result<(), Failure> {
    let name = wanted.name_any();
    let written = despite_restarts(limit, printer, async || match known {
        Some(_) => {
            let patch = Patch::Merge(serde_json::json!({ "spec": wanted.spec }));
            clusters.patch(&name, &PatchParams::default(), &patch).await
        }
        None => clusters.create(&PostParams::default(), wanted).await,
    });
    match written.await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Err(taken(&name)),
        Err(error) => Err(Failure::new(format!("cannot write the ForeignCluster {name}"), error)),
    }
}

fn taken(name: &str) -> Failure {
    Failure::text(format!(
        "there is another cluster called {name}: its ForeignCluster has another cluster ID"
    ))
    .hint("Give this one another name, or unpeer that one and delete its ForeignCluster.")
}

/// Takes back what was made for a peering that was refused.
async fn undo(
    clusters: &Api<ForeignCluster>,
    name: &str,
    secret: Option<(&Api<Secret>, &ClusterId)>,
) -> Result<(), String> {
    let gone = async {
        let deleted = clusters.delete(name, &DeleteParams::background()).await;
        if let Some(uid) = deleted.ok().and_then(|deleted| deleted.left()?.uid()) {
            let _ = await_condition(clusters.clone(), name, is_deleted(&uid)).await;
        }
        if let Some((secrets, id)) = secret {
            let _ =
                secrets.delete(&object::remote_token_secret(id), &DeleteParams::default()).await;
        }
    };
    timeout(UNDOING, gone)
        .await
        .map_err(|_| format!("The ForeignCluster {name} is still being deleted."))
}

/// Says what would happen, and whether the other cluster is what it should be.
async fn probe(
    arguments: &OutOfBand,
    wanted: &ForeignCluster,
    known: bool,
    printer: &Printer,
) -> Result<(), Failure> {
    let (name, url) = (wanted.name_any(), &arguments.auth_url);
    let secret = object::remote_token_secret(&arguments.cluster_id);
    printer.info(format!("Would store the token in Secret {secret}"));
    let verb = if known { "change" } else { "create" };
    printer.info(format!("Would {verb} the ForeignCluster {name}, with outgoing peering enabled"));
    let wrong = |error| Failure::new("the cluster is not to be found there", error);
    let peer = Peer::new(url, Trust::Anybody, None).map_err(wrong)?;
    peer.is(&arguments.cluster_id).await.map_err(wrong)?;
    printer.success(format!("{url} answers, and is the cluster {}", arguments.cluster_id));
    Ok(())
}

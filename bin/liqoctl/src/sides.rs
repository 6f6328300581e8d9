//! Two clusters that one command talks to: what each says of itself, and what is written in each.

use std::fmt::Display;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::{component, label, manager, object, port};
use liqo_api::names::{Cluster, ClusterId};
use liqo_api::net::IpamStorage;
use liqo_identity::tenant;
use liqo_identity::token::Token;
use liqo_ipam::Networks;
use liqo_network_exchange::by_hand;
use liqo_network_exchange::gateway::{Gateway, gateway};
use liqo_peering::in_band::{self, Place, Reached, Refusal};
use tokio::time::{Instant, timeout_at};

use crate::cluster::ClusterArguments;
use crate::failure::Failure;
use crate::home;
use crate::printer::Printer;

/// The time that a command has.
#[derive(Clone, Copy)]
pub struct Time {
    end: Instant,
    limit: Duration,
}

impl Time {
    /// So much from now on.
    pub fn of(limit: Duration) -> Self {
        Self { end: Instant::now() + limit, limit }
    }

    /// What is left of it.
    pub fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Does something as long as there is time; what it waits for, and what to check, are told then.
    pub async fn bound<T>(
        self,
        what: impl Display,
        check: impl Display,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match timeout_at(self.end, work).await {
            Ok(result) => result,
            Err(_) => Err(Failure::text(format!(
                "timed out waiting for the condition: after {} s, {what}",
                self.limit.as_secs()
            ))
            .hint(check)),
        }
    }
}

/// One of two clusters.
pub struct Side {
    /// Which of the two.
    pub scope: &'static str,
    /// Talks to it.
    pub client: Client,
    /// The namespace of Liqo in it.
    pub namespace: String,
    /// Who it is.
    pub cluster: Cluster,
    /// Writes about it.
    pub printer: Printer,
}

/// What a cluster has that another one needs, to talk to it inside a tunnel.
pub struct Equipment {
    /// Its networks.
    pub networks: Networks,
    /// Its gateway.
    pub gateway: Gateway,
    /// The token to present to it.
    pub token: Token,
    /// Where its Services are.
    pub inside: Reached,
}

/// Both clusters.
pub struct Sides {
    /// The one that the other flags are about.
    pub local: Side,
    /// The other one.
    pub remote: Side,
}

impl Sides {
    /// Finds out who two clusters are.
    pub async fn find(
        local: (&ClusterArguments, &str),
        remote: (&ClusterArguments, &str),
        printer: &Printer,
    ) -> Result<Self, Failure> {
        let local = Side::find("local", local, printer).await?;
        let remote = Side::find("remote", remote, printer).await?;
        in_band::are_two(&local.cluster, &remote.cluster).map_err(|refusal| {
            Failure::text(refusal)
                .hint("Choose the other one with --remote-kubeconfig or --remote-context.")
        })?;
        Ok(Self { local, remote })
    }
}

impl Side {
    async fn find(
        scope: &'static str,
        (arguments, namespace): (&ClusterArguments, &str),
        printer: &Printer,
    ) -> Result<Self, Failure> {
        let about = |failure: Failure| failure.about(scope);
        let connected = arguments.connect().await.map_err(about)?;
        let cluster = home::identity(&connected.client, namespace).await.map_err(about)?;
        let (client, namespace) = (connected.client, namespace.to_owned());
        let printer = printer.about(scope);
        printer.verbose(format!("This is the cluster {cluster}"));
        Ok(Self { scope, client, namespace, cluster, printer })
    }

    /// A failure in this cluster.
    pub fn failure(&self, what: impl Display, error: impl std::error::Error + 'static) -> Failure {
        Failure::new(what, error).about(self.scope)
    }

    /// What this cluster has that another one needs.
    pub async fn equipment(&self) -> Result<Equipment, Failure> {
        let step = self.printer.start("Looking at the network, the gateway and the services");
        self.has_tunnels().await?;
        let ledgers: Api<IpamStorage> = Api::all(self.client.clone());
        let ledgers = ledgers.list(&ListParams::default()).await;
        let ledgers = ledgers.map_err(|error| self.failure("cannot read its networks", error))?;
        let networks = by_hand::own(&ledgers.items).map_err(|error| {
            let failure = self.failure("cannot tell what its networks are", error);
            failure.hint("See with `liqoctl status` how liqo-network-manager does.")
        })?;
        let gateway = self.gateway().await?;
        let token = home::token(&self.client, &self.namespace).await;
        let token = token.map_err(|failure| failure.about(self.scope))?;
        let inside = self.services().await?;
        step.done(format!(
            "Pods are in {}, the gateway is at {}:{}/udp",
            networks.pod, gateway.address, gateway.port
        ));
        if in_band::is_private(&gateway.address) {
            self.printer.warn(format!(
                "The gateway's address {} is private: the other cluster's gateway may not reach it",
                gateway.address
            ));
        }
        Ok(Equipment { networks, gateway, token, inside })
    }

    async fn has_tunnels(&self) -> Result<(), Failure> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let what = "cannot look at the controller manager";
        let found = deployments.list(&of(component::CONTROLLER_MANAGER)).await;
        let found = found.map_err(|error| self.failure(what, error))?;
        let one = found.items.first().ok_or_else(|| {
            Failure::text(format!("{what}: there is none in namespace {}", self.namespace))
                .about(self.scope)
                .hint("Install Liqo first, or say where it is with --namespace and --remote-namespace.")
        })?;
        in_band::has_tunnels(one).map_err(|refusal| {
            Failure::text(refusal)
                .about(self.scope)
                .hint("Peer out of band, or install Liqo with its own network.")
        })
    }

    async fn gateway(&self) -> Result<Gateway, Failure> {
        let what = "cannot tell where its gateway is";
        let failed = |error| self.failure(what, error);
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let marked =
            |name: &str, value: &str| ListParams::default().labels(&format!("{name}={value}"));
        let services = services.list(&marked(label::GATEWAY, label::TRUE)).await;
        let keys = secrets.list(&marked(label::TUNNEL_KEY, label::TUNNEL_KEY_WIREGUARD)).await;
        let (services, keys) = (services.map_err(failed)?, keys.map_err(failed)?);
        gateway(services.items.first(), keys.items.first()).map_err(|error| {
            let failure = self.failure(what, error);
            failure.hint("See with `liqoctl status` how liqo-gateway does.")
        })
    }

    /// Where the services are that another cluster talks to, as this one knows them.
    pub async fn services(&self) -> Result<Reached, Failure> {
        Ok(Reached {
            auth: self.service(component::AUTH, object::AUTH, port::NAME_HTTPS).await?,
            proxy: self.service(component::PROXY, object::PROXY, port::NAME_HTTP).await?,
        })
    }

    async fn service(&self, name: &str, shown: &str, port: &'static str) -> Result<Place, Failure> {
        let what = format!("cannot tell where {shown} is");
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = services.list(&of(name)).await.map_err(|error| self.failure(&what, error))?;
        let service = found.items.first().ok_or_else(|| {
            Failure::text(format!("{what}: there is no Service of it")).about(self.scope)
        })?;
        in_band::place(service, port).map_err(|error| self.failure(&what, error))
    }

    /// The ForeignCluster of the other one, if it is known here.
    pub async fn known(&self, other: &Cluster) -> Result<Option<ForeignCluster>, Failure> {
        self.look_up(other).await?.map_err(|refusal| {
            Failure::text(&refusal).about(self.scope).hint(match refusal {
                Refusal::OutOfBand(name) => {
                    format!("Unpeer it first: `liqoctl unpeer out-of-band {name}`.")
                }
                Refusal::Same(_) | Refusal::Taken(_) | Refusal::ExternalNetwork => {
                    "Unpeer that one and delete its ForeignCluster.".to_owned()
                }
            })
        })
    }

    /// The same, or what speaks against it.
    pub async fn look_up(
        &self,
        other: &Cluster,
    ) -> Result<Result<Option<ForeignCluster>, Refusal>, Failure> {
        let clusters: Api<ForeignCluster> = Api::all(self.client.clone());
        let all = clusters.list(&ListParams::default()).await;
        let all = all.map_err(|error| self.failure("cannot list the ForeignClusters", error))?;
        Ok(in_band::known(other, &all.items).map(Option::<&_>::cloned))
    }

    /// The namespaces that are kept for the other one; there should be one at most.
    pub async fn tenants(&self, other: &ClusterId) -> Result<Vec<Namespace>, Failure> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let own = ListParams::default().labels(&tenant::namespaces_of(other));
        let found = namespaces.list(&own).await;
        found.map(|found| found.items).map_err(|error| {
            self.failure("cannot look for the namespace of the other cluster", error)
        })
    }

    /// The namespace that is kept for the other one, made if there is none.
    pub async fn tenant(&self, other: &Cluster, time: Time) -> Result<String, Failure> {
        let what = "cannot make the namespace of the other cluster";
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = self.tenants(&other.id).await?;
        for ending in found.iter().filter(|found| tenant::is_ending(found)) {
            let name = ending.name_any();
            let _step = self.printer.start(format!("Waiting for the end of namespace {name}"));
            self.gone(&namespaces, ending, time).await?;
        }
        let standing = found.iter().filter(|found| !tenant::is_ending(found));
        if let Some(name) = tenant::existing(standing).map_err(|error| self.failure(what, error))? {
            return Ok(name.to_owned());
        }
        let want = tenant::namespace(other).map_err(|error| self.failure(what, error))?;
        let params = PatchParams::apply(manager::LIQOCTL).force();
        let made = namespaces.patch(&want.name_any(), &params, &Patch::Apply(&want)).await;
        made.map_err(|error| self.failure(what, error))?;
        self.printer.success(format!("Namespace {} made for {other}", want.name_any()));
        Ok(want.name_any())
    }

    /// Waits until an object is gone.
    pub async fn gone<K>(&self, api: &Api<K>, object: &K, time: Time) -> Result<(), Failure>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static,
        K: serde::de::DeserializeOwned,
    {
        let Some(uid) = object.uid() else { return Ok(()) };
        let (kind, name) = (K::kind(&()).to_lowercase(), object.name_any());
        let waiting = async {
            let gone = await_condition(api.clone(), &name, is_deleted(&uid)).await;
            gone.map(drop)
                .map_err(|error| self.failure(format!("cannot watch {kind} {name}"), error))
        };
        let what = format!("{kind} {name} of the {} cluster is not gone", self.scope);
        let check = format!("See what it waits for: `kubectl get {kind} {name} -o yaml`.");
        time.bound(what, check, waiting).await
    }
}

/// Selects a component.
fn of(name: &str) -> ListParams {
    ListParams::default().labels(&format!("{}={name}", label::APP_NAME))
}

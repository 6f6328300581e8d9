//! Two clusters that are introduced to each other, to talk through the tunnel between them.
//!
//! Somebody who has access to both tells each how to reach the other: the tunnel first, then the
//! addresses under which the authentication service and the proxy to the API server are known at
//! the far end.

use std::net::Ipv4Addr;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube_core::ResourceExt as _;
use liqo_api::condition::peering_status;
use liqo_api::discovery::{
    ClusterIdentity, ForeignCluster, ForeignClusterSpec, PeeringConditionStatus as Status,
    PeeringConditionType as Kind, PeeringEnabled, PeeringType,
};
use liqo_api::keys::label;
use liqo_api::names::Cluster;

/// The flag of the controller manager with which somebody else takes care of the network.
const EXTERNAL_NETWORK: &str = "--disable-internal-network";

/// Why two clusters cannot be introduced to each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// They are one.
    #[error("both are the cluster {0}: a cluster cannot peer with itself")]
    Same(Cluster),
    /// They talk outside the tunnel.
    #[error("ForeignCluster {0} is peered with out of band")]
    OutOfBand(String),
    /// Another cluster has the name.
    #[error("there is another cluster called {0}: its ForeignCluster has another cluster ID")]
    Taken(String),
    /// Nobody here makes tunnels.
    #[error("its network is not Liqo's (networking.internal is false), so there is no tunnel")]
    ExternalNetwork,
}

/// Refuses to introduce a cluster to itself.
pub fn are_two(one: &Cluster, other: &Cluster) -> Result<(), Refusal> {
    if one.id == other.id { Err(Refusal::Same(one.clone())) } else { Ok(()) }
}

/// Refuses a cluster that has no tunnels, as its controller manager says.
pub fn has_tunnels(controller_manager: &Deployment) -> Result<(), Refusal> {
    let spec = controller_manager.spec.template.spec.as_ref();
    let containers = spec.map(|spec| &*spec.containers).unwrap_or_default();
    let mut flags = containers.iter().flat_map(|container| container.args.iter().flatten());
    let is_set = |flag: &String| match flag.strip_prefix(EXTERNAL_NETWORK) {
        Some("" | "=true") => true,
        Some(_) | None => false,
    };
    if flags.any(is_set) { Err(Refusal::ExternalNetwork) } else { Ok(()) }
}

/// The ForeignCluster of a cluster among all, if that one talks through the tunnel or is new.
///
/// The oldest counts, as everywhere.
pub fn known<'a>(
    remote: &Cluster,
    all: &'a [ForeignCluster],
) -> Result<Option<&'a ForeignCluster>, Refusal> {
    let is_it = |cluster: &&ForeignCluster| {
        let identity = cluster.spec.cluster_identity.as_ref();
        identity.is_some_and(|identity| identity.cluster_id == remote.id.as_str())
    };
    let age = |cluster: &&ForeignCluster| {
        let created = cluster.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (created, cluster.metadata.uid.clone())
    };
    match all.iter().filter(is_it).min_by_key(age) {
        Some(found) if found.spec.peering_type != PeeringType::InBand => {
            Err(Refusal::OutOfBand(found.name_any()))
        }
        Some(found) => Ok(Some(found)),
        None if all.iter().any(|other| other.name_any() == remote.name.as_str()) => {
            Err(Refusal::Taken(remote.name.to_string()))
        }
        None => Ok(None),
    }
}

/// Where a Service of a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address, in its own cluster or as another one knows it.
    pub address: Ipv4Addr,
    /// Its port.
    pub port: u16,
}

/// A Service is nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nowhere {
    /// It has no address.
    #[error("its Service {0} has no address of IPv4 in the cluster")]
    NoAddress(String),
    /// It has no such port.
    #[error("its Service {0} has no port '{1}'")]
    NoPort(String, &'static str),
}

/// Where a Service is in its own cluster, by the name of a port.
pub fn place(service: &Service, port: &'static str) -> Result<Place, Nowhere> {
    let (name, spec) = (service.name_any(), service.spec.as_ref());
    let mut addresses = spec
        .into_iter()
        .flat_map(|spec| spec.cluster_ips.iter().flatten().chain(spec.cluster_ip.iter()));
    let address = addresses.find_map(|text| text.parse().ok());
    let address = address.ok_or_else(|| Nowhere::NoAddress(name.clone()))?;
    let mut ports = spec.into_iter().flat_map(|spec| spec.ports.iter().flatten());
    let number = ports.find(|found| found.name.as_deref() == Some(port)).map(|found| found.port);
    let port =
        number.and_then(|number| u16::try_from(number).ok()).ok_or(Nowhere::NoPort(name, port))?;
    Ok(Place { address, port })
}

/// Where another cluster is found, inside the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Its authentication service.
    pub auth: Place,
    /// The proxy to its API server.
    pub proxy: Place,
}

/// The ForeignCluster of a cluster as it has to be; what is wanted of it stays what it was.
///
/// Nothing is asked of a new one yet: who is asked must know who asks, or would take it for a
/// stranger outside the tunnel.
pub fn foreign(
    remote: &Cluster,
    reached: Reached,
    known: Option<&ForeignCluster>,
) -> ForeignCluster {
    let Reached { auth, proxy } = reached;
    let auth_url = format!("https://{}:{}", auth.address, auth.port);
    let proxy_url = Some(format!("http://{}:{}", proxy.address, proxy.port));
    let mut cluster = match known {
        Some(known) => ForeignCluster::new(&known.name_any(), known.spec.clone()),
        None => ForeignCluster::new(
            remote.name.as_str(),
            ForeignClusterSpec {
                outgoing_peering_enabled: PeeringEnabled::No,
                ..ForeignClusterSpec::reached_at("")
            },
        ),
    };
    let labels = [(label::CLUSTER_ID.to_owned(), remote.id.to_string())];
    cluster.metadata.labels = Some(labels.into());
    let spec = &mut cluster.spec;
    spec.peering_type = PeeringType::InBand;
    // Neither can change once it is written.
    let identity = spec.cluster_identity.get_or_insert_with(|| ClusterIdentity::from(remote));
    if identity.cluster_name.is_empty() {
        identity.cluster_name = remote.name.to_string();
    }
    (spec.foreign_auth_url, spec.foreign_proxy_url) = (auth_url, proxy_url);
    cluster
}

/// Whether nobody uses resources of the other any more, as one side sees it.
pub fn is_idle(cluster: &ForeignCluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| &*status.peering_conditions);
    let is_none = |kind| peering_status(conditions.unwrap_or_default(), kind) == Status::None;
    is_none(Kind::OutgoingPeering) && is_none(Kind::IncomingPeering)
}

/// Whether an address of a gateway is one that others may have, too: not everybody reaches it.
pub fn is_private(address: &str) -> bool {
    address.parse::<Ipv4Addr>().is_ok_and(|address| {
        let [first, second, ..] = address.octets();
        address.is_private() || address.is_link_local() || (first == 100 && second & 0xc0 == 64)
    })
}

#[cfg(test)]
mod tests;

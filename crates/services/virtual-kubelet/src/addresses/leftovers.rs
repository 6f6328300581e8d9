//! Addresses that a virtual kubelet before this one held, and that nobody needs any more.
//!
//! Who holds an address is known only while a virtual kubelet runs. What was let go of in between
//! shows in the cluster: an address that is exported to the peer, and that neither a slice of
//! endpoints nor a Service has.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use liqo_api::keys::label;
use liqo_api::names::ClusterId;
use liqo_api::net::NatMapping;
use liqo_kit::keyed::chain;
use liqo_kit::retry::Backoff;
use tokio::time::sleep;
use tracing::{info, warn};

use super::Addresses;

/// Why leftovers are not given back yet.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot look for {0}")]
    Look(&'static str, #[source] kube::Error),
    #[error(transparent)]
    Address(#[from] super::Error),
}

/// Gives leftovers back, however often that has to be tried.
pub(crate) async fn give_back(home: Client, peer: ClusterId, addresses: Arc<Addresses>) {
    let backoff = Backoff::default();
    let mut failures = 0;
    while let Err(error) = try_once(&home, &peer, &addresses).await {
        failures += 1;
        warn!(error = chain(&error), "Addresses of before not given back yet");
        sleep(backoff.jittered(failures)).await;
    }
}

async fn try_once(home: &Client, peer: &ClusterId, addresses: &Addresses) -> Result<(), Error> {
    let of_peer = ListParams::default().labels(&format!("{}={peer}", label::PEER_ID));
    let mappings: Api<NatMapping> = Api::all(home.clone());
    let mappings = mappings.list(&of_peer).await.map_err(|error| Error::Look("mappings", error))?;
    let exported = mappings.items.iter().flat_map(|mapping| mapping.spec.cluster_mappings.keys());
    let exported: BTreeSet<IpAddr> = exported.filter_map(|text| text.parse().ok()).collect();
    if exported.is_empty() {
        return Ok(());
    }
    let all = ListParams::default();
    let slices: Api<EndpointSlice> = Api::all(home.clone());
    let slices = slices.list(&all).await.map_err(|error| Error::Look("endpoints", error))?;
    let services: Api<Service> = Api::all(home.clone());
    let services = services.list(&all).await.map_err(|error| Error::Look("Services", error))?;
    let left = leftovers(exported, &slices.items, &services.items);
    if left.is_empty() {
        return Ok(());
    }
    info!(count = left.len(), "Giving back addresses of before");
    addresses.leave(left);
    Ok(addresses.give_back().await?)
}

/// What is exported, and nobody can need.
fn leftovers(
    mut exported: BTreeSet<IpAddr>,
    slices: &[EndpointSlice],
    services: &[Service],
) -> BTreeSet<IpAddr> {
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let endpoints = endpoints.flat_map(|endpoint| &endpoint.addresses);
    // Command lines export Services, for peerings inside the tunnel; and pods reach the API server.
    let own = services.iter().filter_map(|service| service.spec.as_ref()?.cluster_ips.as_ref());
    for address in endpoints.chain(own.flatten()) {
        if let Ok(address) = address.parse() {
            exported.remove(&address);
        }
    }
    // That of the tunnel is nobody's to give back.
    exported.retain(|address| !matches!(address, IpAddr::V4(v4) if v4.is_link_local()));
    exported
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_no_slice_and_no_service_has_is_left_over() {
        let set = |texts: &[&str]| -> BTreeSet<IpAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}]});
        let slices = [serde_json::from_value(slice).unwrap()];
        let service = json!({"spec": {"clusterIPs": ["10.94.0.1"]}});
        let services = [serde_json::from_value(service).unwrap()];
        let exported = set(&["169.254.0.1", "192.0.2.1", "192.0.2.2", "10.94.0.1"]);
        assert_eq!(leftovers(exported, &slices, &services), set(&["192.0.2.2"]));
    }
}

//! What somebody who has access to two clusters tells each of the other's network.
//!
//! This is what the clusters tell each other themselves where they can: the word of one cluster in
//! its own namespace for the other, and a copy of it there. Nobody but who wrote them takes them back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::ResourceExt as _;
use liqo_api::keys::{annotation, label};
use liqo_api::names::Cluster;
use liqo_api::net::{InvalidNetwork, IpamStorage, NetworkConfig, NetworkConfigStatus, network};
use liqo_ipam::Networks;

use crate::gateway::Gateway;
use crate::told::{spec, texts};

/// Why the networks of a cluster are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoNetworks {
    /// Nobody keeps a ledger.
    #[error("there is no IpamStorage yet")]
    NoLedger,
    /// There is more than one.
    #[error("there are {0} IpamStorages, and only one of them can be right")]
    Several(usize),
    /// Something in it is no network.
    #[error("the IpamStorage does not say what its networks are yet: {0}")]
    Unset(#[source] InvalidNetwork),
}

/// The networks of a cluster, as its ledger says.
pub fn own(ledgers: &[IpamStorage]) -> Result<Networks, NoNetworks> {
    match ledgers {
        [] => Err(NoNetworks::NoLedger),
        [ledger] => Ok(Networks {
            pod: network(&ledger.spec.pod_cidr).map_err(NoNetworks::Unset)?,
            external: network(&ledger.spec.external_cidr).map_err(NoNetworks::Unset)?,
        }),
        more => Err(NoNetworks::Several(more.len())),
    }
}

/// What a cluster says of its network to another, in its own namespace for that one.
pub fn word(to: &Cluster, namespace: &str, own: Networks, gateway: &Gateway) -> NetworkConfig {
    let labels = [(label::REPLICATION, label::TRUE), (label::REMOTE_ID, to.id.as_str())];
    NetworkConfig {
        metadata: ObjectMeta {
            name: Some(to.unique_name().to_string()),
            namespace: Some(namespace.to_owned()),
            labels: Some(texts(labels)),
            ..ObjectMeta::default()
        },
        spec: spec(to, own, gateway),
        status: None,
    }
}

/// The same where the other one hears it, in its namespace for the one that says it.
pub fn copy(word: &NetworkConfig, from: &Cluster, namespace: &str) -> NetworkConfig {
    let labels = [
        (label::REPLICATION, label::FALSE),
        (label::REPLICATED, label::TRUE),
        (label::ORIGIN_ID, from.id.as_str()),
        (label::REMOTE_ID, &word.spec.receiver.cluster_id),
    ];
    NetworkConfig {
        metadata: ObjectMeta {
            name: word.metadata.name.clone(),
            namespace: Some(namespace.to_owned()),
            labels: Some(texts(labels)),
            ..ObjectMeta::default()
        },
        spec: word.spec.clone(),
        status: None,
    }
}

/// What became of what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// Nothing yet.
    Waiting,
    /// It is refused, for this reason.
    Refused(&'a str),
    /// It is answered.
    Answered(&'a NetworkConfigStatus),
}

/// What became of what was said, as the copy shows.
pub fn heard(copy: &NetworkConfig) -> Heard<'_> {
    if let Some(reason) = copy.annotations().get(annotation::NETWORK_REFUSED) {
        return Heard::Refused(reason);
    }
    match &copy.status {
        Some(status) if status.processed => Heard::Answered(status),
        Some(_) | None => Heard::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use liqo_api::net::IpamStorageSpec;

    use super::*;
    use crate::fixtures::{KEY, at_rome, foreign, golden, networks};
    use crate::told::{is_copy, is_ours, listener, peer};

    #[test]
    fn by_hand_the_same_is_told_as_clusters_tell_each_other() {
        let listener = listener(&foreign()).unwrap();
        let gateway =
            Gateway { address: "172.30.0.2".to_owned(), port: 32680, public_key: KEY.to_owned() };
        let own = networks("10.200.0.0/16", "10.95.0.0/16");
        let word = word(&listener.remote, &listener.namespace, own, &gateway);
        let want = golden(at_rome::LOCAL);
        assert_eq!((&word.spec, word.name_any()), (&want.spec, want.name_any()));
        assert!(!is_ours(&word), "it is not taken back by the cluster itself");
        assert_eq!(peer(&word), Some(listener.remote.id.as_str()));
        let rome = Cluster {
            id: "41543714-6e17-4c7b-9bc9-70de7f7ae64f".parse().unwrap(),
            name: "rome".parse().unwrap(),
        };
        let copy = copy(&word, &rome, "there");
        assert_eq!((&copy.spec, copy.namespace().as_deref()), (&word.spec, Some("there")));
        let of_clusters = golden(at_rome::REPLICA);
        let names = |config: &NetworkConfig| config.labels().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&copy), names(&of_clusters));
        assert!(is_copy(&copy) && peer(&copy) == Some(rome.id.as_str()));
    }

    #[test]
    fn networks_are_those_of_the_one_ledger() {
        let mut ledger = IpamStorage::new("ipam", IpamStorageSpec::default());
        assert_eq!(own(&[]), Err(NoNetworks::NoLedger));
        assert!(matches!(own(&[ledger.clone()]), Err(NoNetworks::Unset(_))));
        ledger.spec.pod_cidr = "10.200.0.0/16".to_owned();
        ledger.spec.external_cidr = "10.95.0.0/16".to_owned();
        assert_eq!(own(&[ledger.clone()]), Ok(networks("10.200.0.0/16", "10.95.0.0/16")));
        assert_eq!(own(&[ledger.clone(), ledger]), Err(NoNetworks::Several(2)));
    }

    #[test]
    fn an_answer_counts_unless_something_is_refused() {
        let mut copy = golden(at_rome::REPLICA);
        let status = copy.status.clone().unwrap();
        assert_eq!(heard(&copy), Heard::Answered(&status));
        let refused = (annotation::NETWORK_REFUSED.to_owned(), "no room".to_owned());
        copy.annotations_mut().extend([refused]);
        assert_eq!(heard(&copy), Heard::Refused("no room"));
        copy.metadata.annotations = None;
        copy.status = None;
        assert_eq!(heard(&copy), Heard::Waiting);
    }
}

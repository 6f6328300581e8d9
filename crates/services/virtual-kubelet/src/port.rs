//! The port of the node: logs of its pods, and streams into them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use liqo_api::names::ClusterId;
use liqo_kit::args::Listen;
use liqo_kit::client::Remote;
use liqo_kubelet_api::{Kubelet, Provider};

use crate::reflection::namespaces::Namespaces;
use crate::{Args, Process};

/// What the port has to know of the other cluster.
struct Peer {
    remote: Remote,
    namespaces: Namespaces,
}

impl Provider for Peer {
    fn client(&self) -> Option<Client> {
        self.remote.current().map(|remote| remote.client)
    }

    fn namespaces(&self) -> BTreeMap<String, String> {
        self.namespaces.known().map(|known| (*known).clone()).unwrap_or_default()
    }
}

/// What is served there, for pods of the namespaces that extend to the other cluster.
pub(crate) fn kubelet(
    process: &Process,
    args: &Args,
    consumer: &ClusterId,
    remote: Remote,
    namespaces: Namespaces,
) -> Kubelet {
    Kubelet {
        node: args.nodename.clone(),
        address: args.node_ip,
        listen: Listen { host: None, port: args.listen_port },
        certificate: args.certificate_type,
        consumer: consumer.clone(),
        home: process.client.clone(),
        provider: Arc::new(Peer { remote, namespaces }),
    }
}

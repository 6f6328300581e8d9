//! The node's sign of life.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client};
use liqo_api::keys::{manager, object};
use liqo_kit::keyed::chain;
use liqo_kit::retry::Backoff;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::warn;

/// A lease that is renewed four times within its duration.
pub(crate) struct Lease {
    pub(crate) client: Client,
    pub(crate) duration: Duration,
    pub(crate) node: String,
}

impl Lease {
    /// Renews the lease of the node of which there is a UID, at once when there is a new one.
    pub(crate) async fn keep(self, mut uid: watch::Receiver<Option<String>>) {
        let leases: Api<LeaseObject> =
            Api::namespaced(self.client.clone(), object::NODE_LEASE_NAMESPACE);
        let backoff = Backoff { first: Duration::from_millis(200), limit: self.duration / 4 };
        let mut failures = 0;
        loop {
            let Some(now) = uid.borrow_and_update().clone() else {
                if uid.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let lease = self.lease(now, Timestamp::now());
            let params = PatchParams::apply(manager::VIRTUAL_KUBELET).force();
            let patch = Patch::Apply(&lease);
            let renewal = leases.patch(&self.node, &params, &patch);
            let pause = match timeout(self.duration / 4, renewal).await {
                Ok(Ok(_)) => {
                    failures = 0;
                    self.duration / 4
                }
                Ok(Err(error)) => {
                    warn!(error = chain(&error), "Cannot renew the lease");
                    failures += 1;
                    backoff.jittered(failures)
                }
                Err(_) => {
                    warn!("Cannot renew the lease: no answer in time");
                    Duration::ZERO
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                changed = uid.changed() => if changed.is_err() { return },
            }
        }
    }

    fn lease(&self, uid: String, now: Timestamp) -> LeaseObject {
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid,
            ..OwnerReference::default()
        };
        let metadata = ObjectMeta {
            name: Some(self.node.clone()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        let spec = LeaseSpec {
            holder_identity: Some(self.node.clone()),
            lease_duration_seconds: i32::try_from(self.duration.as_secs()).ok(),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        };
        LeaseObject { metadata, spec: Some(spec) }
    }
}

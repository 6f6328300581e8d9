//! Asks a pod to leave, as far as its disruption budget allows.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::EvictParams;
use tokio::time::timeout;

use crate::retry::or_gone;

/// How long a budget may take to say no: clients ask again and again whoever is too busy, which is what
/// its answer looks like.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a pod to leave; false when a disruption budget keeps it for now.
pub async fn evict(pods: &Api<Pod>, name: &str) -> kube::Result<bool> {
    let params = EvictParams::default();
    match timeout(PATIENCE, pods.evict(name, &params)).await {
        Err(_) => Ok(false),
        Ok(Err(kube::Error::Api(status))) if status.code == 429 => Ok(false),
        Ok(answer) => or_gone(answer).map(|_| true),
    }
}

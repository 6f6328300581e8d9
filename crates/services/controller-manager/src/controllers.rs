//! The controllers, and what they share.

use kube::Client;
use liqo_kit::health::Check;
use liqo_kit::service::Service;

use crate::Args;

/// Runs the controllers until the service stops.
pub async fn run(_args: &Args, _client: &Client, service: &Service, synced: Check) {
    synced.pass();
    service.stop.cancelled().await;
}

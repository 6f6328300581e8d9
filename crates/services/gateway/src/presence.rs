//! Notices at once that the active gateway's process is gone.
//!
//! Every gateway keeps a port open as long as it lives, and those that stand by keep a connection to
//! the active one. When its process ends, however it ends, the kernel closes the connection; when it
//! then refuses another one, nobody is left who could hold the Lease, and it is given up in its
//! name. One that was started again in the same pod is told from its forerunner by chance. What the
//! network hides, such as a node without power, is found by the Lease itself.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::{annotation, object};
use liqo_kit::keyed::chain;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::error::Error;

/// How long a connection may take.
const LIMIT: Duration = Duration::from_secs(2);

/// How often a connection may end before it is clear that this is no way to tell.
const ATTEMPTS: usize = 20;

/// A port that is open as long as this process lives.
pub(crate) async fn open(address: Ipv4Addr) -> Result<(TcpListener, u16), Error> {
    let refuse = |source| Error::Listen { port: 0, source };
    let listener = TcpListener::bind((address, 0)).await.map_err(refuse)?;
    let port = listener.local_addr().map_err(refuse)?.port();
    Ok((listener, port))
}

/// Keeps all connections, and says nothing.
pub(crate) async fn be_there(listener: TcpListener) {
    let mut held = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((mut connection, _)) => {
                while held.try_join_next().is_some() {}
                held.spawn(async move {
                    let mut nothing = [0; 1];
                    // It ends when the other side goes, or says something that nobody understands.
                    let _ = connection.read(&mut nothing).await;
                });
            }
            Err(error) => {
                debug!(%error, "A connection failed");
                sleep(LIMIT).await;
            }
        }
    }
}

/// One that stands by.
pub(crate) struct Watcher<'a> {
    pub client: &'a Client,
    pub namespace: &'a str,
    /// What the Lease says when this process leads.
    pub identity: &'a str,
    pub pause: Duration,
    /// Whether this process leads by now.
    pub leads: &'a AtomicBool,
}

impl Watcher<'_> {
    /// Ends when the active gateway is gone and the Lease is free; never once this process leads.
    pub async fn until_it_is_gone(&self) {
        loop {
            if self.leads.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            match self.look().await {
                Ok(true) if !self.leads.load(Ordering::Relaxed) => return,
                Ok(_) => {}
                Err(error) => debug!(error = chain(&error), "Cannot watch the active gateway"),
            }
            sleep(self.pause).await;
        }
    }

    /// Whether the active gateway was seen to go.
    async fn look(&self) -> kube::Result<bool> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), self.namespace);
        let Some(lease) = leases.get_opt(object::GATEWAY_LEASE).await? else { return Ok(false) };
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        if !self.is_gone(&holder).await? {
            return Ok(false);
        }
        info!(holder, "The active gateway is gone");
        self.free(&leases, &holder).await
    }

    /// Waits for the end of the process that holds the Lease; false when that cannot be told.
    async fn is_gone(&self, holder: &str) -> kube::Result<bool> {
        let Some((name, chance)) = holder.rsplit_once('_') else { return Ok(false) };
        if holder == self.identity {
            return Ok(false);
        }
        if self.identity.rsplit_once('_').is_some_and(|(pod, _)| pod == name) {
            // One that ran before in this very pod.
            return Ok(true);
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), self.namespace);
        let Some(pod) = pods.get_opt(name).await? else { return Ok(false) };
        let Some((address, now)) = told(&pod) else { return Ok(false) };
        if now != chance {
            // Another process runs in its pod by now.
            return Ok(true);
        }
        for _ in 0..ATTEMPTS {
            match timeout(LIMIT, TcpStream::connect(address)).await {
                Ok(Ok(mut connection)) => {
                    debug!(holder, %address, "Watching the active gateway");
                    let mut nothing = [0; 1];
                    let _ = connection.read(&mut nothing).await;
                    // A process that ends closes its connections and its port one after the other.
                }
                Ok(Err(error)) => return Ok(error.kind() == ErrorKind::ConnectionRefused),
                Err(_) => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Gives up the Lease in the name of one that cannot.
    async fn free(&self, leases: &Api<Lease>, holder: &str) -> kube::Result<bool> {
        let lease = leases.get(object::GATEWAY_LEASE).await?;
        let version = lease.resource_version();
        if lease.spec.and_then(|spec| spec.holder_identity).as_deref() != Some(holder) {
            return Ok(true);
        }
        let change = json!({
            "metadata": { "resourceVersion": version },
            "spec": { "holderIdentity": "" },
        });
        let name = object::GATEWAY_LEASE;
        match leases.patch(name, &PatchParams::default(), &Patch::Merge(change)).await {
            Ok(_) => Ok(true),
            // Somebody else did.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(true),
            Err(error) => {
                warn!(error = chain(&error), "The Lease of the one that is gone stays");
                Err(error)
            }
        }
    }
}

/// What a gateway's pod tells: where its process is there, and which one it is.
fn told(pod: &Pod) -> Option<(SocketAddr, String)> {
    let (port, chance) = pod.annotations().get(annotation::GATEWAY_PRESENCE)?.split_once('_')?;
    let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    Some((SocketAddr::new(address, port.parse().ok()?), chance.to_owned()))
}

//! Approves the serving certificates of virtual kubelets, each for its own node.

use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::{manager, object, reason};
use liqo_kit::keyed::{Next, Queue};
use liqo_kit::retry::or_gone;
use liqo_kit::watch::{Key, Store, watch};
use liqo_peering::approval::{Request, common_name, is_approved};
use serde::Serialize;
use tracing::info;

use crate::error::Error;
use crate::world::{World, remote};

/// What is written to approve.
#[derive(Debug, Serialize)]
struct Approval {
    status: CertificateSigningRequestStatus,
}

/// Approves, for each of the signers.
pub async fn run(world: World, client: Client) {
    let signers = [object::SIGNER_KUBELET, object::SIGNER_EKS];
    let approvals = signers.map(|signer| approve_for(world.clone(), client.clone(), signer));
    futures::future::join_all(approvals).await;
}

async fn approve_for(world: World, client: Client, signer: &str) {
    let api: Api<CertificateSigningRequest> = Api::all(client);
    let config = Config::default().fields(&format!("spec.signerName={signer}"));
    let (store, touched) = watch(api.clone(), config);
    let work = |key| reconcile(&world, &store, &api, key);
    Queue::new("certificate approvals").run(touched, work).await;
}

async fn reconcile(
    world: &World,
    store: &Store<CertificateSigningRequest>,
    api: &Api<CertificateSigningRequest>,
    key: Key,
) -> Result<Next, Error> {
    let Some(csr) = store.object(&key) else { return Ok(Next::AwaitChange) };
    let status = csr.status.as_ref();
    let is_decided =
        status.and_then(|status| status.conditions.as_ref()).is_some_and(|all| !all.is_empty());
    let subject = common_name(&csr.spec.request.0);
    let request = Request {
        signer: &csr.spec.signer_name,
        user: csr.spec.username.as_deref().unwrap_or_default(),
        common_name: subject.as_deref().unwrap_or_default(),
    };
    if is_decided || !is_approved(request, |tenant| node_of(world, tenant)) {
        return Ok(Next::AwaitChange);
    }
    let condition = CertificateSigningRequestCondition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: Some(reason::CSR_VIRTUAL_KUBELET.to_owned()),
        message: Some("The virtual kubelet asks for its own node".to_owned()),
        ..CertificateSigningRequestCondition::default()
    };
    let status = CertificateSigningRequestStatus {
        conditions: Some(vec![condition]),
        ..CertificateSigningRequestStatus::default()
    };
    let params = PatchParams {
        field_manager: Some(manager::VIRTUAL_NODE.to_owned()),
        ..PatchParams::default()
    };
    let approved =
        api.patch_approval(&key.name, &params, &Patch::Strategic(&Approval { status })).await;
    or_gone(approved).map_err(Error::request("approve a certificate"))?;
    info!(request = key.name, user = request.user, "Certificate approved");
    Ok(Next::AwaitChange)
}

/// The virtual node that belongs to a tenant namespace.
fn node_of(world: &World, tenant: &str) -> Option<String> {
    let cluster = remote(&*world.cluster_of_tenant(tenant)?)?;
    Some(cluster.virtual_node().ok()?.to_string())
}

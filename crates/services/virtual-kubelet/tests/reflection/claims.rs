//! Claims of volumes between two real API servers: who binds is a stand-in, as there is nobody else.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use liqo_api::keys::label;
use liqo_api::sharing::ResourceOffer;
use liqo_testkit::until;
use serde_json::{Value, json};

use crate::pods::pod;
use crate::provider;
use crate::world::{MILAN, NODE, ROME, TENANT, World, change, label_of, make};

type Claim = PersistentVolumeClaim;

const UID: &str = "virtualkubelet.liqo.io/home-claim-uid";

#[tokio::test]
async fn a_claim_has_a_twin_there_and_a_volume_here_for_as_long_as_it_lasts() {
    let world = World::make().await;
    let (here, there) = (world.here::<Claim>(), world.there::<Claim>());
    make_class(&world).await;
    let _kubelet = world.kubelet(&[]);
    let claim = make(&here, claim("data", NODE)).await;
    // The other cluster says what it offers later than a pod is placed there.
    offer(
        &world,
        json!([{"storageClassName": "slow"}, {"storageClassName": "disk", "default": true}]),
    )
    .await;

    let twin = until("it has a twin", &there, "data", is_there).await.unwrap().unwrap();
    let spec = serde_json::to_value(twin.spec.as_ref().unwrap()).unwrap();
    let want = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "disk",
        "volumeMode": "Filesystem",
    });
    assert_eq!(spec, want);
    assert_eq!(label_of(&twin, "virtualkubelet.liqo.io/origin"), Some(ROME));
    assert_eq!(label_of(&twin, "app"), Some("web"));
    let annotations = twin.annotations();
    let noted: Vec<(&str, &str)> =
        annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(noted, [("note", "mine"), (UID, claim.uid().unwrap().as_str())]);

    let name = format!("pvc-{}", claim.uid().unwrap());
    let bound = |claim: Option<&Claim>| volume_of(claim) == Some(name.as_str());
    until("it is bound", &here, "data", bound).await.unwrap();
    let volumes = volumes(&world);
    let volume = serde_json::to_value(volumes.get(&name).await.unwrap()).unwrap();
    let node = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0";
    assert_eq!(
        volume.pointer(node),
        Some(&json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}))
    );
    let provisioner = &volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"];
    assert_eq!(provisioner, "liqo.io/storage");
    assert_eq!(volume["spec"]["claimRef"]["uid"], json!(claim.uid()));
    assert_eq!(volume["spec"]["capacity"], json!({"storage": "1Gi"}));
    world.hears("data", "persistentvolumeclaim", "Provisioning").await;
    world.hears("data", "persistentvolumeclaim", "SuccessfulReflection").await;

    release(&world, "data").await;
    let gone = |volume: Option<&PersistentVolume>| {
        volume.is_none_or(|volume| volume.metadata.deletion_timestamp.is_some())
    };
    until("its volume goes", &volumes, &name, gone).await.unwrap();
    until("its twin goes", &there, "data", is_leaving).await.unwrap();
}

#[tokio::test]
async fn a_claim_that_comes_while_nobody_looks_does_not_get_the_data_of_another() {
    let world = World::make().await;
    let (here, there) = (world.here::<Claim>(), world.there::<Claim>());
    make_class(&world).await;
    let flags = ["--enable-storage", "--remote-real-storage-class-name=disk"];
    let kubelet = world.kubelet(&flags);
    make(&here, claim("data", NODE)).await;
    until("it is bound", &here, "data", |claim| volume_of(claim).is_some()).await.unwrap();
    let first = there.get("data").await.unwrap();

    kubelet.kill().await;
    release(&world, "data").await;
    let next = make(&here, claim("data", NODE)).await;
    let _kubelet = world.kubelet(&flags);
    until("the old twin goes", &there, "data", is_leaving).await.unwrap();
    set_free(&there, "data").await;
    let is_next = |twin: Option<&Claim>| {
        twin.is_some_and(|twin| twin.annotations().get(UID) == next.uid().as_ref())
    };
    let twin = until("there is another", &there, "data", is_next).await.unwrap().unwrap();
    assert_ne!(twin.uid(), first.uid());
    let name = format!("pvc-{}", next.uid().unwrap());
    let bound = |claim: Option<&Claim>| volume_of(claim) == Some(name.as_str());
    until("it is bound", &here, "data", bound).await.unwrap();
}

#[tokio::test]
async fn what_was_interrupted_half_way_is_brought_to_its_end() {
    let world = World::make().await;
    let (here, there) = (world.here::<Claim>(), world.there::<Claim>());
    make_class(&world).await;
    let begun = make(&here, claim("data", NODE)).await;
    let twin = json!({
        "metadata": {
            "name": "data",
            "labels": {
                "virtualkubelet.liqo.io/origin": ROME,
                "virtualkubelet.liqo.io/destination": MILAN,
            },
            "annotations": { UID: begun.uid() },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "slow",
        },
    });
    let twin = make(&there, twin).await;
    let _kubelet = world.kubelet(&["--enable-storage", "--remote-real-storage-class-name=disk"]);
    until("it is bound", &here, "data", |claim| volume_of(claim).is_some()).await.unwrap();
    let after = there.get("data").await.unwrap();
    assert_eq!(after.uid(), twin.uid());
    assert_eq!(after.spec.unwrap().storage_class_name.as_deref(), Some("slow"));
}

#[tokio::test]
async fn only_claims_that_were_placed_here_are_touched() {
    let world = World::make().await;
    let (here, there) = (world.here::<Claim>(), world.there::<Claim>());
    make_class(&world).await;
    make(&there, claim("taken", "n1")).await;
    make(&here, claim("taken", NODE)).await;
    let elsewhere = make(&here, claim("elsewhere", "liqo-turin")).await;
    let mut other = claim("other", NODE);
    other["spec"]["storageClassName"] = json!("local-path");
    make(&here, other).await;
    let _kubelet = world.kubelet(&["--enable-storage", "--remote-real-storage-class-name=disk"]);
    make(&here, claim("last", NODE)).await;
    until("it is bound", &here, "last", |claim| volume_of(claim).is_some()).await.unwrap();
    world.hears("taken", "persistentvolumeclaim", "FailedReflection").await;
    for name in ["elsewhere", "other"] {
        assert!(there.get_opt(name).await.unwrap().is_none(), "{name}");
    }
    let after = here.get("elsewhere").await.unwrap();
    assert_eq!(after.resource_version(), elsewhere.resource_version());
    let taken = there.get("taken").await.unwrap();
    assert_eq!(label_of(&taken, "virtualkubelet.liqo.io/origin"), None);
    assert_eq!(volumes(&world).list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_claim_goes_elsewhere_when_the_other_cluster_offers_no_storage() {
    let world = World::make().await;
    let here = world.here::<Claim>();
    make_class(&world).await;
    let elsewhere = make(&here, claim("elsewhere", "liqo-turin")).await;
    make(&here, claim("data", NODE)).await;
    let _kubelet = world.kubelet(&[]);
    offer(&world, json!([])).await;
    let unplaced = |claim: Option<&Claim>| {
        claim.is_some_and(|claim| {
            !claim.annotations().contains_key("volume.kubernetes.io/selected-node")
        })
    };
    until("it is placed nowhere", &here, "data", unplaced).await.unwrap();
    world.hears("data", "persistentvolumeclaim", "ReschedulingRequired").await;
    let after = here.get("elsewhere").await.unwrap();
    assert_eq!(after.resource_version(), elsewhere.resource_version(), "it is not ours");
    assert!(world.there::<Claim>().list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn claims_that_nobody_works_on_wait() {
    let world = World::make().await;
    make_class(&world).await;
    let _kubelet = world.kubelet(&[
        "--persistentvolumeclaim-reflection-workers=0",
        "--enable-storage",
        "--remote-real-storage-class-name=disk",
    ]);
    make(&world.here::<Claim>(), claim("data", NODE)).await;
    make(&world.here::<Pod>(), pod("web")).await;
    provider::shadow(&world, "web").await;
    assert!(world.there::<Claim>().list(&ListParams::default()).await.unwrap().items.is_empty());
}

fn volumes(world: &World) -> Api<PersistentVolume> {
    Api::all(world.home.client())
}

async fn make_class(world: &World) {
    let classes: Api<StorageClass> = Api::all(world.home.client());
    let class = json!({
        "metadata": {"name": "liqo"},
        "provisioner": "liqo.io/storage",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    make(&classes, class).await;
}

async fn offer(world: &World, classes: Value) {
    let offers: Api<ResourceOffer> = Api::namespaced(world.home.client(), TENANT);
    let offer = json!({
        "metadata": {"name": "milan", "labels": { label::ORIGIN_ID: MILAN }},
        "spec": {"clusterId": MILAN, "storageClasses": classes},
    });
    make(&offers, offer).await;
}

/// A claim as the scheduler leaves it when it has found a node for its first pod.
fn claim(name: &str, node: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": {"app": "web"},
            "annotations": {
                "note": "mine",
                "volume.kubernetes.io/selected-node": node,
                "volume.kubernetes.io/storage-provisioner": "liqo.io/storage",
                "volume.beta.kubernetes.io/storage-provisioner": "liqo.io/storage",
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "liqo",
        },
    })
}

/// Deletes a claim here, and lets it go as Kubernetes does once no pod uses it.
async fn release(world: &World, name: &str) {
    let here = world.here::<Claim>();
    here.delete(name, &DeleteParams::default()).await.unwrap();
    set_free(&here, name).await;
    until("it is gone", &here, name, |claim| claim.is_none()).await.unwrap();
}

async fn set_free(claims: &Api<Claim>, name: &str) {
    if claims.get_opt(name).await.unwrap().is_some() {
        change(claims, name, json!({"metadata": {"finalizers": null}})).await;
    }
}

fn is_there(claim: Option<&Claim>) -> bool {
    claim.is_some()
}

fn is_leaving(claim: Option<&Claim>) -> bool {
    claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some())
}

fn volume_of(claim: Option<&Claim>) -> Option<&str> {
    claim?.spec.as_ref()?.volume_name.as_deref()
}

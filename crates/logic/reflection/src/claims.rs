//! Claims of volumes that follow their pods: each has a twin in the cluster where its first pod runs,
//! and a volume here that keeps all later pods there.
//!
//! ```text
//! claim, class `liqo` ──its pod is placed on the virtual node──> twin there, of a class of that cluster
//!        │                                                         │
//!        └──bound──> volume here, pinned to the virtual node       └──bound──> the volume with the data
//! ```
//!
//! Once a claim has its volume, its twin is left alone: one that somebody deletes over there does not
//! come back, because it would come back without its data.

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec,
    VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::keys::{annotation, object};

use crate::Place;

/// The name of the kind in metrics; in lower case also in Events.
pub const NAME: &str = "PersistentVolumeClaim";

/// What a volume here says of where its data is; nobody ever looks there.
const PLACEHOLDER: &str = "/tmp/liqo-placeholder";
/// How a class says that claims wait for their first pod.
const BOUND_LATE: &str = "WaitForFirstConsumer";
/// How a volume says that it goes with its claim.
const DELETED_WITH_CLAIM: &str = "Delete";
/// Volumes that hold files, which is what they do unless they say otherwise.
const FILES: &str = "Filesystem";
/// The label of a node that volumes are pinned by.
const HOST_NAME: &str = "kubernetes.io/hostname";

/// Annotations that say how a claim fares here, and would mean something else there.
const STAY_HERE: [&str; 6] = [
    annotation::BIND_COMPLETED,
    annotation::BOUND_BY_CONTROLLER,
    annotation::STORAGE_PROVISIONER,
    annotation::STORAGE_PROVISIONER_BETA,
    annotation::SELECTED_NODE,
    annotation::STORAGE_CLASS_BETA,
];

/// Whether claims can have volumes in the other cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// It offers none.
    Refused,
    /// It offers some, of this class; of the class that is its default where none is named.
    Offered(Option<String>),
}

impl Storage {
    /// What the command line and the offer of the other cluster come to: the command line may insist
    /// on storage and on a class, and what it leaves open is for the offer to say.
    pub fn of(is_insisted_on: bool, class: Option<&str>, offered: Option<&str>) -> Self {
        let named = |class: &&str| !class.is_empty();
        let (class, offered) = (class.filter(named), offered.filter(named));
        if is_insisted_on || offered.is_some() {
            Self::Offered(class.or(offered).map(str::to_owned))
        } else {
            Self::Refused
        }
    }
}

/// What to do about a claim and its twin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Nothing,
    /// The claim has to get a twin and a volume.
    Provide,
    /// The twin has to go, and first the volume here of the claim that is gone, if one is.
    Remove {
        /// The UID of the claim that is gone.
        gone: Option<String>,
    },
    /// Somebody else has a claim where the twin should be; it stays.
    Taken,
}

/// Decides about a claim here, and what is there under its name.
pub fn decide(
    claim: Option<&PersistentVolumeClaim>,
    there: Option<&ObjectMeta>,
    place: &Place,
    class: &str,
) -> Decision {
    let is_leaving = there.is_some_and(|there| there.deletion_timestamp.is_some());
    let twin = there.filter(|there| place.is_ours(there));
    let of = twin.and_then(|twin| annotated(twin, annotation::HOME_CLAIM_UID));
    let Some(claim) = claim else {
        return match twin {
            Some(_) if !is_leaving => Decision::Remove { gone: of.map(str::to_owned) },
            _ => Decision::Nothing,
        };
    };
    let is_of_this = of == claim.metadata.uid.as_deref();
    if is_leaving {
        // Its end is seen, and then there is a new one.
        return Decision::Nothing;
    }
    match (of, twin) {
        // Claims that share a name do not share data.
        (Some(of), _) if !is_of_this => Decision::Remove { gone: Some(of.to_owned()) },
        _ if awaits(claim, place, class) => match (there, twin) {
            (Some(_), None) => Decision::Taken,
            _ => Decision::Provide,
        },
        // It was placed elsewhere before it had a volume.
        (Some(_), _) if !is_bound(claim) && !is_placed(claim, place) => {
            Decision::Remove { gone: None }
        }
        _ => Decision::Nothing,
    }
}

/// Whether a claim waits for a volume in the other cluster.
pub fn awaits(claim: &PersistentVolumeClaim, place: &Place, class: &str) -> bool {
    let metadata = &claim.metadata;
    let provisioner = [annotation::STORAGE_PROVISIONER, annotation::STORAGE_PROVISIONER_BETA]
        .iter()
        .any(|key| annotated(metadata, key) == Some(object::STORAGE_PROVISIONER));
    metadata.deletion_timestamp.is_none()
        && !is_bound(claim)
        && is_placed(claim, place)
        && provisioner
        && class_of(claim) == Some(class)
}

/// Whether claims of a class wait for their first pod; others are not brought to where it runs.
pub fn is_bound_late(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some(BOUND_LATE)
}

/// The twin of a claim, of a class of the other cluster.
pub fn twin(
    claim: &PersistentVolumeClaim,
    place: &Place,
    class: Option<&str>,
) -> PersistentVolumeClaim {
    let name = claim.metadata.name.clone().unwrap_or_default();
    let mut metadata = place.metadata(&claim.metadata, name);
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.retain(|key, _| !STAY_HERE.contains(&key.as_str()));
    let uid = claim.metadata.uid.clone().unwrap_or_default();
    annotations.insert(annotation::HOME_CLAIM_UID.to_owned(), uid);
    let spec = claim.spec.as_ref();
    let spec = PersistentVolumeClaimSpec {
        access_modes: spec.and_then(|spec| spec.access_modes.clone()),
        resources: spec.and_then(|spec| spec.resources.clone()),
        storage_class_name: class.map(str::to_owned),
        volume_mode: Some(mode(claim)),
        ..PersistentVolumeClaimSpec::default()
    };
    PersistentVolumeClaim { metadata, spec: Some(spec), status: None }
}

/// The volume here of a claim, which keeps its pods in the other cluster.
pub fn volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    place: &Place,
) -> PersistentVolume {
    let PersistentVolumeClaim { metadata, spec, .. } = claim;
    let uid = metadata.uid.clone().unwrap_or_default();
    let by = (annotation::PROVISIONED_BY.to_owned(), object::STORAGE_PROVISIONER.to_owned());
    let requests = spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.clone());
    let policy = class.reclaim_policy.clone().unwrap_or_else(|| DELETED_WITH_CLAIM.to_owned());
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(object::volume(&uid)),
            annotations: Some([by].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.as_ref().and_then(|spec| spec.access_modes.clone()),
            capacity: requests,
            claim_ref: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some(NAME.to_owned()),
                name: metadata.name.clone(),
                namespace: metadata.namespace.clone(),
                uid: Some(uid),
                ..ObjectReference::default()
            }),
            host_path: Some(HostPathVolumeSource { path: PLACEHOLDER.to_owned(), type_: None }),
            node_affinity: Some(VolumeNodeAffinity { required: Some(on_node(&place.node)) }),
            persistent_volume_reclaim_policy: Some(policy),
            storage_class_name: class_of(claim).map(str::to_owned),
            volume_mode: Some(mode(claim)),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

/// Whether a volume here has to go with a claim that is gone.
pub fn goes_with(volume: &PersistentVolume, claim_uid: &str, place: &Place) -> bool {
    let metadata = &volume.metadata;
    let Some(spec) = &volume.spec else { return false };
    let node = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    metadata.deletion_timestamp.is_none()
        && annotated(metadata, annotation::PROVISIONED_BY) == Some(object::STORAGE_PROVISIONER)
        && spec.claim_ref.as_ref().and_then(|claim| claim.uid.as_deref()) == Some(claim_uid)
        && spec.persistent_volume_reclaim_policy.as_deref() == Some(DELETED_WITH_CLAIM)
        && node == Some(&on_node(&place.node))
}

fn on_node(name: &str) -> NodeSelector {
    let is_this = NodeSelectorRequirement {
        key: HOST_NAME.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![name.to_owned()]),
    };
    let term =
        NodeSelectorTerm { match_expressions: Some(vec![is_this]), ..NodeSelectorTerm::default() };
    NodeSelector { node_selector_terms: vec![term] }
}

fn mode(claim: &PersistentVolumeClaim) -> String {
    let mode = claim.spec.as_ref().and_then(|spec| spec.volume_mode.clone());
    mode.unwrap_or_else(|| FILES.to_owned())
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    volume.is_some_and(|volume| !volume.is_empty())
}

fn is_placed(claim: &PersistentVolumeClaim, place: &Place) -> bool {
    annotated(&claim.metadata, annotation::SELECTED_NODE) == Some(&place.node)
}

fn class_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let old_way = annotated(&claim.metadata, annotation::STORAGE_CLASS_BETA);
    old_way.or_else(|| claim.spec.as_ref()?.storage_class_name.as_deref())
}

fn annotated<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests;

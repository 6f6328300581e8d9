//! Events: their reasons, and who reports them.

use std::net::IpAddr;

/// A virtual kubelet has been started for an offer.
pub const VK_CREATED: &str = "VkCreated";
/// The virtual kubelet of an offer is gone.
pub const VK_DELETED: &str = "VkDeleted";
/// The API server of a remote cluster answers again.
pub const API_SERVER_READY: &str = "APIServerReady";
/// The API server of a remote cluster does not answer.
pub const API_SERVER_NOT_READY: &str = "APIServerNotReady";
/// A remote cluster did not take part in the end of a peering, and may keep something of it.
pub const PEER_NOT_CLEANED: &str = "PeerNotCleaned";
/// A selector of clusters makes no sense.
pub const INVALID: &str = "Invalid";
/// A namespace that a consumer asked for cannot be had.
pub const CREATION_LOOP_BACK_OFF: &str = "CreationLoopBackOff";
/// A tunnel, its rules or its routes have changed, or could not.
pub const PROCESSING: &str = "Processing";
/// An object, or the status of its copy, has been reflected.
pub const SUCCESSFUL_REFLECTION: &str = "SuccessfulReflection";
/// An object could not be reflected.
pub const FAILED_REFLECTION: &str = "FailedReflection";
/// The copy of an object could not be deleted.
pub const FAILED_DELETION: &str = "FailedDeletion";
/// An object is not reflected, because it says so or its namespace does not extend.
pub const REFLECTION_DISABLED: &str = "ReflectionDisabled";
/// The tokens of a pod have been reflected.
pub const SUCCESSFUL_TOKENS_REFLECTION: &str = "SuccessfulSATokensReflection";
/// The tokens of a pod could not be reflected.
pub const FAILED_TOKENS_REFLECTION: &str = "FailedSATokensReflection";
/// A volume is being provided.
pub const PROVISIONING: &str = "Provisioning";
/// A volume has been provided.
pub const PROVISIONING_SUCCEEDED: &str = "ProvisioningSucceeded";
/// A volume could not be provided.
pub const PROVISIONING_FAILED: &str = "ProvisioningFailed";
/// A claim has to be scheduled again, because its cluster offers no storage.
pub const RESCHEDULING_REQUIRED: &str = "ReschedulingRequired";

/// A peer was given an identity for another key than before.
pub const IDENTITY_REPLACED: &str = "IdentityReplaced";

/// Who reports on peerings.
pub const FROM_FOREIGN_CLUSTER: &str = "ForeignCluster";
/// Who reports on offers.
pub const FROM_RESOURCE_OFFER: &str = "ResourceOffer";
/// Who reports on namespaces that extend to other clusters.
pub const FROM_NAMESPACE_OFFLOADING: &str = "namespaceoffloading-controller";

/// Who reports on namespaces of other clusters.
pub const FROM_NAMESPACE_MAP: &str = "namespacemap-controller";

/// Who reports on tunnels: the gateway of this address.
pub fn from_gateway(pod: IpAddr) -> String {
    format!("liqo-gateway.{pod}")
}

/// Who reports on routes: the node of this address.
pub fn from_route(pod: IpAddr) -> String {
    format!("liqo-route.{pod}")
}

/// Who reports on reflection, by the kind of object in lower case.
pub fn from_reflection(kind: &str) -> String {
    format!("liqo-{kind}-reflection")
}

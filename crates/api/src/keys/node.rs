//! What a virtual node and its pods say of themselves, in conditions of Kubernetes.

/// Condition: pods may be placed on the node.
pub const READY: &str = "Ready";
/// Condition: the remote cluster is short of memory.
pub const MEMORY_PRESSURE: &str = "MemoryPressure";
/// Condition: the remote cluster is short of disk space.
pub const DISK_PRESSURE: &str = "DiskPressure";
/// Condition: the remote cluster is short of process identifiers.
pub const PID_PRESSURE: &str = "PIDPressure";
/// Condition: pods of the remote cluster cannot be reached.
pub const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";

/// Reason: resources are offered and the network is up.
pub const KUBELET_READY: &str = "KubeletReady";
/// Reason: no resources are offered, or the network is down.
pub const KUBELET_NOT_READY: &str = "KubeletNotReady";
/// Reason: the remote cluster offers no memory.
pub const HAS_MEMORY_PRESSURE: &str = "RemoteClusterHasMemoryPressure";
/// Reason: the remote cluster offers memory.
pub const HAS_SUFFICIENT_MEMORY: &str = "RemoteClusterHasSufficientMemory";
/// Reason: the remote cluster offers no disk space.
pub const HAS_DISK_PRESSURE: &str = "RemoteClusterHasDiskPressure";
/// Reason: the remote cluster offers disk space.
pub const HAS_NO_DISK_PRESSURE: &str = "RemoteClusterHasNoDiskPressure";
/// Reason: the remote cluster offers no process identifiers.
pub const HAS_PID_PRESSURE: &str = "RemoteClusterHasPIDPressure";
/// Reason: the remote cluster offers process identifiers.
pub const HAS_NO_PID_PRESSURE: &str = "RemoteClusterHasNoPIDPressure";
/// Reason: the tunnel does not work.
pub const NETWORKING_DOWN: &str = "LiqoNetworkingDown";
/// Reason: the tunnel works.
pub const NETWORKING_UP: &str = "LiqoNetworkingUp";

/// Reason of a pod whose namespace does not extend to the cluster behind its node.
pub const OFFLOADING_BACK_OFF: &str = "OffloadingBackOff";
/// Reason of a pod that ran until its namespace ceased to extend there.
pub const OFFLOADING_ABORTED: &str = "OffloadingAborted";

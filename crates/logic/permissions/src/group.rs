//! Groups of the APIs of Kubernetes; ours are in [`liqo_api::keys::object`].

pub(crate) const CORE: &str = "";
pub(crate) const ADMISSION: &str = "admissionregistration.k8s.io";
pub(crate) const APPS: &str = "apps";
pub(crate) const AUTHENTICATION: &str = "authentication.k8s.io";
pub(crate) const AUTHORIZATION: &str = "authorization.k8s.io";
pub(crate) const CERTIFICATES: &str = "certificates.k8s.io";
pub(crate) const COORDINATION: &str = "coordination.k8s.io";
pub(crate) const ENDPOINTS: &str = "discovery.k8s.io";
pub(crate) const EVENTS: &str = "events.k8s.io";
pub(crate) const NETWORKING: &str = "networking.k8s.io";
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";
pub(crate) const STORAGE: &str = "storage.k8s.io";
pub(crate) const USAGE: &str = "metrics.k8s.io";

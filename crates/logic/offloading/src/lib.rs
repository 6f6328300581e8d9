//! Which namespaces and pods go where: values in, decisions out.
//!
//! Of the cluster whose namespaces extend to others:
//!
//! - [`selector`]: which clusters are selected; [`syntax`]: selectors as people type them;
//! - [`names`]: what a namespace is called elsewhere;
//! - [`stretch`]: a NamespaceOffloading, and what every NamespaceMap has to ask for;
//! - [`report`]: what a NamespaceOffloading says of itself; [`progress`]: what that means to
//!   somebody who waits;
//! - [`eviction`]: pods that are where they may not be any more.
//!
//! Of the cluster that hosts them:
//!
//! - [`hosting`]: a NamespaceMap, and the namespaces made for it;
//! - [`shadow_pod`]: a ShadowPod, and the Pod that is kept alive for it;
//! - [`shadow_slice`]: a ShadowEndpointSlice, and the EndpointSlice that is made of it;
//! - [`slim`]: pods and ShadowPods with no more than what is read of them.

pub mod eviction;
pub mod hosting;
pub mod names;
pub mod progress;
pub mod report;
pub mod selector;
pub mod shadow_pod;
pub mod shadow_slice;
pub mod slim;
pub mod stretch;
pub mod syntax;

//! Real Kubernetes clusters in network namespaces of this machine.

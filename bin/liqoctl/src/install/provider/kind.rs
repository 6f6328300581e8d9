//! Kubernetes in Docker, which is made with kubeadm.

const EXAMPLES: &str = "\
Examples:
  liqoctl install kind --cluster-name rome";

/// Installs Liqo in a cluster of Kubernetes in Docker
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Kind {}

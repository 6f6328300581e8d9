//! Of commands that take two clusters.

use super::help;

#[test]
fn of_peer_in_band() {
    insta::assert_snapshot!(help(&["peer", "in-band"]), @"
    Peers with a cluster through the tunnel between the two

    Usage: liqoctl peer in-band [OPTIONS]

    Options:
          --bidirectional            Let the remote cluster use resources of this one, too
          --timeout <TIME>           How long it may take [default: 120s]
          --remote-namespace <NAME>  Namespace of Liqo in the remote cluster [default: liqo]
      -n, --namespace <NAME>         Namespace of Liqo [default: liqo]
      -v, --verbose                  Tell more
      -h, --help                     Print help (see more with '--help')

    Options of the remote cluster:
          --remote-kubeconfig <FILE>  Path of the kubeconfig of the remote cluster
          --remote-context <NAME>     Context of the kubeconfig to use for the remote cluster
          --remote-cluster <NAME>     Cluster of the kubeconfig to use for the remote cluster
          --remote-user <NAME>        User of the kubeconfig to use for the remote cluster

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # Use the resources of another cluster; only the gateways have to reach each other
      liqoctl peer in-band --context consumer --remote-context provider
      # With a kubeconfig for each
      liqoctl peer in-band --kubeconfig rome.yaml --remote-kubeconfig milan.yaml
      # Each uses the resources of the other
      liqoctl peer in-band --context rome --remote-context milan --bidirectional
    ");
}

#[test]
fn of_unpeer_in_band() {
    insta::assert_snapshot!(help(&["unpeer", "in-band"]), @"
    Parts two clusters that talk through the tunnel, and takes it down

    Usage: liqoctl unpeer in-band [OPTIONS]

    Options:
          --timeout <TIME>           How long it may take [default: 120s]
          --remote-namespace <NAME>  Namespace of Liqo in the remote cluster [default: liqo]
      -n, --namespace <NAME>         Namespace of Liqo [default: liqo]
      -v, --verbose                  Tell more
      -h, --help                     Print help (see more with '--help')

    Options of the remote cluster:
          --remote-kubeconfig <FILE>  Path of the kubeconfig of the remote cluster
          --remote-context <NAME>     Context of the kubeconfig to use for the remote cluster
          --remote-cluster <NAME>     Cluster of the kubeconfig to use for the remote cluster
          --remote-user <NAME>        User of the kubeconfig to use for the remote cluster

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # Part two clusters, in both directions, and take the tunnel down
      liqoctl unpeer in-band --context consumer --remote-context provider
      # Give resources back in one direction only, and keep the tunnel
      liqoctl unpeer provider --context consumer
    ");
}

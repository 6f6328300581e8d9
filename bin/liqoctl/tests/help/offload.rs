//! What the commands about namespaces say of themselves.

use super::help;

#[test]
fn of_offload_namespace() {
    insta::assert_snapshot!(help(&["offload", "namespace"]), @r"
    Extends a namespace to other clusters, or changes how it extends

    Usage: liqoctl offload namespace [OPTIONS] <NAMESPACE>

    Arguments:
      <NAMESPACE>  Name of the namespace

    Options:
          --pod-offloading-strategy <STRATEGY>
              Where pods may run [default: LocalAndRemote] [possible values: LocalAndRemote, Remote, Local]
          --namespace-mapping-strategy <STRATEGY>
              What the namespace is called elsewhere; it cannot change [default: DefaultName] [possible values: DefaultName, EnforceSameName]
      -l, --selector <SELECTOR>
              Labels that clusters have to have, as kubectl selects; given more than once, any may match
          --evict-violating-pods
              Evict pods that are where they may not be any more
          --skip-scheduler
              Bind pods that only one cluster may take as they are created, with strategy Remote
          --timeout <TIME>
              How long it may take [default: 20s]
      -o, --output <FORMAT>
              Print the object instead [possible values: json, yaml]
      -v, --verbose
              Tell more
      -h, --help
              Print help (see more with '--help')

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # Extend a namespace to all clusters that this one peers with
      liqoctl offload namespace shop
      # Run its pods only in clusters of one region, which have the namespace under the same name
      liqoctl offload namespace shop --pod-offloading-strategy Remote \
        --namespace-mapping-strategy EnforceSameName --selector 'topology.liqo.io/region=south'
      # Either of two regions, without clusters that are for tests
      liqoctl offload ns shop -l 'region in (europe,us-west), !staging' -l 'region=asia, !staging'
      # Print the object, to be applied later
      liqoctl offload namespace shop --output yaml
    ");
}

#[test]
fn of_unoffload_namespace() {
    insta::assert_snapshot!(help(&["unoffload", "namespace"]), @"
    Takes a namespace back from other clusters

    Usage: liqoctl unoffload namespace [OPTIONS] <NAMESPACE>

    Arguments:
      <NAMESPACE>  Name of the namespace

    Options:
          --timeout <TIME>  How long it may take [default: 120s]
      -v, --verbose         Tell more
      -h, --help            Print help (see more with '--help')

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # Take a namespace back from all other clusters
      liqoctl unoffload namespace shop
    ");
}

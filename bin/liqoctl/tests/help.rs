//! What the commands say of themselves.

#[path = "help/in_band.rs"]
mod in_band;
#[path = "help/offload.rs"]
mod offload;

use std::process::Command;

#[test]
fn of_all() {
    insta::assert_snapshot!(help(&[]), @"
    Installs Liqo, looks after it, and removes it

    Usage: liqoctl [OPTIONS] <COMMAND>

    Commands:
      install     Installs Liqo, or changes how it is installed [alias: upgrade]
      generate    Prints commands for other clusters
      peer        Peers with another cluster, to use its resources
      unpeer      Unpeers from another cluster, giving its resources back
      offload     Extends namespaces to other clusters
      unoffload   Takes namespaces back from other clusters
      status      Tells how Liqo does in this cluster
      uninstall   Removes Liqo from the cluster
      version     Prints the versions of this program and of Liqo in the cluster
      completion  Prints what a shell needs to complete command lines

    Options:
      -v, --verbose  Tell more
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # Install Liqo in the cluster of the current context, made with kind
      liqoctl install kind --cluster-name rome
      # See how it does
      liqoctl status
      # Remove it
      liqoctl uninstall
    ");
}

#[test]
fn of_install() {
    insta::assert_snapshot!(help(&["install"]), @r"
    Installs Liqo, or changes how it is installed

    Usage: liqoctl install [OPTIONS] [COMMAND]

    Commands:
      k3s      Installs Liqo in a cluster of K3s
      kind     Installs Liqo in a cluster of Kubernetes in Docker
      kubeadm  Installs Liqo in a cluster made with kubeadm

    Options:
      -n, --namespace <NAME>
              Namespace of Liqo [default: liqo]
          --cluster-name <NAME>
              Name of the cluster [default: the one it has, or a made-up one]
          --cluster-labels <LABELS>
              Labels of the cluster, which its peers see: key=value,…
          --sharing-percentage <PERCENT>
              Share of the free resources that peers are offered, in percent [default: 90]
          --enable-ha
              Run two controller managers and two gateways
          --reserved-subnets <CIDRS>
              Networks that are in use outside of the cluster: CIDR,…
          --service-type <TYPE>
              How peers reach the cluster [default: the kind of cluster decides] [possible values: LoadBalancer, NodePort, ClusterIP]
          --enable-metrics
              Expose metrics, and have them read by the Prometheus operator
          --disable-telemetry
              Send no anonymous figures
          --set <SETTINGS>
              Values for the chart, as Helm takes them: key=value,…; they win over everything else
      -f, --values <FILE>
              Files with values for the chart
          --version <VERSION>
              Version of Liqo, or tag of its images [default: the version of this program]
          --repo-url <URL>
              Git repository whose chart is installed instead of the built-in one, at the given version
          --local-chart-path <FOLDER>
              Folder of a chart to install instead of the built-in one
          --only-output-values
              Write the values into a file, and install nothing
          --dump-values-path <FILE>
              The file that values are written into [default: ./values.yaml]
          --dry-run
              Show what would be installed, and install nothing
          --timeout <TIME>
              How long it may take; everything is as before afterwards [default: 10m]
          --disable-api-server-sanity-check
              Accept an API server URL that is not the kubeconfig's
          --skip-validation
              Check neither names nor networks
      -v, --verbose
              Tell more
      -h, --help
              Print help (see more with '--help')

    Options without a kind of cluster:
          --api-server-url <URL>  Where other clusters reach the API server [default: as the kubeconfig says]
          --pod-cidr <CIDR>       Network of the pods
          --service-cidr <CIDR>   Network of the services

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # In a cluster made with kubeadm
      liqoctl install kubeadm --cluster-name rome
      # In any other cluster
      liqoctl install --api-server-url https://203.0.113.5:6443 \
          --pod-cidr 10.200.0.0/16 --service-cidr 10.80.0.0/16
      # Change how it is installed
      liqoctl install kubeadm --cluster-name rome --enable-ha
      # See what would be installed
      liqoctl install kind --dry-run
      # Write the values for Helm into a file
      liqoctl install kind --only-output-values --dump-values-path ./values.yaml
    ");
}

#[test]
fn of_install_k3s() {
    insta::assert_snapshot!(own(&["install", "k3s"]), @"
    Installs Liqo in a cluster of K3s

    Usage: liqoctl install k3s [OPTIONS]

    Options:
          --api-server-url <URL>
              Where other clusters reach the API server [default: as the kubeconfig says]
          --pod-cidr <CIDR>
              Network of the pods [default: 10.42.0.0/16]
          --service-cidr <CIDR>
              Network of the services [default: 10.43.0.0/16]
              Print help

    Kubernetes options:

    Examples:
      liqoctl install k3s --cluster-name rome
      # With an API server that others reach at another address than this machine does
      liqoctl install k3s --api-server-url https://203.0.113.5:6443
    ");
}

#[test]
fn of_install_kind() {
    insta::assert_snapshot!(own(&["install", "kind"]), @"
    Installs Liqo in a cluster of Kubernetes in Docker

    Usage: liqoctl install kind [OPTIONS]

    Options:
              Print help

    Kubernetes options:

    Examples:
      liqoctl install kind --cluster-name rome
    ");
}

#[test]
fn of_install_kubeadm() {
    insta::assert_snapshot!(own(&["install", "kubeadm"]), @"
    Installs Liqo in a cluster made with kubeadm

    Usage: liqoctl install kubeadm [OPTIONS]

    Options:
              Print help

    Kubernetes options:

    Examples:
      liqoctl install kubeadm --cluster-name rome
      # Where services cannot have addresses of their own
      liqoctl install kubeadm --cluster-name rome --service-type NodePort
    ");
}

#[test]
fn of_status() {
    insta::assert_snapshot!(help(&["status"]), @"
    Tells how Liqo does in this cluster

    Usage: liqoctl status [OPTIONS] [COMMAND]

    Commands:
      peer  Tells how peerings do [alias: peers]

    Options:
      -n, --namespace <NAME>  Namespace of Liqo [default: liqo]
      -o, --output <FORMAT>   Print it for programs [possible values: json, yaml]
      -v, --verbose           Tell more
      -h, --help              Print help (see more with '--help')

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # How Liqo does
      liqoctl status
      # With the images of all components
      liqoctl status --verbose
      # For programs
      liqoctl status --output json
      # How the peering with another cluster does
      liqoctl status peer milan
    ");
}

#[test]
fn of_uninstall() {
    insta::assert_snapshot!(help(&["uninstall"]), @"
    Removes Liqo from the cluster

    Usage: liqoctl uninstall [OPTIONS]

    Options:
      -n, --namespace <NAME>  Namespace of Liqo [default: liqo]
          --purge             Also remove the definitions of custom resources and all namespaces of Liqo
          --timeout <TIME>    How long it may take [default: 10m]
      -v, --verbose           Tell more
      -h, --help              Print help (see more with '--help')

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # Remove Liqo, but keep its definitions of custom resources and the namespaces
      liqoctl uninstall
      # Remove everything
      liqoctl uninstall --purge
    ");
}

#[test]
fn of_version() {
    insta::assert_snapshot!(help(&["version"]), @"
    Prints the versions of this program and of Liqo in the cluster

    Usage: liqoctl version [OPTIONS]

    Options:
      -n, --namespace <NAME>  Namespace of Liqo [default: liqo]
          --client            Do not ask the cluster
      -v, --verbose           Tell more
      -h, --help              Print help

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # Of this program and of Liqo in the cluster
      liqoctl version
      # Of this program alone, without a cluster
      liqoctl version --client
    ");
}

#[test]
fn of_completion() {
    insta::assert_snapshot!(help(&["completion"]), @r#"
    Prints what a shell needs to complete command lines

    Usage: liqoctl completion [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  The shell [possible values: bash, elvish, fish, powershell, zsh]

    Options:
      -v, --verbose  Tell more
      -h, --help     Print help

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # In this shell
      source <(liqoctl completion bash)
      # In every shell
      liqoctl completion zsh > "${fpath[1]}/_liqoctl"
      liqoctl completion fish > ~/.config/fish/completions/liqoctl.fish
      liqoctl completion powershell | Out-String | Invoke-Expression
    "#);
}

#[test]
fn a_word_that_is_none_ends_with_a_hint() {
    let (text, code) = run(&["instal", "kind"]);

    assert_eq!(code, Some(1));
    insta::assert_snapshot!(text, @"
    error: unrecognized subcommand 'instal'

      tip: some similar subcommands exist: 'uninstall', 'install'

    Usage: liqoctl [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn the_version_needs_no_cluster() {
    assert_eq!(run(&["version", "--client"]), ("Client version: v0.8.3\n".to_owned(), Some(0)));
    assert_eq!(run(&["--version"]), ("liqoctl v0.8.3\n".to_owned(), Some(0)));
}

/// The short help of a command.
#[test]
fn of_generate_peer_command() {
    insta::assert_snapshot!(help(&["generate", "peer-command"]), @"
    Prints the command that peers another cluster with this one

    Usage: liqoctl generate peer-command [OPTIONS]

    Options:
      -n, --namespace <NAME>  Namespace of Liqo [default: liqo]
          --only-command      Print the command and nothing else
      -v, --verbose           Tell more
      -h, --help              Print help (see more with '--help')

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # What another cluster has to run to use this one
      liqoctl generate peer-command
      # For scripts
      $(KUBECONFIG=provider liqoctl generate peer-command --only-command) --kubeconfig consumer
    ");
}

#[test]
fn of_peer() {
    insta::assert_snapshot!(help(&["peer"]), @"
    Peers with another cluster, to use its resources

    Usage: liqoctl peer [OPTIONS] <NAME>
           liqoctl peer <COMMAND>

    Commands:
      out-of-band  Peers with a cluster over the network that both are in [alias: oob]
      in-band      Peers with a cluster through the tunnel between the two [alias: ib]

    Arguments:
      <NAME>  Name of the ForeignCluster

    Options:
          --timeout <TIME>    How long it may take [default: 120s]
      -n, --namespace <NAME>  Namespace of Liqo [default: liqo]
      -v, --verbose           Tell more
      -h, --help              Print help (see more with '--help')

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # Use the resources of a cluster that is known already, for instance because it uses ours
      liqoctl peer milan
      # Use the resources of another cluster: run what this prints there
      liqoctl generate peer-command
      # The same through a tunnel, with access to both clusters
      liqoctl peer in-band --context rome --remote-context milan
    ");
}

#[test]
fn of_peer_out_of_band() {
    insta::assert_snapshot!(help(&["peer", "out-of-band"]), @"
    Peers with a cluster over the network that both are in

    Usage: liqoctl peer out-of-band [OPTIONS] --auth-url <URL> --cluster-id <UUID> --auth-token <TOKEN> <NAME>

    Arguments:
      <NAME>  Name of the other cluster

    Options:
          --auth-url <URL>      URL of its authentication service
          --cluster-id <UUID>   Identifier of it
          --auth-token <TOKEN>  Token of it
          --dry-run             Say what would happen, and whether the other cluster answers from here
      -n, --namespace <NAME>    Namespace of Liqo [default: liqo]
          --timeout <TIME>      How long it may take [default: 120s]
      -v, --verbose             Tell more
      -h, --help                Print help

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # As `liqoctl generate peer-command` prints it in the cluster that is to be used
      liqoctl peer out-of-band milan --auth-url https://198.18.2.11:30443 --cluster-id UUID --auth-token TOKEN
      # See what would happen, and whether the cluster answers
      liqoctl peer out-of-band milan --auth-url … --cluster-id … --auth-token … --dry-run
    ");
}

#[test]
fn of_unpeer() {
    insta::assert_snapshot!(help(&["unpeer"]), @"
    Unpeers from another cluster, giving its resources back

    Usage: liqoctl unpeer [OPTIONS] <NAME>
           liqoctl unpeer <COMMAND>

    Commands:
      out-of-band  Gives the resources of a cluster back, and forgets the cluster [alias: oob]
      in-band      Parts two clusters that talk through the tunnel, and takes it down [alias: ib]

    Arguments:
      <NAME>  Name of the ForeignCluster

    Options:
          --timeout <TIME>    How long it may take [default: 120s]
      -n, --namespace <NAME>  Namespace of Liqo [default: liqo]
      -v, --verbose           Tell more
      -h, --help              Print help (see more with '--help')

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # Give the resources of a cluster back, and forget the cluster
      liqoctl unpeer out-of-band milan
      # Give them back, but know the cluster for the next time
      liqoctl unpeer milan
      # Part two clusters that talk through a tunnel
      liqoctl unpeer in-band --context rome --remote-context milan
    ");
}

#[test]
fn of_unpeer_out_of_band() {
    insta::assert_snapshot!(help(&["unpeer", "out-of-band"]), @"
    Gives the resources of a cluster back, and forgets the cluster

    Usage: liqoctl unpeer out-of-band [OPTIONS] <NAME>

    Arguments:
      <NAME>  Name of the ForeignCluster

    Options:
          --timeout <TIME>    How long it may take [default: 120s]
      -n, --namespace <NAME>  Namespace of Liqo [default: liqo]
      -v, --verbose           Tell more
      -h, --help              Print help

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use
    ");
}

#[test]
fn of_status_peer() {
    insta::assert_snapshot!(help(&["status", "peer"]), @"
    Tells how peerings do

    Usage: liqoctl status peer [OPTIONS] [NAME]...

    Arguments:
      [NAME]...  Names of ForeignClusters; all, without one

    Options:
      -n, --namespace <NAME>  Namespace of Liqo [default: liqo]
      -o, --output <FORMAT>   Print it for programs [possible values: json, yaml]
      -v, --verbose           Tell more
      -h, --help              Print help

    Kubernetes options:
          --kubeconfig <FILE>  Path of the kubeconfig
          --context <NAME>     Context of the kubeconfig to use
          --cluster <NAME>     Cluster of the kubeconfig to use
          --user <NAME>        User of the kubeconfig to use

    Examples:
      # How all peerings do
      liqoctl status peer
      # How that with one cluster does, with addresses
      liqoctl status peer milan --verbose
    ");
}

fn help(command: &[&str]) -> String {
    let (text, code) = run(&[command, &["-h"]].concat());
    assert_eq!(code, Some(0));
    text
}

/// The same without the flags that all kinds of clusters share.
fn own(command: &[&str]) -> String {
    let shared = help(&["install"]);
    let is_flag = |line: &&str| line.starts_with("  -") || line.starts_with("      ");
    let shared: Vec<&str> = shared.lines().filter(is_flag).collect();
    let text = help(command);
    let own = text.lines().filter(|line| !(is_flag(line) && shared.contains(line)));
    own.collect::<Vec<_>>().join("\n")
}

fn run(words: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_liqoctl"))
        .args(words)
        .env_clear()
        .output()
        .expect("it was built");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).expect("it is text"), output.status.code())
}

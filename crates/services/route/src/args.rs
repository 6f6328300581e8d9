//! Flags of the routes of a node.

use std::net::Ipv4Addr;

use clap::Args as ClapArgs;
use liqo_api::keys::{link, object, port};
use liqo_kit::args::{ClientArgs, Listen, LogArgs};

/// Leads packets of a node to the gateway and back
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// Where metrics are shown
    #[arg(long, default_value = ":0", value_name = "[HOST]:PORT")]
    pub metrics_bind_addr: Listen,

    /// Network identifier of the overlay between nodes
    #[arg(long = "route.vxlan-vni", default_value_t = link::OVERLAY_VNI, value_name = "NUMBER")]
    pub vni: u32,

    /// Largest packet of the overlay; smaller where the network of the node asks for it
    #[arg(
        long = "route.vxlan-mtu",
        env = "LIQO_MTU",
        default_value_t = 1440,
        value_name = "BYTES"
    )]
    pub mtu: u16,

    /// Port of the overlay
    #[arg(long = "route.vxlan-vtep-port", default_value_t = port::VXLAN, value_name = "PORT")]
    pub port: u16,

    /// Prints what would change in the kernel, and ends
    #[arg(long)]
    pub dry_run: bool,

    /// Name of this pod
    #[arg(long, env = "POD_NAME", hide = true, default_value = object::ROUTE)]
    pub pod_name: String,

    /// Namespace of this pod
    #[arg(long, env = "POD_NAMESPACE", hide = true, default_value = object::NAMESPACE)]
    pub pod_namespace: String,

    /// Address of this pod, which is that of its node
    #[arg(long, env = "POD_IP", hide = true)]
    pub pod_ip: Ipv4Addr,

    /// Name of this node
    #[arg(long, env = "NODE_NAME", hide = true, default_value = "")]
    pub node_name: String,

    /// How fast it may talk to an API server
    #[command(flatten)]
    pub client: ClientArgs,

    /// What is logged
    #[command(flatten)]
    pub logs: LogArgs,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use liqo_kit::args::double_dashes;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn flags_are_those_that_users_know() {
        let args = parse(&[]);
        assert_eq!((args.vni, args.mtu, args.port), (18952, 1440, 4879));
        let args = parse(&["-route.vxlan-mtu=1340", "--route.vxlan-vtep-port", "5050"]);
        assert_eq!((args.mtu, args.port), (1340, 5050));
    }

    fn parse(words: &[&str]) -> Args {
        let words = [&["route", "--pod-ip=172.30.0.2"], words].concat();
        let words = words.into_iter().map(str::to_owned);
        Line::parse_from(double_dashes(words)).args
    }
}

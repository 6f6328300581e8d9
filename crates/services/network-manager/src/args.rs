//! Flags of the network manager.

use clap::Args as ClapArgs;
use ipnet::Ipv4Net;
use liqo_api::keys::object;
use liqo_ipam::Settings;
use liqo_ipam::sanity;
use liqo_kit::args::{ClientArgs, Listen, LogArgs};

/// Tells peers of this cluster's network, and keeps all networks and addresses apart
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// Network of this cluster's pods
    #[arg(long = "manager.pod-cidr", value_parser = sanity::network, value_name = "CIDR")]
    pub pod_cidr: Ipv4Net,

    /// Network of this cluster's services
    #[arg(long = "manager.service-cidr", value_parser = sanity::network, value_name = "CIDR")]
    pub service_cidr: Ipv4Net,

    /// Networks that are never given to peers
    #[arg(
        long = "manager.reserved-pools",
        default_value = "",
        hide_default_value = true,
        value_name = "CIDRS"
    )]
    pub reserved_pools: Networks,

    /// Networks that peers may be given, besides the private ones
    #[arg(
        long = "manager.additional-pools",
        default_value = "",
        hide_default_value = true,
        value_name = "CIDRS"
    )]
    pub additional_pools: Networks,

    /// Where addresses are asked for
    #[arg(long, default_value = "0.0.0.0:6000", value_name = "[HOST]:PORT")]
    pub ipam_address: Listen,

    /// Namespace of the gateway
    #[arg(long, env = "POD_NAMESPACE", default_value = object::NAMESPACE, value_name = "NAMESPACE")]
    pub namespace: String,

    /// Where health is told
    #[arg(long, default_value = ":8081", value_name = "[HOST]:PORT")]
    pub health_probe_address: Listen,

    /// Where metrics are shown
    #[arg(
        long = "metrics-bind-addr",
        alias = "metrics-address",
        default_value = ":8080",
        value_name = "[HOST]:PORT"
    )]
    pub metrics_address: Listen,

    /// How fast to talk to the API server.
    #[command(flatten)]
    pub client: ClientArgs,

    /// What to log.
    #[command(flatten)]
    pub logs: LogArgs,
}

impl Args {
    /// What they say of this cluster's networks.
    pub fn settings(&self) -> Settings {
        Settings {
            pod: self.pod_cidr,
            service: self.service_cidr,
            additional_pools: self.additional_pools.0.clone(),
            reserved: self.reserved_pools.0.clone(),
        }
    }
}

/// Several networks: `a,b,c`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(pub Vec<Ipv4Net>);

impl std::str::FromStr for Networks {
    type Err = liqo_api::net::InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        texts.map(liqo_api::net::network).collect::<Result<_, _>>().map(Self)
    }
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
        let args = parse(&["--manager.reserved-pools=172.30.0.0/24,10.1.0.0/16"]).unwrap();
        assert_eq!(args.settings().reserved.len(), 2);
        assert_eq!(args.ipam_address.to_string(), "0.0.0.0:6000");
        let args = parse(&["-manager.additional-pools", "100.64.0.0/10", "-v=4"]).unwrap();
        assert_eq!(args.settings().additional_pools.len(), 1);
    }

    #[test]
    fn what_is_no_network_is_named_before_anything_begins() {
        let error = parse(&["--manager.reserved-pools=172.30.0.0"]).unwrap_err().to_string();
        assert!(error.contains("'172.30.0.0' is not an IPv4 network"), "{error}");
        let words = ["", "--manager.pod-cidr=10.200.0.1/16"].map(str::to_owned);
        let error = Line::try_parse_from(words).map(|line| line.args).unwrap_err().to_string();
        assert!(error.contains("the network is 10.200.0.0/16"), "{error}");
    }

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        let own = ["", "--manager.pod-cidr=10.200.0.0/16", "-manager.service-cidr=10.94.0.0/16"];
        let words = [&own, words].concat().into_iter().map(str::to_owned);
        Line::try_parse_from(double_dashes(words)).map(|line| line.args)
    }
}

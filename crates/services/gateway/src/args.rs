//! Flags of the gateway.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs, ValueEnum};
use liqo_api::keys::{object, port};
use liqo_fabric::pulse::Patience;
use liqo_kit::args::values::duration;
use liqo_kit::args::{ClientArgs, Listen, LogArgs};
use liqo_kit::leader::Timing;
use liqo_tunnel::Implementation;

/// Joins this cluster to its peers by tunnels
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// Where metrics are shown
    #[arg(long, default_value = ":0", value_name = "[HOST]:PORT")]
    pub metrics_bind_addr: Listen,

    /// Whether several replicas agree on one that is active
    #[arg(long = "gateway.leader-elect", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub leader_elect: bool,

    /// How long others wait for an active gateway that gives no sign of life
    #[arg(long = "gateway.lease-duration", default_value = "7s", value_parser = duration, value_name = "DURATION")]
    pub lease_duration: Duration,

    /// How long an active gateway may fail to give a sign of life before it gives up
    #[arg(long = "gateway.renew-deadline", default_value = "5s", value_parser = duration, value_name = "DURATION")]
    pub renew_deadline: Duration,

    /// Time between two signs of life, or two attempts to become active
    #[arg(long = "gateway.retry-period", default_value = "2s", value_parser = duration, value_name = "DURATION")]
    pub retry_period: Duration,

    /// Largest packet of tunnels; smaller where the network of the node asks for it
    #[arg(long = "gateway.mtu", env = "LIQO_MTU", default_value_t = 1440, value_name = "BYTES")]
    pub mtu: u16,

    /// Port of the tunnels
    #[arg(long = "gateway.listening-port", default_value_t = port::WIREGUARD, value_name = "PORT")]
    pub listening_port: u16,

    /// Time between two times that a latency is told that has changed much
    #[arg(long = "gateway.ping-latency-update-interval", default_value = "30s", value_parser = duration, value_name = "DURATION")]
    pub latency_interval: Duration,

    /// How many questions in a row may stay without an answer before a peer counts as lost
    #[arg(long = "gateway.ping-loss-threshold", default_value_t = 5, value_name = "COUNT")]
    pub loss_threshold: u32,

    /// Time between two questions to a peer
    #[arg(long = "gateway.ping-interval", default_value = "2s", value_parser = duration, value_name = "DURATION")]
    pub ping_interval: Duration,

    /// Prints what would change in the kernel, and ends
    #[arg(long)]
    pub dry_run: bool,

    /// Where the gateway's network namespace is kept
    #[arg(long = "gateway.netns", default_value = "/run/netns/liqo-netns", hide = true)]
    pub netns: PathBuf,

    /// Name of this pod
    #[arg(long, env = "POD_NAME", hide = true, default_value = object::GATEWAY)]
    pub pod_name: String,

    /// Namespace of this pod
    #[arg(long, env = "POD_NAMESPACE", hide = true, default_value = object::NAMESPACE)]
    pub pod_namespace: String,

    /// Address of this pod, which is that of its node
    #[arg(long, env = "POD_IP", hide = true)]
    pub pod_ip: Ipv4Addr,

    /// Who carries the packets of tunnels: the kernel where it can, or this process
    #[arg(long, env = "WIREGUARD_IMPLEMENTATION", value_enum, default_value_t, value_name = "WHO")]
    pub wireguard_implementation: Carrier,

    /// How fast it may talk to an API server
    #[command(flatten)]
    pub client: ClientArgs,

    /// What is logged
    #[command(flatten)]
    pub logs: LogArgs,
}

/// Who carries the packets of tunnels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Carrier {
    /// The kernel if it can, this process otherwise.
    #[default]
    Kernel,
    /// This process, even if the kernel could.
    Userspace,
}

impl Carrier {
    pub(crate) fn implementation(self) -> Implementation {
        match self {
            Self::Kernel => Implementation::Auto,
            Self::Userspace => Implementation::Userspace,
        }
    }
}

impl Args {
    pub(crate) fn timing(&self) -> Timing {
        Timing {
            lease: self.lease_duration,
            deadline: self.renew_deadline,
            pause: self.retry_period,
        }
    }

    pub(crate) fn patience(&self) -> Patience {
        Patience { interval: self.ping_interval, losses: self.loss_threshold }
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
        let args = parse(&[]).unwrap();
        assert_eq!((args.mtu, args.listening_port, args.leader_elect), (1440, 5871, false));
        assert_eq!(args.patience().limit(), Duration::from_secs(10));
        let args = parse(&[
            "-gateway.leader-elect=true",
            "--gateway.mtu=1340",
            "--gateway.listening-port",
            "5999",
            "--gateway.ping-interval=1s",
            "--metrics-bind-addr=:5872",
            "--wireguard-implementation=userspace",
        ])
        .unwrap();
        assert_eq!((args.mtu, args.listening_port, args.leader_elect), (1340, 5999, true));
        assert_eq!(args.wireguard_implementation, Carrier::Userspace);
        assert!(parse(&["--gateway.mtu=large"]).is_err());
    }

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        let words = [&["gateway", "--pod-ip=172.30.0.2"], words].concat();
        let words = words.into_iter().map(str::to_owned);
        Line::try_parse_from(double_dashes(words)).map(|line| line.args)
    }
}

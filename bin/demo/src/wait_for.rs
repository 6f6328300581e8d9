//! Waits until a TCP port accepts connections.

use std::str::FromStr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::failure::Failure;

const PAUSE: Duration = Duration::from_millis(100);
/// One try must not eat the whole time when packets are dropped silently.
const LONGEST_TRY: Duration = Duration::from_secs(1);

/// Flags of `demo wait-for`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to connect to.
    #[arg(value_name = "HOST:PORT")]
    target: Target,
    /// Seconds after which to give up.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    max_time: Duration,
}

/// A host name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    host: String,
    port: u16,
}

impl FromStr for Target {
    type Err = &'static str;

    fn from_str(raw: &str) -> Result<Self, Self::Err> {
        let (host, port) = raw.rsplit_once(':').ok_or("expected HOST:PORT")?;
        let port = port.parse().map_err(|_| "the port is not a number below 65536")?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() {
            return Err("the host is empty");
        }
        Ok(Self { host: bare.to_owned(), port })
    }
}

/// Tries until a connection stands or the time is over.
pub(crate) async fn run(Args { target, max_time }: Args) -> Result<(), Failure> {
    let tries = async {
        let to = (target.host.as_str(), target.port);
        while !matches!(timeout(LONGEST_TRY, TcpStream::connect(to)).await, Ok(Ok(_))) {
            sleep(PAUSE).await;
        }
    };
    timeout(max_time, tries).await.map_err(|_| Failure::TimedOut(max_time))
}

/// Reads seconds such as `1.5`.
pub(crate) fn seconds(raw: &str) -> Result<Duration, String> {
    let seconds: f64 = raw.parse().map_err(|_| "expected seconds such as 1.5")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;

    fn args(port: u16, max_time: Duration) -> Args {
        Args { target: Target { host: Ipv4Addr::LOCALHOST.to_string(), port }, max_time }
    }

    #[test]
    fn targets_are_a_host_and_a_port() {
        let target = |host: &str, port| Ok(Target { host: host.to_owned(), port });
        assert_eq!("web:80".parse(), target("web", 80));
        assert_eq!("[::1]:80".parse(), target("::1", 80));
        for raw in ["web", "web:http", ":80", "web:70000"] {
            assert!(raw.parse::<Target>().is_err(), "{raw}");
        }
    }

    #[test]
    fn seconds_may_be_fractions_but_not_negative() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert!(seconds("-1").is_err() && seconds("soon").is_err());
    }

    #[tokio::test]
    async fn an_open_port_ends_the_wait() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        run(args(port, Duration::from_secs(5))).await.unwrap();
    }

    #[tokio::test]
    async fn a_closed_port_is_tried_until_the_time_is_over() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let failure = run(args(port, Duration::from_millis(250))).await.unwrap_err();
        assert_eq!(failure.code(), 28);
    }
}

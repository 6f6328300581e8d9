//! Sends one datagram and prints the reply.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{UdpSocket, lookup_host};
use tokio::time::{Instant, timeout};

use crate::failure::Failure;
use crate::wait_for::seconds;

/// The largest payload of a datagram.
pub(crate) const LARGEST: usize = 65_535;

/// Flags of `demo udp`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name or address to send to.
    host: String,
    /// Port to send to.
    port: u16,
    /// What to send.
    text: String,
    /// Seconds to wait for the reply.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    max_time: Duration,
}

/// Sends, waits for one reply and writes it as a line.
pub(crate) async fn run(args: Args, out: &mut impl Write) -> Result<(), Failure> {
    let Args { host, port, text, max_time } = args;
    let started = Instant::now();
    let reply = timeout(max_time, ask(&host, port, text.as_bytes(), started))
        .await
        .map_err(|_| Failure::TimedOut(max_time))??;
    out.write_all(&reply)?;
    Ok(out.write_all(b"\n").and_then(|()| out.flush())?)
}

async fn ask(host: &str, port: u16, text: &[u8], started: Instant) -> Result<Vec<u8>, Failure> {
    let unresolved = |source| Failure::Resolve { host: host.to_owned(), source };
    let to = lookup_host((host, port))
        .await
        .map_err(unresolved)?
        .next()
        .ok_or_else(|| unresolved(std::io::ErrorKind::NotFound.into()))?;
    let any = match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let unreachable = |source| Failure::connect(&to, source, started.elapsed());
    let socket = UdpSocket::bind(any).await.map_err(Failure::Datagram)?;
    socket.connect(to).await.map_err(unreachable)?;
    socket.send(text).await.map_err(unreachable)?;
    let mut reply = vec![0; LARGEST];
    let size = socket.recv(&mut reply).await.map_err(unreachable)?;
    reply.truncate(size);
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(port: u16) -> Args {
        Args {
            host: Ipv4Addr::LOCALHOST.to_string(),
            port,
            text: "hello".to_owned(),
            max_time: Duration::from_millis(250),
        }
    }

    #[tokio::test]
    async fn silence_is_a_time_out() {
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = silent.local_addr().unwrap().port();
        assert_eq!(run(args(port), &mut Vec::new()).await.unwrap_err().code(), 28);
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_is_refused() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = socket.local_addr().unwrap().port();
        drop(socket);
        assert_eq!(run(args(port), &mut Vec::new()).await.unwrap_err().code(), 7);
    }
}

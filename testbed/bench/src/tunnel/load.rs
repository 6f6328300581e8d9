//! What is sent through a tunnel to measure it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::topology::{INNER, Pair};

/// What is not counted at the beginning of a flow, while it gathers speed.
const WARM_UP: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(10);
/// How much is handed over at a time.
const CHUNK: usize = 128 << 10;

/// What arrived, in which time; and all of it, with what was not counted.
pub struct Flow {
    bytes: u64,
    time: Duration,
    all: u64,
}

impl Flow {
    /// In Gbit/s.
    #[expect(clippy::cast_precision_loss, reason = "it is shown with three digits")]
    pub fn rate(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.time.as_secs_f64() / 1e9
    }

    /// How many there were altogether.
    #[expect(clippy::cast_precision_loss, reason = "it is shown with three digits")]
    pub fn gigabytes(&self) -> f64 {
        self.all as f64 / 1e9
    }
}

/// One TCP flow from the first end to the second.
pub fn flow(pair: &Pair, time: Duration) -> Result<Flow> {
    let listener = pair.within(1, || TcpListener::bind((INNER[1], 0)))??;
    let place = listener.local_addr()?;
    let receiver = thread::spawn(move || -> Result<Flow> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut buffer = vec![0; CHUNK];
        let start = Instant::now();
        let (mut counted, mut all, mut since) = (0, 0, None);
        let mut end = start;
        loop {
            let length = stream.read(&mut buffer).context("the flow stopped")?;
            if length == 0 {
                break;
            }
            end = Instant::now();
            all += u64::try_from(length)?;
            match since {
                Some(_) => counted += u64::try_from(length)?,
                None if end - start >= WARM_UP => since = Some(end),
                None => {}
            }
        }
        Ok(Flow { bytes: counted, time: end - since.context("the flow was too short")?, all })
    });
    let mut stream = pair.within(0, || TcpStream::connect_timeout(&place, LIMIT))??;
    stream.set_write_timeout(Some(LIMIT))?;
    let chunk = vec![7; CHUNK];
    let end = Instant::now() + time;
    while Instant::now() < end {
        stream.write_all(&chunk).context("the flow stopped")?;
    }
    drop(stream);
    receiver.join().map_err(|_| anyhow::anyhow!("the receiver ended early"))?
}

/// Round trips of a small datagram, one at a time, in microseconds.
pub fn round_trips(pair: &Pair, count: usize) -> Result<Vec<f64>> {
    let server = pair.within(1, || UdpSocket::bind((INNER[1], 0)))??;
    let client = pair.within(0, || UdpSocket::bind((INNER[0], 0)))??;
    client.connect(server.local_addr()?)?;
    server.connect(client.local_addr()?)?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(LIMIT))?;
    }
    let echo = thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok(length @ 1..) = server.recv(&mut buffer) {
            let _ = server.send(&buffer[..length]);
        }
    });
    let mut trips = Vec::with_capacity(count);
    let mut buffer = [0; 64];
    for _ in 0..count {
        let start = Instant::now();
        client.send(b"ping")?;
        ensure!(client.recv(&mut buffer).context("a datagram was lost")? == 4, "another answer");
        trips.push(start.elapsed().as_secs_f64() * 1e6);
    }
    client.send(&[])?;
    echo.join().map_err(|_| anyhow::anyhow!("the echo ended early"))?;
    Ok(trips)
}

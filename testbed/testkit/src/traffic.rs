//! Traffic that goes on while something breaks: one connection that never ends, and somebody who
//! knocks all the time and counts.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use nix::sched::{CloneFlags, setns};

/// How often somebody knocks, and how often the connection is read from.
const PACE: Duration = Duration::from_millis(20);
/// How much is read from the connection at a time.
const CHUNK: usize = 96 << 10;
/// What is asked for: more than a test has time to read at that pace.
const WHOLE: u64 = 1 << 30;
/// More than is on the way, or in anybody's buffers.
const BUFFERED: u64 = 12 << 20;
/// So many answers after a silence, it is over.
const ENOUGH: usize = 20;
/// How long a connection may be silent before it counts as broken.
const LIMIT: Duration = Duration::from_mins(1);

/// A connection and somebody who knocks, both from one place to a server that sends bytes and
/// answers datagrams on the same port.
pub struct Traffic {
    seen: Arc<Mutex<Seen>>,
    stops: Vec<Sender<()>>,
    threads: Vec<JoinHandle<Result<()>>>,
}

/// What came, and when.
#[derive(Default)]
struct Seen {
    /// Bytes of the connection, by when they were read.
    bytes: Vec<(Instant, u64)>,
    /// When somebody knocked, and when that was answered.
    knocks: Vec<(Instant, Option<Instant>)>,
    /// Why one of them has ended early.
    failure: Option<String>,
}

impl Traffic {
    /// Begins in a network namespace, and goes on until it is over or dropped.
    pub fn begin(namespace: &File, door: SocketAddr) -> Result<Self> {
        let seen = Arc::<Mutex<Seen>>::default();
        let (mut stops, mut threads) = (vec![], vec![]);
        for work in [stream, knock] {
            let (stop, stopped) = channel();
            let (seen, namespace) = (Arc::clone(&seen), namespace.try_clone()?);
            threads.push(thread::spawn(move || {
                setns(namespace, CloneFlags::CLONE_NEWNET).context("enter the namespace")?;
                let result = work(door, &seen, &stopped);
                lock(&seen).failure = result.as_ref().err().map(|error| format!("{error:#}"));
                result
            }));
            stops.push(stop);
        }
        Ok(Self { seen, stops, threads })
    }

    /// Whether both have flowed for a while.
    pub fn flows(&self) -> Result<()> {
        self.flows_since(None)
    }

    /// Whether both have flowed for a while since then: the very same connection, and answers.
    pub fn flows_again(&self, since: Instant) -> Result<()> {
        self.flows_since(Some(since))
    }

    fn flows_since(&self, since: Option<Instant>) -> Result<()> {
        let seen = lock(&self.seen);
        if let Some(failure) = &seen.failure {
            return Err(anyhow!("{failure}"));
        }
        let counts = |when: &Instant| since.is_none_or(|since| *when > since);
        let bytes: u64 = seen.bytes.iter().filter(|(at, _)| counts(at)).map(|(_, size)| size).sum();
        let wanted = if since.is_some() { BUFFERED } else { 1 };
        let answered =
            seen.knocks.iter().filter(|(asked, answer)| counts(asked) && answer.is_some());
        let answered = answered.count();
        ensure!(bytes >= wanted && answered >= ENOUGH, "{bytes} bytes, {answered} answers");
        Ok(())
    }

    /// Ends both; how often somebody knocked, how often in vain, and the longest time without a
    /// knock that was answered.
    pub fn end(mut self) -> Result<Count> {
        self.stops.clear();
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| anyhow!("traffic panicked"))??;
        }
        let seen = lock(&self.seen);
        let answered: Vec<Instant> =
            seen.knocks.iter().filter_map(|(asked, answer)| answer.and(Some(*asked))).collect();
        let pauses = answered.iter().zip(answered.iter().skip(1));
        let silence = pauses.map(|(one, next)| next.duration_since(*one)).max();
        Ok(Count {
            knocks: seen.knocks.len(),
            lost: seen.knocks.len() - answered.len(),
            silence: silence.context("no answer at all")?,
        })
    }
}

/// What came of knocking.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// How often somebody knocked.
    pub knocks: usize,
    /// How often nobody answered.
    pub lost: usize,
    /// The longest time without a knock that was answered.
    pub silence: Duration,
}

/// Reads from one connection, steadily.
fn stream(door: SocketAddr, seen: &Mutex<Seen>, stopped: &Receiver<()>) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&door, LIMIT).context("connect")?;
    stream.set_read_timeout(Some(PACE))?;
    let request = format!("GET /bytes/{WHOLE} HTTP/1.1\r\nHost: door\r\n\r\n");
    stream.write_all(request.as_bytes()).context("ask for bytes")?;
    let mut buffer = vec![0; CHUNK];
    let mut last = Instant::now();
    while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(anyhow!("the connection ended")),
            Ok(length) => {
                last = Instant::now();
                lock(seen).bytes.push((last, u64::try_from(length)?));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                ensure!(last.elapsed() < LIMIT, "the connection is silent");
            }
            Err(error) => return Err(error).context("the connection broke"),
        }
    }
    Ok(())
}

/// Knocks, and notes who answers which knock.
fn knock(door: SocketAddr, seen: &Mutex<Seen>, stopped: &Receiver<()>) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("bind")?;
    socket.set_nonblocking(true)?;
    let mut buffer = [0; 512];
    while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
        let number = {
            let mut seen = lock(seen);
            seen.knocks.push((Instant::now(), None));
            seen.knocks.len() - 1
        };
        // What cannot be sent is lost, like what is lost on its way.
        let _ = socket.send_to(format!(" {number}").as_bytes(), door);
        while let Ok(length) = socket.recv(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]);
            let knock = text.rsplit(' ').next().and_then(|number| number.parse::<usize>().ok());
            let Some(knock) = knock else { continue };
            if let Some((_, answer)) = lock(seen).knocks.get_mut(knock) {
                *answer = Some(Instant::now());
            }
        }
    }
    Ok(())
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_flows_is_counted_and_what_is_lost_too() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let door = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(door).unwrap();
        thread::spawn(move || {
            let mut stream = tcp.accept().unwrap().0;
            while stream.write_all(&[0; 4096]).is_ok() {}
        });
        thread::spawn(move || {
            let mut buffer = [0; 64];
            for number in 0.. {
                let Ok((length, from)) = udp.recv_from(&mut buffer) else { return };
                let text = [b"door ".as_slice(), &buffer[..length]].concat();
                // Every fourth is lost.
                if number % 4 != 3 {
                    let _ = udp.send_to(&text, from);
                }
            }
        });
        let here = File::open("/proc/thread-self/ns/net").unwrap();
        let start = Instant::now();
        let traffic = Traffic::begin(&here, door).unwrap();
        crate::eventually(LIMIT, "it flows", || traffic.flows()).unwrap();
        crate::eventually(LIMIT, "it goes on", || traffic.flows_again(start)).unwrap();
        let count = traffic.end().unwrap();
        assert!(count.lost >= 5 && count.lost < count.knocks / 2, "{count:?}");
        assert!(count.silence >= PACE, "{count:?}");
    }
}

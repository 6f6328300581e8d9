//! Asks peers whether they are there, and answers those who ask.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use liqo_api::keys::port;
use liqo_api::names::ClusterId;
use liqo_fabric::gateway::Widths;
use liqo_fabric::peer::Peer;
use liqo_fabric::pulse::{Health, LONGEST, Message, MessageKind, Patience, Pulse};
use liqo_fabric::width::{Short, Width};
use tokio::net::UdpSocket;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

/// How often a peer is asked that has not answered yet, or not often: people wait for it.
const EAGER: Duration = Duration::from_millis(250);

/// What is known of all peers.
pub(crate) struct Heart {
    patience: Patience,
    /// The largest packet that tunnels take.
    most: u32,
    pulses: Mutex<BTreeMap<ClusterId, Known>>,
    told: Mutex<BTreeMap<ClusterId, Word>>,
    changed: watch::Sender<()>,
    new: Notify,
}

/// What is known of one.
struct Known {
    peer: Peer,
    pulse: Pulse,
    width: Width,
}

/// What is told of a peer: how it is, whether it is known how fast it usually answers, and how large
/// packets to it may be.
type Word = (&'static str, bool, u32);

impl Heart {
    /// Of nobody, yet; `most` is the largest packet that tunnels take.
    pub fn new(patience: Patience, most: u32) -> Self {
        let (changed, _) = watch::channel(());
        let (pulses, told) = (Mutex::default(), Mutex::default());
        Self { patience, most, pulses, told, changed, new: Notify::new() }
    }

    /// Something for every peer whose health changes.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Asks these peers from now on. One that is to be reached in another way begins anew, with what is
    /// known of how large packets may be until that is found out again.
    pub fn follow(&self, peers: &BTreeMap<ClusterId, Peer>, widths: &Widths, now: Timestamp) {
        let mut pulses = self.pulses();
        pulses.retain(|id, _| peers.contains_key(id));
        for (id, peer) in peers {
            let way = |peer: &Peer| (peer.key, peer.endpoint.clone(), peer.port, peer.networks());
            if pulses.get(id).is_none_or(|known| way(&known.peer) != way(peer)) {
                let (peer, pulse) = (peer.clone(), Pulse::new(peer.probe(), now));
                let width = Width::new(self.most, widths.get(id).copied());
                pulses.insert(id.clone(), Known { peer, pulse, width });
                self.new.notify_one();
            }
        }
    }

    /// How a peer is.
    pub fn health(&self, id: &ClusterId, now: Timestamp) -> Health {
        let pulses = self.pulses();
        let known = pulses.get(id);
        known.map_or(Health::Connecting, |known| known.pulse.health(self.patience, now))
    }

    /// The largest packet that passes to a peer, as far as is known.
    pub fn width(&self, id: &ClusterId) -> Option<u32> {
        self.pulses().get(id).map(|known| known.width.size())
    }

    /// The same of all.
    pub fn widths(&self) -> Widths {
        self.pulses().iter().map(|(id, known)| (id.clone(), known.width.size())).collect()
    }

    /// How a peer that answers usually is, and whether that may have to be corrected.
    pub fn usual(&self, id: &ClusterId) -> Option<(Health, bool)> {
        let pulses = self.pulses();
        let Known { pulse, .. } = pulses.get(id)?;
        Some((Health::Connected(pulse.usual()?), pulse.is_young()))
    }

    /// Asks and answers, for ever.
    pub async fn beat(&self, socket: UdpSocket) {
        let mut buffer = [0; LONGEST];
        let mut next = Instant::now();
        loop {
            tokio::select! {
                received = socket.recv_from(&mut buffer) => match received {
                    Ok((length, from)) => {
                        self.hear(&socket, buffer.get(..length).unwrap_or_default(), from).await;
                    }
                    // The kernel tells what became of an earlier message.
                    Err(error) => debug!(%error, "Not delivered"),
                },
                () = sleep_until(next) => {
                    self.ask(&socket).await;
                    next = Instant::now() + self.pause();
                }
                () = self.new.notified() => next = Instant::now(),
            }
            self.tell();
        }
    }

    async fn hear(&self, socket: &UdpSocket, bytes: &[u8], from: SocketAddr) {
        let Some(message) = Message::decode(bytes) else { return };
        if message.kind == MessageKind::Ping {
            if let Some(answer) = message.answer() {
                send(socket, &answer.encode(), from).await;
            }
            return;
        }
        let now = Timestamp::now();
        let mut pulses = self.pulses();
        let asked = message.cluster_id.parse().ok().and_then(|id: ClusterId| pulses.get_mut(&id));
        // Only the one that was asked can answer.
        let asked = asked.filter(|known| IpAddr::V4(known.pulse.address) == from.ip());
        if let Some(Known { pulse, width, .. }) = asked {
            pulse.hear(&message, now);
            if let Ok(asked) = message.time.parse() {
                width.hear(asked, now);
            }
        }
    }

    async fn ask(&self, socket: &UdpSocket) {
        let now = Timestamp::now();
        let mut questions: Vec<(Vec<u8>, SocketAddr)> = Vec::new();
        for (id, Known { pulse, width, .. }) in &mut *self.pulses() {
            let to = SocketAddr::from((pulse.address, port::CONNECTION_CHECK));
            questions.push((Message::ping(id, now).encode(), to));
            let Health::Connected(_) = pulse.health(self.patience, now) else { continue };
            let usual = pulse.usual().unwrap_or_default();
            let usual = Duration::try_from(usual).unwrap_or_default();
            // Its time tells its answer from that of the short one.
            let later = now + SignedDuration::from_micros(1);
            if let Some(size) = width.ask(Short { heard: pulse.heard(), usual }, later) {
                questions.push((Message::ping(id, later).encode_long(size), to));
            }
        }
        for (question, to) in questions {
            send(socket, &question, to).await;
        }
    }

    /// How long to wait before asking again, or looking whether silence has lasted too long.
    fn pause(&self) -> Duration {
        let now = Timestamp::now();
        let waits = self.pulses().values().any(|Known { pulse, width, .. }| {
            match pulse.health(self.patience, now) {
                Health::Connecting => true,
                Health::Connected(_) => !pulse.is_settled() || width.is_searching(),
                Health::Lost => false,
            }
        });
        let pause = self.patience.interval;
        if waits { pause.min(EAGER) } else { pause }
    }

    fn tell(&self) {
        let now = Timestamp::now();
        let health: BTreeMap<ClusterId, (String, Word)> = self
            .pulses()
            .iter()
            .map(|(id, Known { peer, pulse, width })| {
                let word = word(pulse.health(self.patience, now));
                let word = (word, pulse.is_settled(), width.size());
                (id.clone(), (peer.cluster.name.to_string(), word))
            })
            .collect();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let news: Vec<_> =
            health.iter().filter(|(id, (_, word))| told.get(*id) != Some(word)).collect();
        for (id, (peer, (word, _, mtu))) in &news {
            let before = told.get(*id);
            if before.is_some_and(|(_, _, before)| before != mtu) {
                info!(peer, cluster = %id, mtu, "What passes");
            }
            if before.is_some_and(|(before, _, _)| before == word) {
                continue;
            }
            match *word {
                "lost" => warn!(peer, cluster = %id, "Peer lost"),
                word => info!(peer, cluster = %id, state = word, "Peer"),
            }
        }
        if !news.is_empty() {
            self.changed.send_replace(());
        }
        *told = health.into_iter().map(|(id, (_, word))| (id, word)).collect();
    }

    fn pulses(&self) -> MutexGuard<'_, BTreeMap<ClusterId, Known>> {
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn word(health: Health) -> &'static str {
    match health {
        Health::Connecting => "connecting",
        Health::Connected(_) => "connected",
        Health::Lost => "lost",
    }
}

async fn send(socket: &UdpSocket, message: &[u8], to: SocketAddr) {
    if let Err(error) = socket.send_to(message, to).await {
        debug!(%to, %error, "Not sent");
    }
}

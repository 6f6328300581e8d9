//! Asks peers whether they are there, and answers those who ask.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use liqo_api::keys::port;
use liqo_api::names::ClusterId;
use liqo_fabric::peer::Peer;
use liqo_fabric::pulse::{Health, LONGEST, Message, MessageKind, Patience, Pulse};
use tokio::net::UdpSocket;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

/// How often a peer is asked that has not answered yet, or not often: people wait for it.
const EAGER: Duration = Duration::from_millis(250);

/// What is known of all peers.
pub(crate) struct Heart {
    patience: Patience,
    pulses: Mutex<BTreeMap<ClusterId, (Peer, Pulse)>>,
    told: Mutex<BTreeMap<ClusterId, Word>>,
    changed: watch::Sender<()>,
    new: Notify,
}

/// What is told of a peer: how it is, and whether it is known how fast it usually answers.
type Word = (&'static str, bool);

impl Heart {
    pub fn new(patience: Patience) -> Self {
        let (changed, _) = watch::channel(());
        let (pulses, told) = (Mutex::default(), Mutex::default());
        Self { patience, pulses, told, changed, new: Notify::new() }
    }

    /// Something for every peer whose health changes.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Asks these peers from now on. One that is to be reached in another way begins anew.
    pub fn follow(&self, peers: &BTreeMap<ClusterId, Peer>, now: Timestamp) {
        let mut pulses = self.pulses();
        pulses.retain(|id, _| peers.contains_key(id));
        for (id, peer) in peers {
            let way = |peer: &Peer| (peer.key, peer.endpoint.clone(), peer.port, peer.networks());
            if pulses.get(id).is_none_or(|(known, _)| way(known) != way(peer)) {
                pulses.insert(id.clone(), (peer.clone(), Pulse::new(peer.probe(), now)));
                self.new.notify_one();
            }
        }
    }

    /// How a peer is.
    pub fn health(&self, id: &ClusterId, now: Timestamp) -> Health {
        let pulses = self.pulses();
        let pulse = pulses.get(id).map(|(_, pulse)| pulse);
        pulse.map_or(Health::Connecting, |pulse| pulse.health(self.patience, now))
    }

    /// How a peer that answers usually is, and whether that may have to be corrected.
    pub fn usual(&self, id: &ClusterId) -> Option<(Health, bool)> {
        let pulses = self.pulses();
        let (_, pulse) = pulses.get(id)?;
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
                send(socket, &answer, from).await;
            }
            return;
        }
        let now = Timestamp::now();
        let mut pulses = self.pulses();
        let asked = message.cluster_id.parse().ok().and_then(|id: ClusterId| pulses.get_mut(&id));
        // Only the one that was asked can answer.
        if let Some((_, pulse)) = asked.filter(|(_, pulse)| IpAddr::V4(pulse.address) == from.ip())
        {
            pulse.hear(&message, now);
        }
    }

    async fn ask(&self, socket: &UdpSocket) {
        let now = Timestamp::now();
        let questions: Vec<(Message, SocketAddr)> = self
            .pulses()
            .iter()
            .map(|(id, (_, pulse))| {
                let to = SocketAddr::from((pulse.address, port::CONNECTION_CHECK));
                (Message::ping(id, now), to)
            })
            .collect();
        for (question, to) in questions {
            send(socket, &question, to).await;
        }
    }

    /// How long to wait before asking again, or looking whether silence has lasted too long.
    fn pause(&self) -> Duration {
        let now = Timestamp::now();
        let waits = self.pulses().values().any(|(_, pulse)| {
            !pulse.is_settled() && pulse.health(self.patience, now) != Health::Lost
        });
        let pause = self.patience.interval;
        if waits { pause.min(EAGER) } else { pause }
    }

    fn tell(&self) {
        let now = Timestamp::now();
        let health: BTreeMap<ClusterId, (String, Word)> = self
            .pulses()
            .iter()
            .map(|(id, (peer, pulse))| {
                let word = word(pulse.health(self.patience, now));
                (id.clone(), (peer.cluster.name.to_string(), (word, pulse.is_settled())))
            })
            .collect();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let news: Vec<_> =
            health.iter().filter(|(id, (_, word))| told.get(*id) != Some(word)).collect();
        for (id, (peer, (word, _))) in &news {
            if told.get(*id).is_some_and(|(before, _)| before == word) {
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

    fn pulses(&self) -> MutexGuard<'_, BTreeMap<ClusterId, (Peer, Pulse)>> {
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

async fn send(socket: &UdpSocket, message: &Message, to: SocketAddr) {
    if let Err(error) = socket.send_to(&message.encode(), to).await {
        debug!(%to, %error, "Not sent");
    }
}

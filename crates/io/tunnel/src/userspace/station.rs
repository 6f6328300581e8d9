//! Peers as the data path sees them: who owns an address, and the conversation with each.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use gotatun::noise::Tunn;
use gotatun::noise::handshake::parse_handshake_anon;
use gotatun::noise::index_table::IndexTable;
use gotatun::noise::rate_limiter::RateLimiter;
use gotatun::packet::{WgHandshakeInit, WgKind};
use gotatun::x25519;
use ipnet::Ipv4Net;

use crate::key::{PrivateKey, PublicKey};
use crate::peer::{Change, Peer, PeerState, changes, resolve, seconds};

/// How many handshakes a second one address may ask for before it has to show that it is there.
const HANDSHAKES: u64 = 100;

/// A peer and the conversation with it.
pub(super) struct Station {
    key: PublicKey,
    conversation: Mutex<Conversation>,
}

/// What is known of the other end.
pub(super) struct Conversation {
    pub(super) noise: Tunn,
    pub(super) endpoint: Option<SocketAddr>,
    pub(super) received: u64,
    pub(super) sent: u64,
    last_handshake: Option<SystemTime>,
    /// We answered a handshake, and the peer has not used the new keys yet.
    unconfirmed: bool,
}

/// All peers at one moment.
#[derive(Default)]
struct Table {
    stations: BTreeMap<PublicKey, Arc<Station>>,
    routes: Routes,
}

/// Which peer an address belongs to.
#[derive(Default)]
pub(super) struct Routes(Vec<(Ipv4Net, Arc<Station>)>);

/// The peers of a tunnel.
pub(super) struct Stations {
    secret: x25519::StaticSecret,
    public: x25519::PublicKey,
    pub(super) limiter: Arc<RateLimiter>,
    indices: IndexTable,
    /// Replaced whole, so that readers never wait.
    table: RwLock<Arc<Table>>,
    by_index: Mutex<HashMap<u32, Arc<Station>>>,
    wanted: Mutex<BTreeMap<PublicKey, Peer>>,
}

impl Station {
    pub(super) fn talk(&self) -> MutexGuard<'_, Conversation> {
        lock(&self.conversation)
    }
}

impl Conversation {
    /// Notes that the peer proved to be at an address, with so many bytes.
    pub(super) fn heard(&mut self, from: SocketAddr, bytes: usize) {
        self.endpoint = Some(from);
        self.received += u64::try_from(bytes).unwrap_or(0);
    }

    /// Notes that a packet goes to the peer.
    pub(super) fn says(&mut self, bytes: usize) {
        self.sent += u64::try_from(bytes).unwrap_or(0);
    }

    /// Notes that we answered a handshake.
    pub(super) fn answered(&mut self) {
        self.unconfirmed = true;
    }

    /// Notes that both ends have the new keys.
    pub(super) fn agreed(&mut self) {
        self.unconfirmed = false;
        self.last_handshake = Some(SystemTime::now());
    }

    /// Notes that the peer used a key, which is when a handshake that we answered is complete.
    pub(super) fn confirmed(&mut self) {
        if self.unconfirmed {
            self.agreed();
        }
    }
}

impl Routes {
    /// The peer with the longest network that an address is in.
    pub(super) fn find(&self, address: Ipv4Addr) -> Option<&Arc<Station>> {
        self.0.iter().find(|(network, _)| network.contains(&address)).map(|(_, owner)| owner)
    }

    fn new<'a>(owners: impl Iterator<Item = (&'a [Ipv4Net], &'a Arc<Station>)>) -> Self {
        let mut all: Vec<_> = owners
            .flat_map(|(networks, owner)| networks.iter().map(|net| (*net, Arc::clone(owner))))
            .collect();
        all.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        Self(all)
    }
}

impl Stations {
    pub(super) fn new(key: &PrivateKey) -> Self {
        let secret = key.secret();
        let public = x25519::PublicKey::from(&secret);
        Self {
            limiter: Arc::new(RateLimiter::new(&public, HANDSHAKES)),
            secret,
            public,
            indices: IndexTable::from_os_rng(),
            table: RwLock::default(),
            by_index: Mutex::default(),
            wanted: Mutex::default(),
        }
    }

    /// Makes these the peers. Peers that stay keep their keys and the place they were heard from.
    pub(super) fn set(&self, peers: &[Peer]) {
        let mut wanted = lock(&self.wanted);
        let want = resolve(peers);
        let steps = changes(&wanted, &want);
        if steps.is_empty() {
            return;
        }
        let mut stations = self.table().stations.clone();
        for step in steps {
            match step {
                Change::Remove(key) => {
                    stations.remove(&key);
                }
                Change::Add(peer) => {
                    stations.insert(peer.public_key, Arc::new(self.station(&peer)));
                }
                Change::Update(update) => {
                    let Some(station) = stations.get(&update.public_key) else { continue };
                    let mut conversation = station.talk();
                    if update.endpoint.is_some() {
                        conversation.endpoint = update.endpoint;
                    }
                    if let Some(keepalive) = update.keepalive {
                        conversation.noise.set_persistent_keepalive(Some(seconds(keepalive)));
                    }
                }
            }
        }
        let owners = want.values().filter_map(|peer| {
            stations.get(&peer.public_key).map(|station| (peer.allowed.as_slice(), station))
        });
        let routes = Routes::new(owners);
        let gone = |station: &Arc<Station>| !stations.contains_key(&station.key);
        lock(&self.by_index).retain(|_, station| !gone(station));
        let table = Arc::new(Table { stations, routes });
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
        *wanted = want;
    }

    /// The peers as they are.
    pub(super) fn states(&self) -> Vec<PeerState> {
        let table = self.table();
        let states = table.stations.values().map(|station| {
            let conversation = station.talk();
            PeerState {
                public_key: station.key,
                endpoint: conversation.endpoint,
                last_handshake: conversation.last_handshake,
                received: conversation.received,
                sent: conversation.sent,
            }
        });
        states.collect()
    }

    /// All peers of this moment.
    pub(super) fn all(&self) -> Vec<Arc<Station>> {
        self.table().stations.values().cloned().collect()
    }

    /// The peer that owns an address.
    pub(super) fn owner(&self, address: Ipv4Addr) -> Option<Arc<Station>> {
        self.table().routes.find(address).cloned()
    }

    /// Whether an address belongs to a peer.
    pub(super) fn owns(&self, station: &Arc<Station>, address: Ipv4Addr) -> bool {
        self.table().routes.find(address).is_some_and(|owner| Arc::ptr_eq(owner, station))
    }

    /// The peer that a handshake comes from, if it is one of ours.
    pub(super) fn caller(&self, packet: &WgHandshakeInit) -> Option<Arc<Station>> {
        let half = parse_handshake_anon(&self.secret, &self.public, packet).ok()?;
        self.table().stations.get(&PublicKey(half.peer_static_public)).cloned()
    }

    /// The peer that we gave an index to.
    pub(super) fn by_index(&self, index: u32) -> Option<Arc<Station>> {
        lock(&self.by_index).get(&index).cloned()
    }

    /// Notes the index in a handshake of ours, which answers will carry.
    pub(super) fn note(&self, packet: &WgKind, station: &Arc<Station>) {
        let index = match packet {
            WgKind::HandshakeInit(packet) => packet.sender_idx.get(),
            WgKind::HandshakeResp(packet) => packet.sender_idx.get(),
            WgKind::CookieReply(_) | WgKind::Data(_) => return,
        };
        lock(&self.by_index).insert(index, Arc::clone(station));
    }

    /// Forgets what is no longer in use.
    pub(super) fn tidy(&self) {
        lock(&self.by_index).retain(|index, _| self.indices.in_use(*index));
        self.limiter.try_reset_count();
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn station(&self, peer: &Peer) -> Station {
        let noise = Tunn::new(
            self.secret.clone(),
            x25519::PublicKey::from(peer.public_key.0),
            None,
            Some(seconds(peer.keepalive)).filter(|every| *every > 0),
            self.indices.clone(),
            Arc::clone(&self.limiter),
        );
        Station {
            key: peer.public_key,
            conversation: Mutex::new(Conversation {
                noise,
                endpoint: peer.endpoint,
                received: 0,
                sent: 0,
                last_handshake: None,
                unconfirmed: false,
            }),
        }
    }
}

/// A thread that panicked ends the process in shipped builds; elsewhere what it held is still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

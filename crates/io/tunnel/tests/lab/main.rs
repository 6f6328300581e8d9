//! Tunnels between real network namespaces, which these tests make and remove.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]
#![expect(clippy::print_stdout, reason = "what sixteen peers cost is worth a line")]

mod namespaces;
mod rights;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::Duration;

use liqo_tunnel::{
    Driver, Error, Implementation, Peer, PeerState, PrivateKey, PublicKey, Settings, Tunnel,
};

use self::namespaces::{Namespace, Narrows, Wire, block_on, ip, outer};

/// How long anything may take before it counts as broken.
const LIMIT: Duration = Duration::from_secs(20);
/// How long to listen for what must not come.
const SILENCE: Duration = Duration::from_millis(400);
const MTU: u16 = 1340;
const PORT: u16 = 5871;

/// Two ends: where they are, their keys, and their addresses inside the tunnel.
struct Pair {
    wire: Wire,
    keys: [PrivateKey; 2],
}

const INNER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];

impl Pair {
    fn new(name: &str) -> Self {
        Self { wire: Wire::new(name), keys: [PrivateKey::generate(), PrivateKey::generate()] }
    }

    fn host(&self, end: usize) -> &Namespace {
        &self.wire.ends[end]
    }

    /// The other end, as an end knows it.
    fn peer_of(&self, end: usize) -> Peer {
        let other = 1 - end;
        Peer {
            public_key: self.keys[other].public(),
            endpoint: Some(SocketAddr::new(outer(other).into(), PORT)),
            allowed: vec![INNER[other].into()],
            keepalive: None,
        }
    }

    /// Opens an end in its namespace, with an address and a route to the other.
    fn open(&self, end: usize) -> Tunnel {
        let tunnel = open(self.host(end), &settings("tun", &self.keys[end], PORT), None).unwrap();
        Self::give_address(self.host(end), end);
        tunnel
    }

    fn give_address(namespace: &Namespace, end: usize) {
        namespace.ip(&format!("address add {}/32 dev tun", INNER[end]));
        namespace.ip(&format!("route add {}/32 dev tun", INNER[1 - end]));
    }

    /// Both ends, which know each other.
    fn open_both(&self) -> [Tunnel; 2] {
        let tunnels = [self.open(0), self.open(1)];
        for (end, tunnel) in tunnels.iter().enumerate() {
            set(tunnel, &[self.peer_of(end)]);
        }
        tunnels
    }
}

fn settings(name: &str, key: &PrivateKey, port: u16) -> Settings {
    Settings {
        name: name.to_owned(),
        private_key: key.clone(),
        port,
        mtu: MTU,
        probes: None,
        implementation: Implementation::Userspace,
    }
}

/// Opens a tunnel whose socket is in a namespace. The runtime it is opened on is gone afterwards.
fn open(from: &Namespace, settings: &Settings, device: Option<&Path>) -> Result<Tunnel, Error> {
    from.enter(|| block_on(Tunnel::open(settings.clone(), device)))
}

fn set(tunnel: &Tunnel, peers: &[Peer]) {
    block_on(tunnel.set_peers(peers)).unwrap();
}

fn state(tunnel: &Tunnel) -> PeerState {
    let mut states = block_on(tunnel.peers()).unwrap();
    assert_eq!(states.len(), 1, "{states:?}");
    states.remove(0)
}

/// Something that sends back every datagram.
fn echo(namespace: &Namespace, address: Ipv4Addr) -> SocketAddr {
    let socket = namespace.enter(|| UdpSocket::bind((address, 0)).unwrap());
    let place = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        // An empty datagram ends it.
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            if length == 0 {
                return;
            }
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
    place
}

fn udp(namespace: &Namespace, patience: Duration) -> UdpSocket {
    let socket = namespace.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.set_read_timeout(Some(patience)).unwrap();
    socket
}

/// Whether a datagram comes back. It is sent again and again, since datagrams may be lost.
fn comes_back(from: &Namespace, to: SocketAddr, payload: &[u8]) -> bool {
    let socket = udp(from, Duration::from_millis(500));
    let mut buffer = vec![0; 65_536];
    (0..40).any(|_| {
        socket.send_to(payload, to).unwrap();
        socket.recv(&mut buffer).is_ok_and(|length| &buffer[..length] == payload)
    })
}

fn stop(from: &Namespace, echo: SocketAddr) {
    let _ = udp(from, LIMIT).send_to(&[], echo);
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from(index * 31 % 251).unwrap()).collect()
}

/// Sends requests of a size over one connection, each of which has to come back whole.
fn requests(from: &Namespace, to: &Namespace, address: Ipv4Addr, size: usize, count: usize) {
    let listener = to.enter(|| TcpListener::bind((address, 0)).unwrap());
    let place = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; size];
        for _ in 0..count {
            stream.read_exact(&mut buffer).unwrap();
            stream.write_all(&buffer).unwrap();
        }
    });
    let mut stream = from.enter(|| TcpStream::connect_timeout(&place, LIMIT).unwrap());
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let sent = pattern(size);
    let mut received = vec![0; size];
    for _ in 0..count {
        let mut writer = stream.try_clone().unwrap();
        let body = sent.clone();
        let writing = thread::spawn(move || writer.write_all(&body).unwrap());
        stream.read_exact(&mut received).unwrap();
        writing.join().unwrap();
        assert!(received == sent, "a request came back changed");
    }
    server.join().unwrap();
}

#[test]
fn connections_and_datagrams_of_all_sizes_pass_both_ways_though_no_runtime_runs() {
    let pair = Pair::new("flow");
    let _tunnels = pair.open_both();
    for (from, to) in [(0, 1), (1, 0)] {
        let place = echo(pair.host(to), INNER[to]);
        for size in [1, 1000, 1312, 1313, 9000, 60_000] {
            assert!(comes_back(pair.host(from), place, &pattern(size)), "{size} from {from}");
        }
        stop(pair.host(from), place);
        requests(pair.host(from), pair.host(to), INNER[to], 64 << 10, 50);
        requests(pair.host(from), pair.host(to), INNER[to], 4 << 20, 2);
        requests(pair.host(from), pair.host(to), INNER[to], 1, 50);
    }
}

#[test]
fn a_peer_is_answered_where_it_speaks_from() {
    let pair = Pair::new("learn");
    let [one, other] = [pair.open(0), pair.open(1)];
    set(&one, &[Peer { endpoint: None, ..pair.peer_of(0) }]);
    set(&other, &[pair.peer_of(1)]);
    assert_eq!(state(&one).endpoint, None);

    let place = echo(pair.host(0), INNER[0]);
    assert!(comes_back(pair.host(1), place, b"hello"));

    let learnt = state(&one);
    assert_eq!(learnt.endpoint, Some(SocketAddr::new(outer(1).into(), PORT)));
    assert!(learnt.last_handshake.is_some());
    assert!(learnt.received > 0 && learnt.sent > 0, "{learnt:?}");
    stop(pair.host(1), place);
}

#[test]
fn a_peer_that_moves_is_followed() {
    let pair = Pair::new("roam");
    let [one, other] = pair.open_both();
    let place = echo(pair.host(0), INNER[0]);
    assert!(comes_back(pair.host(1), place, b"before"));

    block_on(other.close());
    let moved = PORT + 1;
    let other = open(pair.host(1), &settings("tun", &pair.keys[1], moved), None).unwrap();
    Pair::give_address(pair.host(1), 1);
    set(&other, &[pair.peer_of(1)]);
    assert!(comes_back(pair.host(1), place, b"after"));
    let elsewhere = SocketAddr::new(outer(1).into(), moved);
    assert_eq!(state(&one).endpoint, Some(elsewhere));

    // That the same peers are wanted again takes nobody back.
    set(&one, &[pair.peer_of(0)]);
    assert_eq!(state(&one).endpoint, Some(elsewhere));
    stop(pair.host(1), place);
}

#[test]
fn a_new_endpoint_is_used_at_once() {
    let pair = Pair::new("endp");
    let [one, other] = pair.open_both();
    set(&other, &[Peer { endpoint: None, ..pair.peer_of(1) }]);
    let place = echo(pair.host(1), INNER[1]);
    assert!(comes_back(pair.host(0), place, b"first"));

    let second = Ipv4Addr::new(198, 18, 251, 9);
    pair.host(1).ip(&format!("address add {second}/24 dev wire"));
    let endpoint = SocketAddr::new(second.into(), PORT);
    set(&one, &[Peer { endpoint: Some(endpoint), ..pair.peer_of(0) }]);
    assert_eq!(state(&one).endpoint, Some(endpoint));
    assert!(comes_back(pair.host(0), place, b"second"));
    stop(pair.host(0), place);
}

#[test]
fn a_peer_that_is_removed_is_not_heard_until_it_is_back() {
    let pair = Pair::new("gone");
    let [one, _other] = pair.open_both();
    let place = echo(pair.host(0), INNER[0]);
    assert!(comes_back(pair.host(1), place, b"hello"));

    set(&one, &[]);
    assert_eq!(block_on(one.peers()).unwrap(), []);
    let socket = udp(pair.host(1), SILENCE);
    socket.send_to(b"anybody?", place).unwrap();
    assert!(socket.recv(&mut [0; 64]).is_err(), "a removed peer was answered");

    set(&one, &[pair.peer_of(0)]);
    assert!(comes_back(pair.host(0), echo(pair.host(1), INNER[1]), b"back"));
    stop(pair.host(1), place);
}

#[test]
fn a_peer_with_a_new_key_replaces_the_old_one() {
    let mut pair = Pair::new("rekey");
    let [one, other] = pair.open_both();
    let place = echo(pair.host(0), INNER[0]);
    assert!(comes_back(pair.host(1), place, b"old"));

    block_on(other.close());
    pair.keys[1] = PrivateKey::generate();
    let other = pair.open(1);
    set(&other, &[pair.peer_of(1)]);
    set(&one, &[pair.peer_of(0)]);
    assert_eq!(state(&one).public_key, pair.keys[1].public());
    assert!(comes_back(pair.host(1), place, b"new"));
    stop(pair.host(1), place);
}

#[test]
fn packets_from_addresses_of_others_are_dropped() {
    let pair = Pair::new("spoof");
    let [one, _other] = pair.open_both();
    let place = echo(pair.host(0), INNER[0]);
    assert!(comes_back(pair.host(1), place, b"as myself"));

    let stranger = Ipv4Addr::new(10, 98, 0, 7);
    pair.host(1).ip(&format!("address add {stranger}/32 dev tun"));
    pair.host(0).ip(&format!("route add {stranger}/32 dev tun"));
    let socket = pair.host(1).enter(|| UdpSocket::bind((stranger, 0)).unwrap());
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    socket.send_to(b"as another", place).unwrap();
    assert!(socket.recv(&mut [0; 64]).is_err(), "a forged source was accepted");

    let both = vec![INNER[1].into(), stranger.into()];
    set(&one, &[Peer { allowed: both, ..pair.peer_of(0) }]);
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.send_to(b"as allowed", place).unwrap();
    assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 10);
    stop(pair.host(1), place);
}

#[test]
fn the_device_may_be_in_another_namespace_than_the_socket() {
    let pair = Pair::new("apart");
    let inside = Namespace::new("apart-in");
    let one =
        open(pair.host(0), &settings("tun", &pair.keys[0], PORT), Some(&inside.path())).unwrap();
    Pair::give_address(&inside, 0);
    set(&one, &[pair.peer_of(0)]);
    let other = pair.open(1);
    set(&other, &[pair.peer_of(1)]);

    let place = echo(&inside, INNER[0]);
    assert!(comes_back(pair.host(1), place, b"hello"));
    requests(pair.host(1), &inside, INNER[0], 64 << 10, 10);
    assert!(!pair.host(0).has("tun"));
    assert!(inside.has("tun"));
    stop(pair.host(1), place);

    block_on(one.close());
    assert!(inside.loses("tun"));
}

#[test]
fn the_device_takes_no_longer_packet_than_its_mtu() {
    let pair = Pair::new("mtu");
    let _tunnels = pair.open_both();
    let place = echo(pair.host(1), INNER[1]);
    assert!(comes_back(pair.host(0), place, b"hello"));
    let shown = ip(&["-n", pair.host(0).name(), "-o", "link", "show", "tun"]);
    assert!(shown.contains(" mtu 1340 "), "{shown}");

    // What fits goes whole, and one byte more goes in two pieces.
    let fits = usize::from(MTU) - 28;
    let before = namespaces::fragments(pair.host(0));
    assert!(comes_back(pair.host(0), place, &pattern(fits)));
    assert_eq!(namespaces::fragments(pair.host(0)), before);
    assert!(comes_back(pair.host(0), place, &pattern(fits + 1)));
    assert!(namespaces::fragments(pair.host(0)) >= before + 2);
    stop(pair.host(0), place);
}

/// A tunnel at each end of a narrow way, each knowing the other.
fn through(narrows: &Narrows, change: impl Fn(Settings) -> Settings) -> [Tunnel; 2] {
    let keys = [PrivateKey::generate(), PrivateKey::generate()];
    [0, 1].map(|end| {
        let settings = change(settings("tun", &keys[end], PORT));
        let tunnel = open(&narrows.ends[end], &settings, None).unwrap();
        Pair::give_address(&narrows.ends[end], end);
        set(
            &tunnel,
            &[Peer {
                public_key: keys[1 - end].public(),
                endpoint: Some(SocketAddr::new(outer(1 - end).into(), PORT)),
                allowed: vec![INNER[1 - end].into()],
                keepalive: None,
            }],
        );
        tunnel
    })
}

#[test]
fn large_requests_pass_where_the_way_is_narrow_and_nobody_says_so() {
    let narrows = Narrows::new("narrow", 1400);
    // Packets of these tunnels are 1500 bytes long on the way.
    let _tunnels = through(&narrows, |settings| Settings { mtu: 1440, ..settings });
    let [one, other] = &narrows.ends;
    for (from, to, at) in [(one, other, 1), (other, one, 0)] {
        requests(from, to, INNER[at], 64 << 10, 20);
        // Packets that go alone are sent in another way than trains.
        let place = echo(to, INNER[at]);
        assert!(comes_back(from, place, &pattern(1412)), "to {at}");
        stop(from, place);
    }
    assert!(narrows.cut() > 0, "the router had nothing to cut");
}

#[test]
fn probes_pass_whole_or_not_at_all() {
    for quiet in [true, false] {
        let narrows = Narrows::new("probe", 1300);
        if !quiet {
            narrows.speak();
        }
        let [one, other] = &narrows.ends;
        let place = SocketAddr::new(INNER[1].into(), 12345);
        let probes = Some(place.port());
        let _tunnels = through(&narrows, |settings| Settings { probes, ..settings });
        let socket = other.enter(|| UdpSocket::bind(place).unwrap());
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        assert!(comes_back(one, echo(other, INNER[1]), b"hello"));
        let passes = |packet: usize| {
            udp(one, LIMIT).send_to(&pattern(packet - 28), place).unwrap();
            let mut buffer = [0; 2000];
            socket.recv(&mut buffer).is_ok_and(|length| length == packet - 28)
        };
        // 60 bytes are added, and packets are filled up to multiples of 16.
        assert!(passes(1232), "quiet {quiet}");
        assert!(!passes(1248), "quiet {quiet}");
        assert!(!passes(1340), "quiet {quiet}");
        assert!(passes(300), "quiet {quiet}");
        assert_eq!(narrows.cut(), 0, "nobody cuts them");
        // Others still pass, in pieces.
        assert!(comes_back(one, echo(other, INNER[1]), &pattern(1312)), "quiet {quiet}");
    }
}

#[test]
fn sixteen_peers_cost_little() {
    let wire = Wire::new("many");
    let key = PrivateKey::generate();
    let hub = open(&wire.ends[0], &settings("tun", &key, PORT), None).unwrap();
    wire.ends[0].ip("address add 10.77.0.1/32 dev tun");
    wire.ends[0].ip("route add 10.77.0.0/16 dev tun");
    let before = namespaces::memory();
    let mut spokes = vec![];
    let mut peers = vec![];
    for number in 1..=16u8 {
        let spoke = PrivateKey::generate();
        let (name, address) = (format!("tun{number}"), Ipv4Addr::new(10, 77, number, 1));
        let port = PORT + u16::from(number);
        let tunnel = open(&wire.ends[1], &settings(&name, &spoke, port), None).unwrap();
        for line in [
            format!("address add {address}/32 dev {name}"),
            format!("route add 10.77.0.1/32 dev {name} table {}", 100 + u16::from(number)),
            format!("rule add from {address} table {}", 100 + u16::from(number)),
        ] {
            wire.ends[1].ip(&line);
        }
        set(
            &tunnel,
            &[Peer {
                public_key: key.public(),
                endpoint: Some(SocketAddr::new(outer(0).into(), PORT)),
                allowed: vec!["10.77.0.1/32".parse().unwrap()],
                keepalive: None,
            }],
        );
        spokes.push((tunnel, address));
        peers.push(Peer {
            public_key: spoke.public(),
            endpoint: Some(SocketAddr::new(outer(1).into(), port)),
            allowed: vec![format!("10.77.{number}.0/24").parse().unwrap()],
            keepalive: None,
        });
    }
    set(&hub, &peers);
    for (_, address) in &spokes {
        let place = echo(&wire.ends[1], *address);
        assert!(comes_back(&wire.ends[0], place, &pattern(1000)), "{address}");
        stop(&wire.ends[0], place);
    }
    let heard: Vec<PublicKey> = block_on(hub.peers())
        .unwrap()
        .into_iter()
        .filter(|peer| peer.received > 1000)
        .map(|peer| peer.public_key)
        .collect();
    assert_eq!(heard.len(), 16);
    let grown = namespaces::memory().saturating_sub(before);
    println!("a hub and sixteen spokes with a tunnel each: {grown} kB more");
    assert!(grown < 64 << 10, "{grown} kB");
}

#[test]
fn what_stands_in_the_way_is_named() {
    let namespace = Namespace::new("errors");
    let key = PrivateKey::generate();
    let said = |settings: &Settings, device: Option<&Path>| {
        let error = open(&namespace, settings, device).err().expect("it cannot be opened");
        (error.reason(), error.to_string())
    };

    let _taken = namespace.enter(|| UdpSocket::bind(("0.0.0.0", PORT)).unwrap());
    let (reason, text) = said(&settings("tun", &key, PORT), None);
    assert_eq!(reason, "PortUnavailable", "{text}");
    assert!(text.contains("5871"), "{text}");

    let (reason, text) = said(&settings("tun", &key, 0), Some(Path::new("/run/netns/lqt-none")));
    assert_eq!(reason, "NamespaceUnavailable", "{text}");
    assert!(text.contains("/run/netns/lqt-none"), "{text}");

    let (reason, text) = said(&settings("lo", &key, 0), None);
    assert_eq!(reason, "DeviceUnavailable", "{text}");

    let (reason, text) = said(&settings("much-too-long-a-name", &key, 0), None);
    assert_eq!(reason, "InvalidDeviceName", "{text}");

    let _first = open(&namespace, &settings("tun", &key, 0), None).unwrap();
    let (reason, text) = said(&settings("tun", &key, 0), None);
    assert_eq!(reason, "DeviceUnavailable", "{text}");
    assert!(text.contains("exists"), "{text}");
}

#[test]
fn a_kernel_without_wireguard_leaves_the_work_to_this_process() {
    let namespace = Namespace::new("auto");
    let key = PrivateKey::generate();
    let with = |implementation| Settings { implementation, ..settings("tun", &key, 0) };
    let kernel = open(&namespace, &with(Implementation::Kernel), None);
    let expected = match kernel {
        Ok(_) => Driver::Kernel,
        Err(Error::NoKernelSupport) => Driver::Userspace,
        Err(error) => panic!("{error}"),
    };
    drop(kernel);
    let tunnel = open(&namespace, &with(Implementation::Auto), None).unwrap();
    assert_eq!(tunnel.driver(), expected);
    assert!(namespace.has("tun"));
    drop(tunnel);
    assert!(namespace.loses("tun"));
}

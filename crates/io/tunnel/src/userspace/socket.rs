//! The UDP socket: trains of datagrams in and out, a system call each.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::socket::sockopt::{Ipv6V6Only, RcvBufForce, SndBufForce, UdpGroSegment};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    SockaddrStorage, bind, recvmsg, sendmsg, setsockopt, socket,
};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};

/// How much the kernel may keep for us, so that a burst is not lost while we are busy.
const KERNEL_BUFFER: usize = 4 << 20;

/// The most datagrams in one train, and the most bytes: what every kernel takes.
const MOST: usize = 64;
const MOST_BYTES: usize = 65_000;

/// A socket that speaks IPv4 and, where the machine does, IPv6.
pub(super) struct Socket {
    udp: UdpSocket,
    /// Whether IPv4 addresses have to be written as IPv6 ones.
    mapped: bool,
    /// Whether devices on the way out take trains.
    trains: AtomicBool,
}

/// What one call took from the socket: datagrams of one size, the last may be shorter.
pub(super) struct Arrival {
    pub(super) from: SocketAddr,
    pub(super) length: usize,
    pub(super) size: usize,
}

impl Socket {
    /// Listens on all addresses of the namespace of this thread.
    pub(super) fn listen(port: u16) -> io::Result<Self> {
        let everywhere = Ipv6Addr::UNSPECIFIED;
        let (udp, mapped) = match open(AddressFamily::Inet6, everywhere.into(), port) {
            Ok(udp) => (udp, true),
            Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL) => {
                (open(AddressFamily::Inet, [0, 0, 0, 0].into(), port)?, false)
            }
            Err(errno) => return Err(errno.into()),
        };
        // Without these it is slower, or loses more when it is late: no reason to give up.
        let _ = setsockopt(&udp, RcvBufForce, &KERNEL_BUFFER);
        let _ = setsockopt(&udp, SndBufForce, &KERNEL_BUFFER);
        let _ = setsockopt(&udp, UdpGroSegment, &true);
        // Routers may cut what is too long for the way. Otherwise it would have to be told to us, and
        // many a firewall keeps that back.
        let _ = set_ip_mtu_discover(&udp, Ipv4PathMtuDiscovery::DONT);
        Ok(Self { udp, mapped, trains: AtomicBool::new(true) })
    }

    /// Takes what arrived, if anything did.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        let mut control = [0u8; 64];
        let mut pieces = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let message = match recvmsg::<SockaddrStorage>(
            self.udp.as_raw_fd(),
            &mut pieces,
            Some(&mut control),
            flags,
        ) {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let length = message.bytes;
        let mut size = length;
        for note in message.cmsgs()? {
            if let ControlMessageOwned::UdpGroSegments(segment) = note {
                size = usize::try_from(segment).unwrap_or(length);
            }
        }
        let from = message.address.as_ref().and_then(address).ok_or(Errno::EAFNOSUPPORT)?;
        Ok(Some(Arrival { from, length, size: size.max(1) }))
    }

    /// Sends datagrams to one place, in order, in as few calls as possible.
    pub(super) fn send<P: AsRef<[u8]>>(&self, to: SocketAddr, datagrams: &[P]) -> io::Result<()> {
        self.send_some(to, datagrams, false).map(|_| ())
    }

    /// Sends datagrams that nobody may cut on the way: what is too long for it is lost.
    ///
    /// Only one thread sends long datagrams; to short ones of others it makes no difference.
    pub(super) fn send_whole<P: AsRef<[u8]>>(
        &self,
        to: SocketAddr,
        datagrams: &[P],
    ) -> io::Result<()> {
        set_ip_mtu_discover(&self.udp, Ipv4PathMtuDiscovery::PROBE)?;
        let sent = self.send(to, datagrams);
        set_ip_mtu_discover(&self.udp, Ipv4PathMtuDiscovery::DONT)?;
        sent
    }

    /// Sends those trains that nothing could be added to, and says how many datagrams they were.
    pub(super) fn send_full_trains<P: AsRef<[u8]>>(
        &self,
        to: SocketAddr,
        datagrams: &[P],
    ) -> io::Result<usize> {
        self.send_some(to, datagrams, true)
    }

    fn send_some<P: AsRef<[u8]>>(
        &self,
        to: SocketAddr,
        datagrams: &[P],
        only_full: bool,
    ) -> io::Result<usize> {
        let to = SockaddrStorage::from(self.written(to));
        let mut rest = datagrams;
        while let Some(first) = rest.first() {
            let size = first.as_ref().len();
            let trains = self.trains.load(Ordering::Relaxed);
            let count = if trains { train(rest) } else { 1 };
            if only_full && trains && count == rest.len() && count < most(size) {
                break;
            }
            let (now, later) = rest.split_at(count);
            self.send_train(&to, size, now)?;
            rest = later;
        }
        Ok(datagrams.len() - rest.len())
    }

    fn send_train<P: AsRef<[u8]>>(
        &self,
        to: &SockaddrStorage,
        size: usize,
        datagrams: &[P],
    ) -> io::Result<()> {
        let fd = self.udp.as_raw_fd();
        let one = |datagram: &P| {
            let pieces = [IoSlice::new(datagram.as_ref())];
            sendmsg(fd, &pieces, &[], MsgFlags::empty(), Some(to)).map(|_| ())
        };
        if let [datagram] = datagrams {
            return Ok(one(datagram)?);
        }
        let pieces: Vec<_> = datagrams.iter().map(|piece| IoSlice::new(piece.as_ref())).collect();
        let segment = u16::try_from(size).expect("datagrams of a train are short");
        let notes = [ControlMessage::UdpGsoSegments(&segment)];
        match sendmsg(fd, &pieces, &notes, MsgFlags::empty(), Some(to)) {
            Ok(_) => Ok(()),
            // The path takes only fragments of these, or the device does not take trains.
            Err(errno @ (Errno::EIO | Errno::EINVAL | Errno::EMSGSIZE | Errno::EOPNOTSUPP)) => {
                if errno == Errno::EIO && self.trains.swap(false, Ordering::Relaxed) {
                    tracing::warn!("No offload for UDP on the way out: datagrams go one by one");
                }
                Ok(datagrams.iter().try_for_each(one)?)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn written(&self, to: SocketAddr) -> SocketAddr {
        match to {
            SocketAddr::V4(v4) if self.mapped => {
                SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
            }
            SocketAddr::V4(_) | SocketAddr::V6(_) => to,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}

fn open(family: AddressFamily, address: IpAddr, port: u16) -> nix::Result<UdpSocket> {
    let fd = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    if family == AddressFamily::Inet6 {
        setsockopt(&fd, Ipv6V6Only, &false)?;
    }
    bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(address, port)))?;
    Ok(UdpSocket::from(fd))
}

/// How many datagrams at the front can go as one train: all of one size, the last may be shorter.
fn train<P: AsRef<[u8]>>(datagrams: &[P]) -> usize {
    let size = datagrams.first().map_or(0, |first| first.as_ref().len());
    let mut count = 0;
    for datagram in datagrams.iter().take(most(size)) {
        let length = datagram.as_ref().len();
        if length > size {
            break;
        }
        count += 1;
        if length < size {
            break;
        }
    }
    count
}

/// The most datagrams of a size in one train.
fn most(size: usize) -> usize {
    MOST.min(MOST_BYTES / size.max(1)).max(1)
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddr::new(v4.ip().into(), v4.port()));
    }
    let v6 = storage.as_sockaddr_in6()?;
    Some(match v6.ip().to_ipv4_mapped() {
        Some(v4) => SocketAddr::new(v4.into(), v6.port()),
        None => SocketAddrV6::new(v6.ip(), v6.port(), 0, v6.scope_id()).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(sizes: &[usize]) -> usize {
        let datagrams: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
        train(&datagrams)
    }

    #[test]
    fn a_train_is_of_one_size_and_only_its_end_is_shorter() {
        assert_eq!(sizes(&[]), 0);
        assert_eq!(sizes(&[100]), 1);
        assert_eq!(sizes(&[100, 100, 100]), 3);
        assert_eq!(sizes(&[100, 100, 60, 100]), 3);
        assert_eq!(sizes(&[100, 101]), 1);
    }

    #[test]
    fn a_train_is_no_longer_than_kernels_take() {
        assert_eq!(sizes(&[100; 200]), MOST);
        assert_eq!(sizes(&[1372; 200]), 47);
        assert_eq!(sizes(&[65_500; 2]), 1);
    }

    #[test]
    fn full_trains_go_and_the_rest_stays_to_be_added_to() {
        let socket = Socket::listen(0).unwrap();
        let to = socket.udp.local_addr().unwrap();
        let to = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), to.port());
        let datagrams = vec![vec![7; 1372]; 100];
        assert_eq!(socket.send_full_trains(to, &datagrams).unwrap(), 94);
        assert_eq!(socket.send_full_trains(to, &datagrams[..3]).unwrap(), 0);
        let mut short = datagrams[..3].to_vec();
        short[2].truncate(10);
        short.push(vec![7; 1372]);
        assert_eq!(socket.send_full_trains(to, &short).unwrap(), 3);
    }

    #[test]
    fn what_is_sent_as_a_train_arrives_whole_and_in_order() {
        let (one, other) = (Socket::listen(0).unwrap(), Socket::listen(0).unwrap());
        let port = other.udp.local_addr().unwrap().port();
        let datagrams: Vec<Vec<u8>> = (0..100u8).map(|number| vec![number; 1000]).collect();
        one.send(SocketAddr::new([127, 0, 0, 1].into(), port), &datagrams).unwrap();
        let mut buffer = vec![0; 65_536];
        let mut arrived = vec![];
        while let Some(arrival) = other.receive(&mut buffer).unwrap() {
            assert_eq!(arrival.from.ip(), IpAddr::from([127, 0, 0, 1]));
            arrived.extend(buffer[..arrival.length].chunks(arrival.size).map(<[u8]>::to_vec));
        }
        assert_eq!(arrived, datagrams);
    }
}

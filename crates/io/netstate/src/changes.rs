//! Notices when somebody touches what is ours, so that it can be repaired.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel's vocabulary grows with every release"
)]

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use liqo_fabric::nat::TABLE;
use liqo_fabric::owned::Scope;
use liqo_fabric::state::MAIN_TABLE;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{AsyncSocket as _, AsyncSocketExt as _, TokioSocket};
use rtnetlink::{MulticastGroup, new_multicast_connection};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::error::Error;
use crate::kernel::Kernel;

/// The group of those who want to hear of every change of the packet filter.
const FILTER_GROUP: u32 = 7;

const GROUPS: [MulticastGroup; 5] = [
    MulticastGroup::Link,
    MulticastGroup::Neigh,
    MulticastGroup::Ipv4Ifaddr,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv4Rule,
];

/// Changes of what is ours, by whomever; several may come as one.
pub struct Changes {
    touched: watch::Receiver<()>,
    _listening: JoinSet<()>,
}

impl Changes {
    /// Waits for the next one. It never comes when nobody listens any more.
    pub async fn next(&mut self) {
        if self.touched.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Kernel {
    /// Listens to changes of what is within a scope, and to cables that come and go.
    pub async fn changes(&self, scope: &Scope, also: &[&'static str]) -> Result<Changes, Error> {
        let (tell, touched) = watch::channel(());
        let mut listening = JoinSet::new();
        let fail = |source| Error::kernel("listen to changes in the kernel", source);
        let opened = self.namespace.run(|| new_multicast_connection(&GROUPS)).await?;
        let (connection, _, mut messages) = opened.map_err(fail)?;
        listening.spawn(connection);
        let mut ears = Ears { scope: scope.clone(), indexes: Arc::clone(&self.indexes) };
        ears.scope.links.extend(also);
        let tell_of_routes = tell.clone();
        listening.spawn(async move {
            while let Some((message, _)) = messages.next().await {
                let matters = match message.payload {
                    NetlinkPayload::InnerMessage(message) => ears.matters(&message),
                    // Something may have been missed.
                    NetlinkPayload::Overrun(_) | NetlinkPayload::Error(_) => true,
                    _ => false,
                };
                if matters {
                    tell_of_routes.send_replace(());
                }
            }
        });
        if scope.filter {
            let socket = self.namespace.run(filter_socket).await?.map_err(fail)?;
            listening.spawn(hear_filter(socket, tell));
        }
        Ok(Changes { touched, _listening: listening })
    }
}

fn filter_socket() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
    socket.socket_mut().bind_auto()?;
    socket.socket_ref().add_membership(FILTER_GROUP)?;
    Ok(socket)
}

async fn hear_filter(socket: TokioSocket, tell: watch::Sender<()>) {
    loop {
        match socket.recv_from_full().await {
            Ok((bytes, _)) if !is_about_us(&bytes) => {}
            // An error means that something was missed.
            Ok(_) => {
                tell.send_replace(());
            }
            Err(_) => {
                tell.send_replace(());
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Whether a message names our table: the first attribute of each that is about one.
fn is_about_us(bytes: &[u8]) -> bool {
    let length = u16::try_from(4 + TABLE.len() + 1).unwrap_or_default();
    let mut attribute = Vec::new();
    attribute.extend(length.to_ne_bytes());
    attribute.extend(1_u16.to_ne_bytes());
    attribute.extend(TABLE.as_bytes());
    attribute.push(0);
    bytes.windows(attribute.len()).any(|window| window == attribute)
}

/// Tells what matters from what does not.
struct Ears {
    scope: Scope,
    indexes: Arc<Mutex<BTreeSet<u32>>>,
}

impl Ears {
    fn matters(&self, message: &RouteNetlinkMessage) -> bool {
        match message {
            RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link) => {
                name(link).is_some_and(|name| self.scope.has_link(name))
            }
            RouteNetlinkMessage::NewAddress(address) | RouteNetlinkMessage::DelAddress(address) => {
                self.is_ours(address.header.index)
            }
            RouteNetlinkMessage::NewNeighbour(neighbour)
            | RouteNetlinkMessage::DelNeighbour(neighbour) => {
                self.is_ours(neighbour.header.ifindex)
            }
            RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
                self.leads(route)
            }
            RouteNetlinkMessage::NewRule(_) | RouteNetlinkMessage::DelRule(_) => {
                self.scope.table.is_some()
            }
            _ => false,
        }
    }

    fn leads(&self, route: &RouteMessage) -> bool {
        let (mut table, mut link) = (u32::from(route.header.table), None);
        for attribute in &route.attributes {
            match attribute {
                RouteAttribute::Table(number) => table = *number,
                RouteAttribute::Oif(index) => link = Some(*index),
                _ => {}
            }
        }
        let by_link = table == MAIN_TABLE && link.is_some_and(|link| self.is_ours(link));
        Some(table) == self.scope.table || by_link
    }

    fn is_ours(&self, index: u32) -> bool {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).contains(&index)
    }
}

fn name(link: &LinkMessage) -> Option<&str> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn our_table_is_heard_of_wherever_it_is_named(
            before in prop::collection::vec(any::<u8>(), 0..64),
            after in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let ours = [&9_u16.to_ne_bytes()[..], &1_u16.to_ne_bytes(), b"liqo\0"].concat();
            prop_assert!(is_about_us(&[&before[..], &ours, &after].concat()));
            let others = [&10_u16.to_ne_bytes()[..], &1_u16.to_ne_bytes(), b"liqos\0"].concat();
            prop_assert!(!is_about_us(&others));
            prop_assert!(!is_about_us(&before) || before.windows(5).any(|part| part == b"liqo\0"));
        }
    }
}

//! Reads what a namespace holds, within a scope.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel's vocabulary grows with every release"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use futures::{StreamExt as _, TryStreamExt as _};
use ipnet::Ipv4Net;
use liqo_fabric::owned::Scope;
use liqo_fabric::state::{Hop, Kind, Link, Mac, Rule, Side, State};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::AddressAttribute;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use rtnetlink::{IpVersion, RouteMessageBuilder};

use crate::error::Error;
use crate::kernel::Kernel;

/// What a namespace holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// What is ours.
    pub state: State,
    /// The hardware addresses of our interfaces.
    pub macs: BTreeMap<String, Mac>,
    /// The numbers of our interfaces.
    pub indexes: BTreeMap<String, u32>,
    /// The names of all interfaces.
    pub names: BTreeSet<String>,
}

/// The interface that carries an address of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// Its name.
    pub link: String,
    /// The largest packet it takes.
    pub mtu: u32,
    /// The networks it is on.
    pub networks: Vec<Ipv4Net>,
}

/// An interface as the kernel tells it.
struct Seen {
    index: u32,
    name: String,
    mtu: u32,
    mac: Option<Mac>,
    kind: Kind,
    arp: bool,
    up: bool,
}

impl Kernel {
    /// Reads what is ours; of settings, those that somebody asks for.
    pub async fn observe(
        &self,
        scope: &Scope,
        settings: &BTreeMap<String, String>,
    ) -> Result<Observed, Error> {
        let links = self.links().await?;
        let names: BTreeMap<u32, String> =
            links.iter().map(|link| (link.index, link.name.clone())).collect();
        let mut observed =
            Observed { names: names.values().cloned().collect(), ..Observed::default() };
        for link in links.into_iter().filter(|link| scope.has_link(&link.name)) {
            observed.indexes.insert(link.name.clone(), link.index);
            observed.macs.extend(link.mac.map(|mac| (link.name.clone(), mac)));
            let Seen { name, mtu, kind, arp, up, .. } = link;
            observed.state.links.insert(name, Link { kind, mtu, arp, up });
        }
        self.note_indexes(observed.indexes.values().copied().collect());
        let state = &mut observed.state;
        for (index, network) in self.addresses().await? {
            if let Some(name) = names.get(&index).filter(|name| scope.has_link(name)) {
                state.addresses.insert((name.clone(), network));
            }
        }
        self.neighbours(scope, &names, state).await?;
        self.routes(scope, &names, state).await?;
        self.rules(scope, state).await?;
        state.settings = self.settings(settings).await?;
        if scope.filter {
            state.filter = self.filter().await?;
        }
        Ok(observed)
    }

    /// The interface that carries an address.
    pub async fn uplink(&self, address: Ipv4Addr) -> Result<Option<Uplink>, Error> {
        let addresses = self.addresses().await?;
        let Some((index, _)) = addresses.iter().find(|(_, network)| network.addr() == address)
        else {
            return Ok(None);
        };
        let of_link = addresses.iter().filter(|(other, _)| other == index);
        let networks = of_link.map(|(_, network)| network.trunc()).collect();
        let link = self.links().await?.into_iter().find(|link| link.index == *index);
        Ok(link.map(|link| Uplink { link: link.name, mtu: link.mtu, networks }))
    }

    /// The number of an interface.
    pub async fn index(&self, name: &str) -> Result<Option<u32>, Error> {
        let links = self.links().await?;
        Ok(links.into_iter().find(|link| link.name == name).map(|link| link.index))
    }

    async fn links(&self) -> Result<Vec<Seen>, Error> {
        let read = || async {
            let links: Vec<LinkMessage> = self.netlink.link().get().execute().try_collect().await?;
            Ok::<_, rtnetlink::Error>(links)
        };
        let links = read().await.map_err(|error| Error::netlink("list interfaces", error))?;
        let beyond = match &self.beyond {
            Some(beyond) if links.iter().any(is_cable) => beyond.names().await?,
            Some(_) | None => BTreeMap::new(),
        };
        Ok(links.iter().map(|link| seen(link, &beyond)).collect())
    }

    async fn names(&self) -> Result<BTreeMap<u32, String>, Error> {
        let links: Vec<LinkMessage> = self
            .netlink
            .link()
            .get()
            .execute()
            .try_collect()
            .await
            .map_err(|error| Error::netlink("list interfaces", error))?;
        Ok(links.iter().map(|link| (link.header.index, name(link))).collect())
    }

    async fn addresses(&self) -> Result<Vec<(u32, Ipv4Net)>, Error> {
        let mut addresses = self.netlink.address().get().execute();
        let mut found = Vec::new();
        while let Some(message) = addresses.next().await {
            let message = message.map_err(|error| Error::netlink("list addresses", error))?;
            let local = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Local(IpAddr::V4(address)) => Some(*address),
                _ => None,
            });
            let length = message.header.prefix_len;
            if let Some(network) = local.and_then(|local| Ipv4Net::new(local, length).ok()) {
                found.push((message.header.index, network));
            }
        }
        Ok(found)
    }

    async fn neighbours(
        &self,
        scope: &Scope,
        names: &BTreeMap<u32, String>,
        state: &mut State,
    ) -> Result<(), Error> {
        for family in [AddressFamily::Inet, AddressFamily::Bridge] {
            let mut all = self.netlink.neighbours().get().set_address_family(family).execute();
            while let Some(message) = all.next().await {
                let message = message.map_err(|error| Error::netlink("list neighbours", error))?;
                let name = names.get(&message.header.ifindex);
                let Some(name) = name.filter(|name| scope.has_link(name)) else { continue };
                let Some((mac, address)) = mac_and_address(&message) else { continue };
                if family == AddressFamily::Bridge {
                    state.forwards.insert((name.clone(), mac, address));
                } else if message.header.state == NeighbourState::Permanent {
                    state.neighbours.insert((name.clone(), address), mac);
                }
            }
        }
        Ok(())
    }

    async fn routes(
        &self,
        scope: &Scope,
        names: &BTreeMap<u32, String>,
        state: &mut State,
    ) -> Result<(), Error> {
        let request = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let mut routes = self.netlink.route().get(request).execute();
        while let Some(route) = routes.next().await {
            let route = route.map_err(|error| Error::netlink("list routes", error))?;
            // Those that come with an address go with it.
            if route.header.protocol == RouteProtocol::Kernel {
                continue;
            }
            if let Some((table, to, hop)) = read_route(&route, names)
                && scope.has_route(table, &hop)
            {
                state.routes.insert((table, to), hop);
            }
        }
        Ok(())
    }

    async fn rules(&self, scope: &Scope, state: &mut State) -> Result<(), Error> {
        let mut rules = self.netlink.rule().get(IpVersion::V4).execute();
        while let Some(rule) = rules.next().await {
            let rule = rule.map_err(|error| Error::netlink("list rules", error))?;
            let rule = read_rule(&rule);
            if scope.has_rule(&rule) {
                state.rules.insert(rule);
            }
        }
        Ok(())
    }

    /// Reads settings of the kernel, by the paths of those that are asked for.
    pub(crate) async fn settings(
        &self,
        asked: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, Error> {
        let paths: Vec<String> = asked.keys().cloned().collect();
        if paths.is_empty() {
            return Ok(BTreeMap::new());
        }
        let read = move || {
            let values = paths.into_iter().filter_map(|path| {
                // One that is not there belongs to an interface that is not there.
                let value = fs::read_to_string(Path::new("/proc/sys").join(&path)).ok()?;
                Some((path, value.trim().to_owned()))
            });
            values.collect()
        };
        self.namespace.run(read).await
    }
}

fn seen(link: &LinkMessage, beyond: &BTreeMap<u32, String>) -> Seen {
    let (mut mtu, mut mac, mut other, mut info) = (0, None, None, &[][..]);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Mtu(value) => mtu = *value,
            LinkAttribute::Address(bytes) => mac = bytes.as_slice().try_into().ok().map(Mac),
            LinkAttribute::Link(index) => other = Some(*index),
            LinkAttribute::LinkInfo(infos) => info = infos,
            _ => {}
        }
    }
    let kind = if is_cable(link) {
        let peer = other.and_then(|index| beyond.get(&index)).cloned();
        Kind::Cable { peer: peer.unwrap_or_default() }
    } else {
        overlay(info).unwrap_or(Kind::Given)
    };
    let flags = link.header.flags;
    Seen {
        index: link.header.index,
        name: name(link),
        mtu,
        mac,
        kind,
        arp: !flags.contains(LinkFlags::Noarp),
        up: flags.contains(LinkFlags::Up),
    }
}

fn name(link: &LinkMessage) -> String {
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    });
    name.unwrap_or_default()
}

fn is_cable(link: &LinkMessage) -> bool {
    link.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.contains(&LinkInfo::Kind(InfoKind::Veth)),
        _ => false,
    })
}

/// An overlay of our making; one that learns is of somebody else's, and comes out as another.
fn overlay(info: &[LinkInfo]) -> Option<Kind> {
    let data = info.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::Vxlan(data)) => Some(data),
        _ => None,
    })?;
    let (mut vni, mut port, mut local) = (0, 0, Ipv4Addr::UNSPECIFIED);
    for info in data {
        match info {
            InfoVxlan::Id(id) => vni = *id,
            InfoVxlan::Port(number) => port = *number,
            InfoVxlan::Local(address) => local = *address,
            InfoVxlan::Learning(true) => return Some(Kind::Cable { peer: String::new() }),
            _ => {}
        }
    }
    Some(Kind::Overlay { vni, port, local })
}

fn mac_and_address(message: &NeighbourMessage) -> Option<(Mac, Ipv4Addr)> {
    let (mut mac, mut address) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => {
                mac = bytes.as_slice().try_into().ok().map(Mac);
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet(to)) => address = Some(*to),
            NeighbourAttribute::Destination(NeighbourAddress::Other(bytes)) => {
                address = <[u8; 4]>::try_from(bytes.as_slice()).ok().map(Ipv4Addr::from);
            }
            _ => {}
        }
    }
    mac.zip(address)
}

fn read_route(route: &RouteMessage, names: &BTreeMap<u32, String>) -> Option<(u32, Ipv4Net, Hop)> {
    let mut table = u32::from(route.header.table);
    let (mut to, mut via, mut link, mut mtu) = (Ipv4Addr::UNSPECIFIED, None, None, None);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(RouteAddress::Inet(address)) => to = *address,
            RouteAttribute::Gateway(RouteAddress::Inet(address)) => via = Some(*address),
            RouteAttribute::Oif(index) => link = names.get(index).cloned(),
            RouteAttribute::Metrics(metrics) => {
                mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) => Some(*mtu),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    let to = Ipv4Net::new(to, route.header.destination_prefix_length).ok()?;
    Some((table, to, Hop { via, link: link.unwrap_or_default(), mtu }))
}

fn read_rule(rule: &RuleMessage) -> Rule {
    let mut table = u32::from(rule.header.table);
    let (mut side, mut net) = (None, None);
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::Source(IpAddr::V4(address)) => {
                (side, net) = (Some(Side::From), Ipv4Net::new(*address, rule.header.src_len).ok());
            }
            RuleAttribute::Destination(IpAddr::V4(address)) => {
                (side, net) = (Some(Side::To), Ipv4Net::new(*address, rule.header.dst_len).ok());
            }
            _ => {}
        }
    }
    // One for all packets that leads to our table is ours to remove.
    let side = side.unwrap_or(Side::From);
    Rule { side, net: net.unwrap_or_default(), table }
}

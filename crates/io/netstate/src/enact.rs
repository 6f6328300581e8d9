//! Takes steps: the one place that changes the kernel.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use futures::StreamExt as _;
use ipnet::Ipv4Net;
use liqo_fabric::plan::Step;
use liqo_fabric::state::{Hop, Kind, Link, MAIN_TABLE, Mac, Rule, Side};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{
    AddressMessageBuilder, LinkMessageBuilder, LinkUnspec, LinkVeth, LinkVxlan, RouteMessageBuilder,
};

use crate::error::Error;
use crate::kernel::Kernel;

impl Kernel {
    /// Takes one step.
    pub(crate) async fn enact(&self, step: &Step) -> Result<(), Error> {
        let fail = |error| Error::netlink(step.to_string(), error);
        match step {
            Step::RemoveRule(rule) => {
                self.netlink.rule().del(rule_message(rule)).execute().await.map_err(fail)
            }
            Step::AddRule(rule) => {
                let mut request = self.netlink.rule().add();
                *request.message_mut() = rule_message(rule);
                request.execute().await.map_err(fail)
            }
            Step::RemoveRoute { table, to, hop } => {
                let route = self.route_message(*table, *to, hop, false).await?;
                self.netlink.route().del(route).execute().await.map_err(fail)
            }
            Step::AddRoute { table, to, hop } => {
                let route = self.route_message(*table, *to, hop, true).await?;
                self.netlink.route().add(route).execute().await.map_err(fail)
            }
            Step::ChangeRoute { table, to, hop } => {
                let route = self.route_message(*table, *to, hop, true).await?;
                self.netlink.route().add(route).replace().execute().await.map_err(fail)
            }
            Step::RemoveForward { link, mac, node } => {
                let message = self.forward_message(link, *mac, *node).await?;
                self.netlink.neighbours().del(message).execute().await.map_err(fail)
            }
            Step::AddForward { link, mac, node } => {
                let message = self.forward_message(link, *mac, *node).await?;
                // Everybody gets what is for everybody; one address is at one node.
                let how = if *mac == Mac::default() { NLM_F_APPEND } else { NLM_F_REPLACE };
                self.request(RouteNetlinkMessage::NewNeighbour(message), how | NLM_F_CREATE)
                    .await
                    .map_err(fail)
            }
            Step::RemoveNeighbour { link, address } => {
                let mut message = NeighbourMessage::default();
                message.header.family = AddressFamily::Inet;
                message.header.ifindex = self.index_of(link).await?;
                message
                    .attributes
                    .push(NeighbourAttribute::Destination(NeighbourAddress::Inet(*address)));
                self.netlink.neighbours().del(message).execute().await.map_err(fail)
            }
            Step::SetNeighbour { link, address, mac } => {
                let index = self.index_of(link).await?;
                let request = self.netlink.neighbours().add(index, IpAddr::V4(*address));
                request.link_layer_address(&mac.0).replace().execute().await.map_err(fail)
            }
            Step::RemoveAddress { link, address } => {
                let message = AddressMessageBuilder::<Ipv4Addr>::new()
                    .index(self.index_of(link).await?)
                    .address(address.addr(), address.prefix_len())
                    .build();
                self.netlink.address().del(message).execute().await.map_err(fail)
            }
            Step::AddAddress { link, address } => {
                let (index, length) = (self.index_of(link).await?, address.prefix_len());
                let request = self.netlink.address().add(index, address.addr().into(), length);
                request.execute().await.map_err(fail)
            }
            Step::RemoveLink(name) => {
                let index = self.index_of(name).await?;
                self.netlink.link().del(index).execute().await.map_err(fail)
            }
            Step::AddLink { name, link } => {
                let Some(message) = self.link_message(name, link) else { return Ok(()) };
                self.netlink.link().add(message).execute().await.map_err(fail)
            }
            Step::ChangeLink { name, link } => {
                let change = LinkUnspec::new_with_index(self.index_of(name).await?).mtu(link.mtu);
                let change = if link.up { change.up() } else { change.down() };
                let change = if link.kind == Kind::Given { change } else { change.arp(link.arp) };
                self.netlink.link().set(change.build()).execute().await.map_err(fail)
            }
            Step::Set { path, value } => self.set(path, value).await,
            Step::LoadFilter(filter) => self.load_filter(filter).await,
            Step::RemoveFilter => self.remove_filter().await,
            Step::ForgetFlows(mark) => self.forget_flows(*mark).await,
        }
    }

    async fn index_of(&self, name: &str) -> Result<u32, Error> {
        let index = self.index(name).await?;
        index.ok_or_else(|| {
            let source = std::io::Error::new(std::io::ErrorKind::NotFound, "there is none");
            Error::kernel(format!("find the interface {name}"), source)
        })
    }

    fn link_message(&self, name: &str, link: &Link) -> Option<LinkMessage> {
        let Link { kind, mtu, arp, up } = link;
        let message = match kind {
            Kind::Cable { peer } => {
                let mut other = LinkMessageBuilder::<LinkUnspec>::new().name(peer.clone());
                other = other.mtu(*mtu).arp(*arp);
                if let Some(beyond) = &self.beyond {
                    let file = beyond.namespace.file().as_raw_fd();
                    other = other.append_extra_attribute(LinkAttribute::NetNsFd(file));
                }
                let data = InfoData::Veth(InfoVeth::Peer(other.build()));
                let cable = LinkVeth::new(name, peer).set_info_data(data).mtu(*mtu).arp(*arp);
                if *up { cable.up().build() } else { cable.build() }
            }
            Kind::Overlay { vni, port, local } => {
                let overlay = LinkVxlan::new(name, *vni).port(*port).local(*local);
                let overlay = overlay.learning(false).mtu(*mtu).arp(*arp);
                if *up { overlay.up().build() } else { overlay.build() }
            }
            Kind::Given => return None,
        };
        Some(message)
    }

    async fn route_message(
        &self,
        table: u32,
        to: Ipv4Net,
        hop: &Hop,
        is_new: bool,
    ) -> Result<RouteMessage, Error> {
        let mut route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(to.addr(), to.prefix_len())
            .table_id(table);
        // One that leads nowhere any more has no interface.
        if !hop.link.is_empty() {
            route = route.output_interface(self.index_of(&hop.link).await?);
        }
        if let Some(via) = hop.via {
            route = route.gateway(via);
            if is_new && table != MAIN_TABLE {
                // Whoever is asked for the way to it, it is there.
                route = route.onlink();
            }
        } else if is_new {
            route = route.scope(RouteScope::Link);
        }
        let mut route = route.build();
        if let Some(mtu) = hop.mtu.filter(|_| is_new) {
            route.attributes.push(RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)]));
        }
        if !is_new {
            // Whoever made it, and however.
            route.header.scope = RouteScope::NoWhere;
            route.header.protocol = RouteProtocol::Unspec;
            route.header.kind = RouteType::Unspec;
        }
        Ok(route)
    }

    async fn forward_message(
        &self,
        link: &str,
        mac: Mac,
        node: Ipv4Addr,
    ) -> Result<NeighbourMessage, Error> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Bridge;
        message.header.ifindex = self.index_of(link).await?;
        message.header.state = NeighbourState::Permanent;
        message.header.flags = NeighbourFlags::Own;
        message.attributes = vec![
            NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()),
            NeighbourAttribute::Destination(NeighbourAddress::Inet(node)),
        ];
        Ok(message)
    }

    async fn request(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), rtnetlink::Error> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut answers = self.netlink.clone().request(request)?;
        while let Some(answer) = answers.next().await {
            if let NetlinkPayload::Error(error) = answer.payload
                && error.code.is_some()
            {
                return Err(rtnetlink::Error::NetlinkError(error));
            }
        }
        Ok(())
    }

    async fn set(&self, path: &str, value: &str) -> Result<(), Error> {
        let (file, text) = (Path::new("/proc/sys").join(path), value.to_owned());
        let written = self.namespace.run(move || fs::write(file, text)).await?;
        let action = || format!("set {} to {value}", path.replace('/', "."));
        written.map_err(|source| Error::kernel(action(), source))
    }
}

fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.action = RuleAction::ToTable;
    message.attributes.push(RuleAttribute::Table(rule.table));
    let (address, length) = (IpAddr::V4(rule.net.addr()), rule.net.prefix_len());
    match rule.side {
        Side::From => {
            message.header.src_len = length;
            message.attributes.push(RuleAttribute::Source(address));
        }
        Side::To => {
            message.header.dst_len = length;
            message.attributes.push(RuleAttribute::Destination(address));
        }
    }
    message
}

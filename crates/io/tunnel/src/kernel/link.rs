//! The network device itself: made, moved, set up, removed.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;

use super::netlink::ask;
use crate::error::errno;

/// Makes a WireGuard device.
pub(super) fn create(name: &str) -> io::Result<()> {
    let mut link = named(name);
    link.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Wireguard)]));
    change(NLM_F_CREATE | NLM_F_EXCL, RouteNetlinkMessage::NewLink(link))
}

/// Moves a device to the namespace that a file stands for.
pub(super) fn move_to(name: &str, namespace: &impl AsFd) -> io::Result<()> {
    let mut link = named(name);
    link.attributes.push(LinkAttribute::NetNsFd(namespace.as_fd().as_raw_fd()));
    change(0, RouteNetlinkMessage::SetLink(link))
}

/// Sets a device up, which is when WireGuard begins to listen.
pub(super) fn set_up(name: &str, mtu: u16) -> io::Result<()> {
    let mut link = named(name);
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    link.attributes.push(LinkAttribute::Mtu(u32::from(mtu)));
    change(0, RouteNetlinkMessage::SetLink(link))
}

/// Removes a device; one that is gone already is no failure.
pub(super) fn remove(name: &str) -> io::Result<()> {
    match change(0, RouteNetlinkMessage::DelLink(named(name))) {
        Err(error) if errno(&error) == Some(Errno::ENODEV) => Ok(()),
        result => result,
    }
}

/// Whether there is a device with this name, and WireGuard's.
pub(super) fn is_wireguard(name: &str) -> io::Result<bool> {
    let answers = match ask(NETLINK_ROUTE, 0, RouteNetlinkMessage::GetLink(named(name))) {
        Err(error) if errno(&error) == Some(Errno::ENODEV) => return Ok(false),
        answers => answers?,
    };
    let is_ours =
        |answer: &_| matches!(answer, RouteNetlinkMessage::NewLink(link) if has_kind(link));
    Ok(answers.iter().any(is_ours))
}

fn has_kind(link: &LinkMessage) -> bool {
    let ours = |info: &LinkInfo| matches!(info, LinkInfo::Kind(InfoKind::Wireguard));
    let mut attributes = link.attributes.iter();
    attributes.any(
        |attribute| matches!(attribute, LinkAttribute::LinkInfo(infos) if infos.iter().any(ours)),
    )
}

fn named(name: &str) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(name.to_owned()));
    link
}

fn change(flags: u16, message: RouteNetlinkMessage) -> io::Result<()> {
    ask(NETLINK_ROUTE, flags, message).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_of_the_loopback_device_that_it_is_not_wireguards() {
        assert!(!is_wireguard("lo").unwrap());
    }

    #[test]
    fn a_device_that_does_not_exist_is_not_wireguards_and_is_removed() {
        assert!(!is_wireguard("lqtnone").unwrap());
        remove("lqtnone").unwrap();
    }
}

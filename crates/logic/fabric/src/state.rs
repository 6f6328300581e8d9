//! What one network namespace holds, as a value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use ipnet::Ipv4Net;

/// The routing table that every packet passes.
pub const MAIN_TABLE: u32 = 254;

/// What a network namespace holds, or has to hold, of the fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Interfaces, by name.
    pub links: BTreeMap<String, Link>,
    /// Addresses of interfaces.
    pub addresses: BTreeSet<(String, Ipv4Net)>,
    /// Hardware addresses of neighbours that are told rather than asked for, by interface.
    pub neighbours: BTreeMap<(String, Ipv4Addr), Mac>,
    /// Where an overlay finds hardware addresses: interface, hardware address, node.
    pub forwards: BTreeSet<(String, Mac, Ipv4Addr)>,
    /// Ways to networks, by table and network.
    pub routes: BTreeMap<(u32, Ipv4Net), Hop>,
    /// Which packets look into which table.
    pub rules: BTreeSet<Rule>,
    /// Settings of the kernel, by their path below `/proc/sys`.
    pub settings: BTreeMap<String, String>,
    /// The table of the packet filter.
    pub filter: Option<Filter>,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// What it is.
    pub kind: Kind,
    /// The largest packet it takes.
    pub mtu: u32,
    /// Whether it asks for hardware addresses.
    pub arp: bool,
    /// Whether it is in use.
    pub up: bool,
}

/// What an interface is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One end of a cable whose other end, of this name, is in the other namespace.
    Cable {
        /// The other end.
        peer: String,
    },
    /// An overlay between nodes.
    Overlay {
        /// Its network identifier.
        vni: u32,
        /// Its UDP port.
        port: u16,
        /// The address of this node.
        local: Ipv4Addr,
    },
    /// Made and removed by somebody else, such as the device of a tunnel.
    Given,
}

/// The way to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The next machine; none for networks on the interface itself.
    pub via: Option<Ipv4Addr>,
    /// The interface.
    pub link: String,
    /// The largest packet that passes there, where it is less than the interface takes.
    pub mtu: Option<u32>,
}

/// A rule that has packets look into a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Which packets.
    pub side: Side,
    /// The network that they come from, or go to.
    pub net: Ipv4Net,
    /// The table.
    pub table: u32,
}

/// Which address of a packet counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Its source.
    From,
    /// Its destination.
    To,
}

/// A table of the packet filter, which is replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Stands for all of the script.
    pub digest: String,
    /// The marks of connections that the script translates; those of other marks are stale.
    pub flows: BTreeSet<u32>,
    /// The script; of a table that was read from the kernel, nothing.
    pub script: String,
}

/// A hardware address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

/// A text that is no hardware address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a hardware address such as 9a:39:ac:8e:85:83")]
pub struct NoMac(String);

impl Hop {
    /// Straight out of an interface.
    pub fn out_of(link: &str) -> Self {
        Self { via: None, link: link.to_owned(), mtu: None }
    }

    /// Through another machine.
    pub fn through(via: Ipv4Addr, link: &str) -> Self {
        Self { via: Some(via), ..Self::out_of(link) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.map(|byte| format!("{byte:02x}")).join(":"))
    }
}

impl FromStr for Mac {
    type Err = NoMac;

    fn from_str(text: &str) -> Result<Self, NoMac> {
        let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
        let bytes: Option<Vec<u8>> = bytes.collect();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(NoMac(text.to_owned()))
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.via {
            Some(via) => write!(f, "via {via} dev {}", self.link)?,
            None => write!(f, "dev {}", self.link)?,
        }
        self.mtu.map_or(Ok(()), |mtu| write!(f, " mtu {mtu}"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::From => "from",
            Side::To => "to",
        };
        write!(f, "{side} {} lookup {}", self.net, self.table)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Cable { peer } => write!(f, "cable to {peer}")?,
            Kind::Overlay { vni, port, local } => {
                write!(f, "overlay {vni} on {local}, port {port}")?;
            }
            Kind::Given => f.write_str("as it is")?,
        }
        write!(f, ", mtu {}", self.mtu)?;
        f.write_str(if self.arp { "" } else { ", arp off" })?;
        f.write_str(if self.up { ", up" } else { ", down" })
    }
}

impl State {
    /// The setting that belongs to one interface.
    pub fn setting_of(link: &str, name: &str) -> String {
        format!("net/ipv4/conf/{link}/{name}")
    }

    /// Forgets what goes when an interface goes.
    pub fn forget_link(&mut self, name: &str) {
        self.links.remove(name);
        self.addresses.retain(|(link, _)| link != name);
        self.neighbours.retain(|(link, _), _| link != name);
        self.forwards.retain(|(link, _, _)| link != name);
        self.routes.retain(|_, hop| hop.link != name);
        let prefix = Self::setting_of(name, "");
        self.settings.retain(|path, _| !path.starts_with(&prefix));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_hardware_address_is_refused_with_an_example() {
        for text in ["", "9a:39:ac:8e:85", "9a:39:ac:8e:85:83:00", "9a:39:ac:8e:85:gg", "1"] {
            let error = text.parse::<Mac>().unwrap_err().to_string();
            assert!(error.ends_with("is not a hardware address such as 9a:39:ac:8e:85:83"));
        }
    }

    proptest! {
        #[test]
        fn a_hardware_address_reads_as_it_was_written(bytes: [u8; 6]) {
            prop_assert_eq!(Mac(bytes).to_string().parse(), Ok(Mac(bytes)));
        }
    }
}

//! Names that are checked once, when they arrive, and valid from then on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The longest name that fits a DNS label, a namespace or the value of a label.
const LONGEST_LABEL: usize = 63;
/// The longest name of an object.
const LONGEST_SUBDOMAIN: usize = 253;
/// The hexadecimal digits that tell apart what has the same name, or begins with it.
const HASH_DIGITS: usize = 6;

const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

const LABEL_RULE: &str =
    "it has 1 to 63 lower-case letters, digits and hyphens, and no hyphen at either end";
const UUID_RULE: &str =
    "it reads like 2cb4110a-c5e6-4a52-851d-d0e0d86c9174, in lower-case hexadecimal digits";
const SUBDOMAIN_RULE: &str = concat!(
    "it has 1 to 253 characters: parts of lower-case letters, digits and inner hyphens, ",
    "with dots between them",
);
const UNIQUE_RULE: &str =
    "it reads like milan-ee0b4a: a cluster name, a hyphen and 6 lower-case hexadecimal digits";
const TENANT_RULE: &str = concat!(
    "it has 1 to 63 lower-case letters, digits and hyphens, and no hyphen at either end; ",
    "a cluster name of at most 44 characters leads to one",
);
const VIRTUAL_NODE_RULE: &str = concat!(
    "it has 1 to 63 characters: parts of lower-case letters, digits and inner hyphens, ",
    "with dots between them; a cluster name of at most 58 characters leads to one",
);

/// A text that is not the name it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {what}: {rule}")]
pub struct InvalidName {
    text: String,
    what: &'static str,
    rule: &'static str,
}

/// Declares a name: its documentation, its type, what a user calls it, its test and its rule.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $is_valid:expr, $rule:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                if $is_valid(&text) {
                    Ok(Self(text))
                } else {
                    Err(InvalidName { text, what: $what, rule: $rule })
                }
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                text.to_owned().try_into()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// Identifies a cluster among all others, for as long as it lives.
    ClusterId, "a cluster ID", is_uuid, UUID_RULE
}

name! {
    /// Names a cluster for people; two clusters may have the same.
    ClusterName, "a cluster name", is_label, LABEL_RULE
}

name! {
    /// A cluster's name made unique with a digest of its identifier.
    UniqueName, "the unique name of a cluster", is_unique_name, UNIQUE_RULE
}

name! {
    /// A namespace.
    NamespaceName, "a namespace", is_label, LABEL_RULE
}

name! {
    /// The namespace in which a cluster exchanges objects with one peer.
    ///
    /// Peers choose the name at their end, so it need not follow the pattern of ours.
    TenantNamespace, "a tenant namespace", is_label, TENANT_RULE
}

name! {
    /// A node.
    NodeName, "a node name", |text| is_subdomain(text, LONGEST_SUBDOMAIN), SUBDOMAIN_RULE
}

name! {
    /// The node that stands for another cluster; short enough to be its own host name label.
    VirtualNodeName,
    "the name of a virtual node",
    |text| is_subdomain(text, LONGEST_LABEL),
    VIRTUAL_NODE_RULE
}

impl ClusterId {
    /// The part before the first hyphen, for places where the whole does not fit.
    pub fn first_block(&self) -> &str {
        self.0.split('-').next().unwrap_or_default()
    }

    /// The digits that make a cluster's name unique.
    fn digest(&self) -> String {
        let digest: String =
            Sha256::digest(&self.0).iter().map(|byte| format!("{byte:02x}")).collect();
        digest.chars().take(HASH_DIGITS).collect()
    }
}

/// Who a cluster is: what programs and what people call it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cluster {
    /// What programs call it.
    pub id: ClusterId,
    /// What people call it.
    pub name: ClusterName,
}

impl Cluster {
    /// The name that no other cluster has.
    pub fn unique_name(&self) -> UniqueName {
        UniqueName(format!("{}-{}", self.name, self.id.digest()))
    }

    /// The namespace that is kept for this cluster by its peers.
    pub fn tenant_namespace(&self) -> Result<TenantNamespace, InvalidName> {
        format!("liqo-tenant-{}", self.unique_name()).try_into()
    }

    /// The node that stands for this cluster at its peers.
    pub fn virtual_node(&self) -> Result<VirtualNodeName, InvalidName> {
        format!("liqo-{}", self.name).try_into()
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.id)
    }
}

fn is_uuid(text: &str) -> bool {
    let is_hex = |group: &str| group.bytes().all(is_hex_digit);
    text.split('-').map(str::len).eq(UUID_GROUPS) && text.split('-').all(is_hex)
}

fn is_hex_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// A name as the value of a label, which has less room than names of objects have.
pub fn label_value(name: &str) -> String {
    fitted(name, LONGEST_LABEL)
}

/// A name that is no longer than there is room for, and unlike those of others: where it is cut, digits
/// of its digest stand for the rest.
pub fn fitted(name: &str, room: usize) -> String {
    if name.len() <= room {
        return name.to_owned();
    }
    let digest: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    let digest: String = digest.chars().take(HASH_DIGITS).collect();
    let kept: String = name.chars().take(room.saturating_sub(HASH_DIGITS + 1)).collect();
    format!("{}-{digest}", kept.trim_end_matches(['-', '.']))
}

fn is_label(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && is_part(text)
}

fn is_subdomain(text: &str, longest: usize) -> bool {
    text.len() <= longest && text.split('.').all(is_part)
}

/// What stands between two dots: letters and digits, with hyphens only inside.
fn is_part(text: &str) -> bool {
    let is_alphanumeric = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    text.bytes().all(|byte| is_alphanumeric(byte) || byte == b'-')
        && text.bytes().next().is_some_and(is_alphanumeric)
        && text.bytes().next_back().is_some_and(is_alphanumeric)
}

fn is_unique_name(text: &str) -> bool {
    text.rsplit_once('-').is_some_and(|(name, digest)| {
        is_label(name) && digest.len() == HASH_DIGITS && digest.bytes().all(is_hex_digit)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
    const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    #[test]
    fn a_unique_name_ends_in_the_digest_that_peers_compute_too() {
        assert_eq!(cluster(ROME, "rome").unique_name().as_str(), "rome-2f55ef");
        assert_eq!(cluster(MILAN, "milan").unique_name().as_str(), "milan-ee0b4a");
    }

    #[test]
    fn a_name_that_is_too_long_for_a_label_is_cut_and_stays_apart() {
        assert_eq!(label_value("web-0"), "web-0");
        let long = |end: char| format!("{}.{}{end}", "x".repeat(55), "y".repeat(20));
        let values = ['a', 'b'].map(|end| label_value(&long(end)));
        assert_ne!(values[0], values[1]);
        assert!(values.iter().all(|value| is_label(value)), "{values:?}");
    }

    #[test]
    fn what_is_kept_for_a_cluster_is_named_after_it() {
        let rome = cluster(ROME, "rome");

        assert_eq!(rome.tenant_namespace().unwrap().as_str(), "liqo-tenant-rome-2f55ef");
        assert_eq!(rome.virtual_node().unwrap().as_str(), "liqo-rome");
        assert_eq!(rome.to_string(), format!("rome ({ROME})"));
    }

    #[test]
    fn a_cluster_name_may_be_too_long_to_derive_others_from() {
        let named = |length: usize| cluster(ROME, &"a".repeat(length));

        assert!(named(44).tenant_namespace().is_ok());
        assert!(named(45).tenant_namespace().is_err());
        assert!(named(58).virtual_node().is_ok());
        assert!(named(59).virtual_node().is_err());
    }

    #[test]
    fn an_identifier_is_a_uuid_in_lower_case() {
        assert_eq!(ROME.parse::<ClusterId>().unwrap().first_block(), "41543714");
        for wrong in ["", "rome", &ROME.to_uppercase(), &ROME.replace('-', ""), &ROME[1..]] {
            assert!(wrong.parse::<ClusterId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cluster_name_is_a_dns_label() {
        for right in ["a", "0", "eu-west-1", &"x".repeat(63)] {
            assert!(right.parse::<ClusterName>().is_ok(), "{right}");
        }
        for wrong in ["", "-a", "a-", "Rome", "a.b", "a_b", "città", &"x".repeat(64)] {
            assert!(wrong.parse::<ClusterName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_node_name_may_have_dots() {
        assert!("ip-10-0-0-1.eu.internal".parse::<NodeName>().is_ok());
        assert!("a..b".parse::<NodeName>().is_err());
        assert!("a.-b".parse::<NodeName>().is_err());
    }

    #[test]
    fn a_refusal_says_what_would_be_right() {
        assert_eq!(
            "Rome".parse::<ClusterName>().unwrap_err().to_string(),
            "'Rome' is not a cluster name: it has 1 to 63 lower-case letters, digits and hyphens, \
             and no hyphen at either end"
        );
    }

    #[test]
    fn a_name_is_checked_when_it_is_read() {
        assert!(serde_json::from_str::<ClusterName>(r#""rome""#).is_ok());
        assert!(serde_json::from_str::<ClusterName>(r#""Rome""#).is_err());
    }

    proptest! {
        #[test]
        fn a_name_prints_as_it_was_read(name in "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?") {
            let parsed: ClusterName = name.parse().unwrap();

            prop_assert_eq!(parsed.to_string(), name.clone());
            prop_assert_eq!(serde_json::to_value(&parsed).unwrap(), name);
        }

        #[test]
        fn no_text_is_a_name_against_the_rule(text: String) {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let is_label = (1..=63).contains(&text.chars().count())
                && text.chars().all(is_plain)
                && !text.starts_with('-')
                && !text.ends_with('-');

            prop_assert_eq!(text.parse::<ClusterName>().is_ok(), is_label);
        }

        #[test]
        fn every_cluster_has_a_valid_unique_name(
            id in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            name in "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        ) {
            let unique = cluster(&id, &name).unique_name();

            prop_assert_eq!(unique.as_str().parse::<UniqueName>(), Ok(unique.clone()));
        }

        #[test]
        fn what_is_derived_from_a_short_name_is_valid(
            id in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            name in "[a-z0-9]([-a-z0-9]{0,42}[a-z0-9])?",
        ) {
            let cluster = cluster(&id, &name);

            prop_assert!(cluster.tenant_namespace().is_ok());
            prop_assert!(cluster.virtual_node().is_ok());
        }
    }

    fn cluster(id: &str, name: &str) -> Cluster {
        Cluster { id: id.parse().unwrap(), name: name.parse().unwrap() }
    }
}

//! Who gets how much, as a ConfigMap says it.

use std::collections::{BTreeMap, BTreeSet};

use liqo_sharing::quantity::Quantity;

/// The key of what everybody gets who is not named.
const DEFAULT: &str = "default";

/// Amounts as Kubernetes writes them, by the names of resources.
pub type Share = BTreeMap<String, String>;

/// Who gets how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    default: Share,
    clusters: BTreeMap<String, Share>,
}

/// A ConfigMap does not say who gets how much.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A share is not a list of amounts.
    #[error("the share of {0} is no map of resources to amounts")]
    Shape(String, #[source] Box<serde_saphyr::Error>),
    /// An amount is none.
    #[error(
        "'{text}' is no amount of {resource}; the share of {whose} needs one such as 2 or 500Mi"
    )]
    Amount {
        /// Whose share.
        whose: String,
        /// Of what.
        resource: String,
        /// What stands there.
        text: String,
    },
}

impl Shares {
    /// Reads the data of a ConfigMap: a share for each cluster ID, and one called `default`.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, Error> {
        let mut shares = Self::default();
        for (whose, text) in data {
            let share: Share = serde_saphyr::from_str(text)
                .map_err(|error| Error::Shape(whose.clone(), Box::new(error)))?;
            for (resource, text) in &share {
                if text.parse::<Quantity>().is_err() {
                    let (whose, resource) = (whose.clone(), resource.clone());
                    return Err(Error::Amount { whose, resource, text: text.clone() });
                }
            }
            if whose == DEFAULT {
                shares.default = share;
            } else {
                shares.clusters.insert(whose.clone(), share);
            }
        }
        Ok(shares)
    }

    /// The share of a cluster.
    pub fn of(&self, cluster: &str) -> &Share {
        self.clusters.get(cluster).unwrap_or(&self.default)
    }

    /// The clusters whose share is another than before; an empty name stands for all.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        if self.default != before.default {
            return vec![String::new()];
        }
        let named: BTreeSet<&String> = self.clusters.keys().chain(before.clusters.keys()).collect();
        let differs = |cluster: &&String| self.of(cluster) != before.of(cluster);
        named.into_iter().filter(differs).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(data: &[(&str, &str)]) -> Result<Shares, Error> {
        let text = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Shares::parse(&data.iter().map(text).collect())
    }

    #[test]
    fn a_cluster_without_a_share_gets_the_default() {
        let shares = shares(&[("default", "cpu: 1"), ("rome", "cpu: 4\nmemory: 8Gi")]).unwrap();
        assert_eq!(shares.of("rome")["memory"], "8Gi");
        assert_eq!(shares.of("venice")["cpu"], "1");
    }

    #[test]
    fn what_is_no_amount_is_named() {
        let error = shares(&[("rome", "cpu: lots")]).unwrap_err().to_string();
        assert_eq!(
            error,
            "'lots' is no amount of cpu; the share of rome needs one such as 2 or 500Mi"
        );
        assert!(shares(&[("rome", "- cpu")]).is_err());
    }

    #[test]
    fn only_those_are_told_whose_share_changed() {
        let before = shares(&[("default", "cpu: 1"), ("rome", "cpu: 4")]).unwrap();
        let after = shares(&[("default", "cpu: 1"), ("rome", "cpu: 5"), ("milan", "cpu: 1")]);
        assert_eq!(after.unwrap().changed_since(&before), ["rome"]);
        let after = shares(&[("default", "cpu: 2"), ("rome", "cpu: 4")]).unwrap();
        assert_eq!(after.changed_since(&before), [""]);
        assert!(before.changed_since(&before).is_empty());
    }
}

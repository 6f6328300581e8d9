//! What a namespace is called in other clusters.
//!
//! `DefaultName` adds the unique name of the home cluster. Where that would be longer than a
//! namespace may be, the namespace's own name is cut and six digits of its digest stand for the
//! rest, so that two long names that begin alike stay two names. The name follows from the two
//! names alone, so it is the same whenever it is computed.

use liqo_api::names::{Cluster, InvalidName, NamespaceName, fitted};
use liqo_api::offloading::NamespaceMappingStrategy;

/// The longest name of a namespace.
const LONGEST: usize = 63;

/// The name of a namespace in other clusters.
///
/// It cannot be told of a home cluster whose own name leaves no room; such a cluster cannot peer
/// either, because no tenant namespace can be named after it.
pub fn remote(
    namespace: &str,
    strategy: NamespaceMappingStrategy,
    home: &Cluster,
) -> Result<NamespaceName, InvalidName> {
    match strategy {
        NamespaceMappingStrategy::EnforceSameName => namespace.parse(),
        NamespaceMappingStrategy::DefaultName => {
            let home = home.unique_name();
            let room = LONGEST.saturating_sub(home.as_str().len() + 1);
            format!("{}-{home}", fitted(namespace, room)).parse()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use NamespaceMappingStrategy::{DefaultName, EnforceSameName};

    const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";

    #[test]
    fn a_name_is_kept_or_followed_by_that_of_the_home_cluster() {
        assert_eq!(remote("shop", EnforceSameName, &home("rome")).unwrap().as_str(), "shop");
        assert_eq!(
            remote("shop", DefaultName, &home("rome")).unwrap().as_str(),
            "shop-rome-2f55ef"
        );
    }

    #[test]
    fn long_names_that_begin_alike_stay_apart() {
        let long = |end: char| format!("{}{end}", "x".repeat(62));
        let names = ['a', 'b'].map(|end| remote(&long(end), DefaultName, &home("rome")).unwrap());
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.as_str().ends_with("-rome-2f55ef")));
        let cut = remote(&long('a'), DefaultName, &home(&"r".repeat(44))).unwrap();
        assert_eq!(cut.as_str().len(), 63);
    }

    #[test]
    fn a_home_that_cannot_peer_cannot_name_namespaces_either() {
        assert!(remote("shop", DefaultName, &home(&"r".repeat(63))).is_err());
    }

    proptest! {
        #[test]
        fn every_namespace_of_a_cluster_that_can_peer_has_a_name(
            namespace in "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
            cluster in "[a-z0-9]([-a-z0-9]{0,42}[a-z0-9])?",
        ) {
            let name = remote(&namespace, DefaultName, &home(&cluster)).unwrap();
            let plain = format!("{namespace}-{}", home(&cluster).unique_name());
            if plain.len() <= 63 {
                prop_assert_eq!(name.as_str(), plain);
            }
        }
    }

    fn home(name: &str) -> Cluster {
        Cluster { id: ROME.parse().unwrap(), name: name.parse().unwrap() }
    }
}

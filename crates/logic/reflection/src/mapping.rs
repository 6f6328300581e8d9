//! Which namespaces extend to the other cluster, as it has accepted them.

use std::collections::BTreeMap;

use liqo_api::virtualkubelet::{MappingPhase, NamespaceMap};

/// Namespaces here, and what each is called there.
pub type Mapping = BTreeMap<String, String>;

/// There is more than one map, and nobody can say which counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ambiguous(pub usize);

/// The namespaces that the other cluster has made for us.
///
/// What it has not accepted, or not any more, does not count; neither does what is only wished for.
pub fn accepted<'a>(
    maps: impl IntoIterator<Item = &'a NamespaceMap>,
) -> Result<Mapping, Ambiguous> {
    let mut maps = maps.into_iter();
    let Some(map) = maps.next() else { return Ok(Mapping::new()) };
    let others = maps.count();
    if others > 0 {
        return Err(Ambiguous(others + 1));
    }
    let current = map.status.iter().flat_map(|status| &status.current_mapping);
    let accepted = current.filter(|(_, remote)| remote.phase == Some(MappingPhase::Accepted));
    Ok(accepted
        .filter_map(|(home, remote)| Some((home.clone(), remote.remote_namespace.clone()?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use liqo_api::virtualkubelet::{NamespaceMapSpec, NamespaceMapStatus, RemoteNamespace};

    use super::*;

    #[test]
    fn only_accepted_namespaces_count() {
        let map = map(&[
            ("a", Some(MappingPhase::Accepted)),
            ("b", Some(MappingPhase::CreationLoopBackOff)),
            ("c", Some(MappingPhase::Terminating)),
            ("d", None),
        ]);
        let want = Mapping::from([("a".to_owned(), "a-rome".to_owned())]);
        assert_eq!(accepted([&map]), Ok(want));
    }

    #[test]
    fn without_a_map_nothing_is_mapped() {
        assert_eq!(accepted([]), Ok(Mapping::new()));
    }

    #[test]
    fn two_maps_are_one_too_many() {
        let map = map(&[("a", Some(MappingPhase::Accepted))]);
        assert_eq!(accepted([&map, &map]), Err(Ambiguous(2)));
    }

    fn map(entries: &[(&str, Option<MappingPhase>)]) -> NamespaceMap {
        let entry = |(name, phase): &(&str, Option<MappingPhase>)| {
            let remote = Some(format!("{name}-rome"));
            ((*name).to_owned(), RemoteNamespace { remote_namespace: remote, phase: *phase })
        };
        let mut map = NamespaceMap::new("milan", NamespaceMapSpec::default());
        let current_mapping = entries.iter().map(entry).collect();
        map.status = Some(NamespaceMapStatus { current_mapping });
        map
    }
}

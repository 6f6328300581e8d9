//! ConfigMaps: copied as they are. The one with the authority of the API server here gets another
//! name, because every namespace there has one of its own.

use k8s_openapi::api::core::v1::ConfigMap;
use liqo_api::keys::object::{ROOT_CA_CONFIG_MAP, reflected_root_ca};

use crate::{Outcome, Place, Reflect, Translated};

/// ConfigMaps.
pub struct ConfigMaps;

impl Reflect for ConfigMaps {
    type Source = ConfigMap;
    type Target = ConfigMap;
    const NAME: &'static str = "ConfigMap";

    fn remote_name(name: &str, place: &Place) -> Option<String> {
        if name == reflected_root_ca(&place.home.id) {
            // That is where our authority goes.
            return None;
        }
        Some(remote_config_map(name, place))
    }

    fn home_name(name: &str, place: &Place) -> Option<String> {
        if name == ROOT_CA_CONFIG_MAP {
            // That is the authority of the other cluster.
            return None;
        }
        let is_ours = name == reflected_root_ca(&place.home.id);
        Some(if is_ours { ROOT_CA_CONFIG_MAP.to_owned() } else { name.to_owned() })
    }

    fn desired(source: &ConfigMap, place: &Place, _: &Translated) -> Outcome<ConfigMap> {
        let name = source.metadata.name.as_deref().unwrap_or_default();
        let Some(name) = Self::remote_name(name, place) else { return Outcome::Nothing };
        Outcome::Copy(ConfigMap {
            metadata: place.metadata(&source.metadata, name),
            data: source.data.clone(),
            binary_data: source.binary_data.clone(),
            immutable: source.immutable,
        })
    }
}

/// What a ConfigMap that pods refer to is called in the other cluster.
pub fn remote_config_map(name: &str, place: &Place) -> String {
    if name == ROOT_CA_CONFIG_MAP { reflected_root_ca(&place.home.id) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::place::tests::{map, place};

    #[test]
    fn all_content_is_copied() {
        let source = ConfigMap {
            metadata: ObjectMeta { name: Some("web".to_owned()), ..ObjectMeta::default() },
            data: Some(map(&[("a", "1")])),
            binary_data: Some([("b".to_owned(), ByteString(vec![0, 1]))].into()),
            immutable: Some(true),
        };
        let Outcome::Copy(copy) = ConfigMaps::desired(&source, &place(), &Translated::new()) else {
            panic!("no copy")
        };
        assert_eq!(copy.metadata, place().metadata(&source.metadata, "web"));
        assert_eq!(ConfigMap { metadata: source.metadata.clone(), ..copy }, source);
    }

    #[test]
    fn the_authority_here_stands_beside_the_authority_there() {
        let there = ConfigMaps::remote_name("kube-root-ca.crt", &place()).unwrap();
        assert_eq!(there, "kube-root-ca.crt.41543");
        assert_eq!(ConfigMaps::home_name(&there, &place()).unwrap(), "kube-root-ca.crt");
        assert_eq!(ConfigMaps::home_name("kube-root-ca.crt", &place()), None);
        assert_eq!(ConfigMaps::remote_name(&there, &place()), None, "its place is taken");
        assert_eq!(ConfigMaps::remote_name("web", &place()).as_deref(), Some("web"));
        assert_eq!(ConfigMaps::home_name("web", &place()).as_deref(), Some("web"));
    }
}

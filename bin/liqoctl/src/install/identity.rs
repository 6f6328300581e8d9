//! Who the cluster is: it never changes once it is known.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, Client};
use liqo_api::keys::{object, secret};
use liqo_install::sanity;
use serde_json::Value;

use crate::failure::Failure;

/// Who the cluster is.
pub struct Identity {
    /// Its identity.
    pub id: String,
    /// Its name, if it has been given one.
    pub name: Option<String>,
    /// Whether the identity is in use.
    known: bool,
}

impl Identity {
    /// What an installation says, or the UID of the namespace that every cluster has and keeps.
    pub async fn find(client: &Client, namespace: &str) -> Result<Self, Failure> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let map = maps.get_opt(object::CLUSTER_ID_CONFIG_MAP).await;
        let map =
            map.map_err(|error| Failure::new("cannot look for the cluster's identity", error))?;
        let mut data = map.and_then(|map| map.data).unwrap_or_default();
        let mut take = |key: &str| data.remove(key).filter(|text| !text.is_empty());
        let name = take(secret::CLUSTER_NAME);
        if let Some(id) = take(secret::CLUSTER_ID) {
            return Ok(Self { id, name, known: true });
        }
        let spaces: Api<Namespace> = Api::all(client.clone());
        let space = spaces.get_metadata(object::SYSTEM_NAMESPACE).await;
        let space = space.map_err(|error| Failure::new("cannot look at kube-system", error))?;
        Ok(Self { id: space.metadata.uid.unwrap_or_default(), name, known: false })
    }

    /// Whether values agree with it.
    pub fn check(&self, values: &Value, skip: bool) -> Result<(), String> {
        let text = |path: &str| values.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let id = text("/discovery/config/clusterIDOverride");
        if self.known && id != self.id {
            return Err(format!(
                "discovery.config.clusterIDOverride is {id}, but the cluster's identity is {} and \
                 cannot change",
                self.id
            ));
        }
        if skip { Ok(()) } else { sanity::cluster(text("/discovery/config/clusterName"), id) }
    }
}

//! What a virtual node says of the cluster behind it, and how it is emptied.
//!
//! - [`node`]: labels, annotations and taint;
//! - [`status`]: resources, addresses and conditions;
//! - [`drain`]: which pods have to go, and how.

pub mod drain;
pub mod node;
pub mod status;

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use liqo_api::keys::object;
use liqo_api::names::ClusterId;
use liqo_api::sharing::{ResourceOffer, StorageType};

/// What a virtual node is told when its virtual kubelet starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the node.
    pub name: String,
    /// The cluster behind it.
    pub provider: ClusterId,
    /// Address of its kubelet.
    pub address: IpAddr,
    /// Port of its kubelet.
    pub port: u16,
    /// Version it claims: that of the API server here.
    pub version: String,
    /// Labels that the user adds.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the user adds.
    pub annotations: BTreeMap<String, String>,
    /// Whether it is only ready while the tunnel works.
    pub checks_network: bool,
}

/// What becomes of the node of an offer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate<'a> {
    /// It shows what is offered.
    Serve(&'a ResourceOffer),
    /// It is emptied and removed, and then the offer may go.
    Leave(&'a ResourceOffer),
    /// Nothing is offered; a node that is left is emptied and removed.
    Vanish,
}

/// What becomes of the node, given the offers of its cluster; there is one, unless a new one comes
/// while the old one goes.
pub fn fate<'a>(offers: impl IntoIterator<Item = &'a ResourceOffer>) -> Fate<'a> {
    let mut leaving = None;
    for offer in offers {
        if !is_withdrawn(offer) {
            return Fate::Serve(offer);
        }
        leaving = Some(offer);
    }
    leaving.map_or(Fate::Vanish, Fate::Leave)
}

/// Whether the lending cluster wants its resources back, or the offer is going.
pub fn is_withdrawn(offer: &ResourceOffer) -> bool {
    offer.metadata.deletion_timestamp.is_some() || offer.spec.withdrawal_timestamp.is_some()
}

/// What is offered.
pub fn offered(offer: &ResourceOffer) -> BTreeMap<String, Quantity> {
    let quota = offer.spec.resource_quota.as_ref();
    quota.and_then(|quota| quota.hard.clone()).unwrap_or_default()
}

/// The class for volumes at the provider: its default one, or else the first it offers.
///
/// A class whose volumes would come back from other clusters is the last one to take.
pub fn storage_class(offer: &ResourceOffer) -> Option<&str> {
    let classes = &offer.spec.storage_classes;
    let is_real = |class: &&StorageType| class.storage_class_name != object::STORAGE_CLASS;
    let class = classes
        .iter()
        .find(|class| class.default)
        .or_else(|| classes.iter().find(is_real))
        .or_else(|| classes.first())?;
    Some(&class.storage_class_name)
}

/// Whether there is something of it at all; of what cannot be read, there is nothing.
fn is_positive(quantity: &Quantity) -> bool {
    quantity.0.parse().is_ok_and(liqo_sharing::quantity::Quantity::is_positive)
}

#[cfg(test)]
pub(crate) mod samples {
    //! Settings and offers to test with.

    use liqo_api::sharing::{ResourceOfferSpec, StorageType};
    use serde_json::json;

    use super::*;

    pub(crate) fn settings() -> Settings {
        Settings {
            name: "liqo-milan".to_owned(),
            provider: "2cb4110a-c5e6-4a52-851d-d0e0d86c9174".parse().unwrap(),
            address: "10.200.0.9".parse().unwrap(),
            port: 10250,
            version: "v1.34.4".to_owned(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            checks_network: true,
        }
    }

    pub(crate) fn offer(hard: &[(&str, &str)]) -> ResourceOffer {
        let hard: BTreeMap<_, _> = hard.iter().copied().collect();
        let quota = serde_json::from_value(json!({ "hard": hard })).unwrap();
        let spec = ResourceOfferSpec {
            cluster_id: settings().provider.to_string(),
            resource_quota: Some(quota),
            labels: BTreeMap::from([("region".to_owned(), "south".to_owned())]),
            storage_classes: vec![StorageType::default()],
            ..ResourceOfferSpec::default()
        };
        ResourceOffer::new("milan", spec)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use liqo_api::Time;

    use super::samples::offer;
    use super::*;

    #[test]
    fn an_offer_is_served_until_it_is_withdrawn_or_deleted() {
        let fresh = offer(&[]);
        let mut withdrawn = offer(&[]);
        withdrawn.spec.withdrawal_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let mut deleted = offer(&[]);
        deleted.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(fate([&fresh]), Fate::Serve(&fresh));
        assert_eq!(fate([&withdrawn]), Fate::Leave(&withdrawn));
        assert_eq!(fate([&deleted]), Fate::Leave(&deleted));
        assert_eq!(fate([&withdrawn, &fresh]), Fate::Serve(&fresh));
        assert_eq!(fate([]), Fate::Vanish);
    }

    #[test]
    fn volumes_do_not_come_back_from_the_provider() {
        let class =
            |name: &str, default| StorageType { storage_class_name: name.to_owned(), default };
        let pick = |classes: &[StorageType]| {
            let mut offer = offer(&[]);
            offer.spec.storage_classes = classes.to_vec();
            storage_class(&offer).map(str::to_owned)
        };
        assert_eq!(pick(&[class("liqo", false), class("disk", false)]).as_deref(), Some("disk"));
        assert_eq!(pick(&[class("disk", false), class("fast", true)]).as_deref(), Some("fast"));
        assert_eq!(pick(&[class("liqo", false)]).as_deref(), Some("liqo"));
        assert_eq!(pick(&[]), None);
    }

    #[test]
    fn nothing_of_a_resource_is_told_from_a_little() {
        for (text, positive) in [
            ("0", false),
            ("0.0", false),
            ("0e9", false),
            ("-1", false),
            ("5m", true),
            ("1Ki", true),
        ] {
            assert_eq!(is_positive(&Quantity(text.to_owned())), positive, "{text}");
        }
    }
}

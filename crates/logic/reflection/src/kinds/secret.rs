//! Secrets: copied as they are, except for the tokens of service accounts.
//!
//! A token gives access to the API server here: pods in the other cluster are given tokens of their
//! own, and none that live longer than they do. Only where API servers cannot make such tokens, those
//! that lie in Secrets are brought there.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::keys::{annotation, label};

use crate::{Outcome, Place, Reflect, ServiceAccounts, Translated};

/// The type of Secrets with a token, which only the API server of their cluster may fill.
const TOKEN: &str = "kubernetes.io/service-account-token";
/// The type of Secrets that mean nothing to Kubernetes.
const OPAQUE: &str = "Opaque";

/// Secrets.
pub struct Secrets;

impl Reflect for Secrets {
    type Source = Secret;
    type Target = Secret;
    const NAME: &'static str = "Secret";
    /// The tokens of a pod are put there for it, and are no copy of anything.
    const NO_COPIES: Option<&'static str> = Some(label::SERVICE_ACCOUNT_POD);

    fn is_copy(there: &ObjectMeta) -> bool {
        let labels = there.labels.as_ref();
        !labels.is_some_and(|labels| labels.contains_key(label::SERVICE_ACCOUNT_POD))
    }

    fn desired(source: &Secret, place: &Place, _: &Translated) -> Outcome<Secret> {
        let name = source.metadata.name.clone().unwrap_or_default();
        let mut copy = Secret {
            metadata: place.metadata(&source.metadata, name),
            data: source.data.clone(),
            type_: source.type_.clone(),
            immutable: source.immutable,
            string_data: None,
        };
        if source.type_.as_deref() != Some(TOKEN) {
            return Outcome::Copy(copy);
        }
        match place.service_accounts {
            ServiceAccounts::Disabled | ServiceAccounts::TokenApi => {
                Outcome::Withheld("it holds the token of a service account")
            }
            ServiceAccounts::Legacy => {
                copy.type_ = Some(OPAQUE.to_owned());
                let annotations = source.metadata.annotations.as_ref();
                let account = annotations.and_then(|all| all.get(annotation::SERVICE_ACCOUNT_NAME));
                let labels = copy.metadata.labels.get_or_insert_default();
                labels.extend(
                    account.map(|name| (label::LEGACY_SERVICE_ACCOUNT.to_owned(), name.clone())),
                );
                Outcome::Copy(copy)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::place::tests::{map, place};

    #[test]
    fn all_content_is_copied() {
        let source = secret("kubernetes.io/tls");
        let Outcome::Copy(copy) = decide(&source, ServiceAccounts::TokenApi) else {
            panic!("no copy")
        };
        assert_eq!(copy.metadata, place().metadata(&source.metadata, "one"));
        assert_eq!(Secret { metadata: source.metadata.clone(), ..copy }, source);
    }

    #[test]
    fn tokens_stay_here() {
        for mode in [ServiceAccounts::Disabled, ServiceAccounts::TokenApi] {
            assert!(matches!(decide(&secret(TOKEN), mode), Outcome::Withheld(_)));
        }
    }

    #[test]
    fn where_tokens_cannot_be_asked_for_they_are_brought_there() {
        let Outcome::Copy(copy) = decide(&secret(TOKEN), ServiceAccounts::Legacy) else {
            panic!("no copy")
        };
        assert_eq!(copy.type_.as_deref(), Some("Opaque"));
        assert_eq!(copy.metadata.labels.unwrap()["kubernetes.io/service-account.name"], "robot");
        assert_eq!(copy.data, secret(TOKEN).data);
    }

    #[test]
    fn the_tokens_of_a_pod_are_no_copy() {
        assert!(Secrets::is_copy(&place().metadata(&ObjectMeta::default(), "one")));
        let labels = map(&[("virtualkubelet.liqo.io/service-account-for-pod-name", "web")]);
        let tokens = ObjectMeta { labels: Some(labels), ..ObjectMeta::default() };
        assert!(!Secrets::is_copy(&tokens));
    }

    fn decide(source: &Secret, service_accounts: ServiceAccounts) -> Outcome<Secret> {
        let place = Place { service_accounts, ..place() };
        Secrets::desired(source, &place, &Translated::new())
    }

    fn secret(type_: &str) -> Secret {
        let metadata = ObjectMeta {
            name: Some("one".to_owned()),
            annotations: Some(map(&[("kubernetes.io/service-account.name", "robot")])),
            ..ObjectMeta::default()
        };
        Secret {
            metadata,
            data: Some([("token".to_owned(), ByteString(vec![1, 2]))].into()),
            type_: Some(type_.to_owned()),
            immutable: Some(true),
            string_data: None,
        }
    }
}

//! The webhooks' certificate: made, shared by all replicas, renewed, and announced.
//!
//! A Secret holds it, so that replicas show the same one. The API server is told which certificates
//! to trust by the `caBundle` of each webhook; while one is renewed, both are trusted, and the new one
//! is shown when everybody has had the time to notice.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{StreamExt as _, select_all};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, ValidatingWebhook,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::{annotation, manager, object, secret};
use liqo_kit::health::Check;
use liqo_kit::keyed::chain;
use liqo_kit::retry::Backoff;
use liqo_kit::tls::{self, HEAD_START, Pair, Replace};
use liqo_kit::watch::watch;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::sleep;
use tracing::{info, warn};

/// How long a certificate is good for.
const LIFE: Duration = Duration::from_hours(365 * 24);
/// How long before its end it is renewed.
const RENEWAL: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How long API servers have to notice what they are told to trust, before they are shown it.
const NOTICE: Duration = Duration::from_secs(2);
/// How often its age is looked at.
const LOOK: Duration = Duration::from_hours(12);

/// A certificate is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused.
    #[error("cannot {action}")]
    Request {
        /// What was tried.
        action: &'static str,
        /// Why.
        source: kube::Error,
    },
    /// It cannot be made.
    #[error(transparent)]
    Make(#[from] tls::Error),
}

/// What the Secret holds.
struct Held {
    pair: Pair,
    /// The certificates to trust.
    trusted: String,
    ends: Option<Timestamp>,
}

/// Who makes and announces the certificate.
pub struct Authority {
    secrets: Api<Secret>,
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    namespace: String,
}

impl Authority {
    /// The authority of an installation.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), namespace),
            mutating: Api::all(client.clone()),
            validating: Api::all(client),
            namespace: namespace.to_owned(),
        }
    }

    /// The certificate, made or renewed if need be.
    pub async fn ensure(&self) -> Result<Pair, Error> {
        self.held().await.map(|held| held.pair)
    }

    async fn held(&self) -> Result<Held, Error> {
        loop {
            let refuse =
                |source| Error::Request { action: "read the webhooks' certificate", source };
            let found = self.secrets.get_opt(object::WEBHOOK_SECRET).await.map_err(refuse)?;
            let held = found.as_ref().and_then(read);
            let now = Timestamp::now();
            let stale = match held {
                Some(held) if is_fresh(held.ends, now) => return Ok(held),
                stale => stale,
            };
            if self.renew(found.as_ref(), stale.as_ref(), now).await? {
                info!("Made a certificate for the webhooks");
            }
        }
    }

    /// Writes a new certificate; false when another replica was faster.
    async fn renew(
        &self,
        found: Option<&Secret>,
        held: Option<&Held>,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let start = OffsetDateTime::now_utc() - HEAD_START;
        let pair = Pair::self_signed(&self.names(), start, LIFE)?;
        let before = held.map(|held| held.pair.certificate.as_str()).unwrap_or_default();
        let trusted = format!("{}{before}", pair.certificate);
        let life = LIFE.saturating_sub(HEAD_START);
        let ends = now + SignedDuration::try_from(life).unwrap_or(SignedDuration::MAX);
        let data = [
            (secret::WEBHOOK_CA, trusted),
            (secret::WEBHOOK_CERTIFICATE, pair.certificate),
            (secret::WEBHOOK_PRIVATE_KEY, pair.key),
        ]
        .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
        let annotations = [(annotation::CERTIFICATE_EXPIRE_TIME.to_owned(), ends.to_string())];
        let wanted = Secret {
            metadata: ObjectMeta {
                name: Some(object::WEBHOOK_SECRET.to_owned()),
                annotations: Some(annotations.into()),
                resource_version: found.and_then(kube::ResourceExt::resource_version),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from(data)),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        let params = PostParams::default();
        let written = match found {
            Some(_) => self.secrets.replace(object::WEBHOOK_SECRET, &params, &wanted).await,
            None => self.secrets.create(&params, &wanted).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(source) => {
                Err(Error::Request { action: "write the webhooks' certificate", source })
            }
        }
    }

    /// The names by which the API server calls the webhooks.
    fn names(&self) -> Vec<String> {
        let (service, namespace) = (object::CONTROLLER_MANAGER, &self.namespace);
        ["", ".svc", ".svc.cluster.local"].map(|end| format!("{service}.{namespace}{end}")).to_vec()
    }

    /// Keeps the certificate in use and announced; never ends.
    pub async fn keep(self, replace: Replace, ready: Check) {
        let named = |name: &str| Config::default().fields(&format!("metadata.name={name}"));
        let (_, secrets) = watch(self.secrets.clone(), named(object::WEBHOOK_SECRET));
        let (_, mutating) = watch(self.mutating.clone(), named(object::WEBHOOK));
        let (_, validating) = watch(self.validating.clone(), named(object::WEBHOOK));
        let mut touched = pin!(select_all([secrets.boxed(), mutating.boxed(), validating.boxed()]));
        let backoff = Backoff::default();
        let mut failures = 0;
        let mut shown = None;
        loop {
            let pause = match self.announce(&replace, &mut shown).await {
                Ok(()) => {
                    ready.pass();
                    failures = 0;
                    LOOK
                }
                Err(error) => {
                    warn!(error = chain(&error), "Webhooks are not announced");
                    failures += 1;
                    backoff.jittered(failures)
                }
            };
            tokio::select! {
                _ = touched.next() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Tells the API server to trust the certificate, and uses it.
    async fn announce(&self, replace: &Replace, shown: &mut Option<String>) -> Result<(), Error> {
        let held = self.held().await?;
        self.trust(held.trusted).await?;
        // The first one was shown from the start.
        if shown.as_ref().is_some_and(|shown| *shown != held.pair.certificate) {
            sleep(NOTICE).await;
            info!("Showing a new certificate for the webhooks");
        }
        replace.with(&held.pair)?;
        *shown = Some(held.pair.certificate);
        Ok(())
    }

    /// Has the API server trust certificates.
    async fn trust(&self, certificates: String) -> Result<(), Error> {
        let refuse =
            |source| Error::Request { action: "announce the webhooks' certificate", source };
        let bundle = ByteString(certificates.into_bytes());
        let params = PatchParams::apply(manager::WEBHOOK);
        if let Some(found) = self.mutating.get_opt(object::WEBHOOK).await.map_err(refuse)?
            && let Some(patch) = mutating_patch(&found, &bundle)
        {
            self.mutating
                .patch(object::WEBHOOK, &params, &Patch::Strategic(patch))
                .await
                .map_err(refuse)?;
        }
        if let Some(found) = self.validating.get_opt(object::WEBHOOK).await.map_err(refuse)?
            && let Some(patch) = validating_patch(&found, &bundle)
        {
            self.validating
                .patch(object::WEBHOOK, &params, &Patch::Strategic(patch))
                .await
                .map_err(refuse)?;
        }
        Ok(())
    }
}

fn mutating_patch(found: &MutatingWebhookConfiguration, bundle: &ByteString) -> Option<Value> {
    let hooks = found.webhooks.iter().flatten();
    let trust = |hook: &MutatingWebhook| (hook.name.clone(), hook.client_config.ca_bundle.clone());
    trusting(hooks.map(trust), bundle)
}

fn validating_patch(found: &ValidatingWebhookConfiguration, bundle: &ByteString) -> Option<Value> {
    let hooks = found.webhooks.iter().flatten();
    let trust =
        |hook: &ValidatingWebhook| (hook.name.clone(), hook.client_config.ca_bundle.clone());
    trusting(hooks.map(trust), bundle)
}

/// What makes all webhooks trust a bundle; nothing when they do.
fn trusting(
    hooks: impl Iterator<Item = (String, Option<ByteString>)>,
    bundle: &ByteString,
) -> Option<Value> {
    let hooks: Vec<_> = hooks
        .filter(|(_, trusted)| trusted.as_ref() != Some(bundle))
        .map(|(name, _)| json!({ "name": name, "clientConfig": { "caBundle": bundle } }))
        .collect();
    (!hooks.is_empty()).then(|| json!({ "webhooks": hooks }))
}

fn read(found: &Secret) -> Option<Held> {
    let text = |key: &str| {
        let bytes = found.data.as_ref()?.get(key)?;
        String::from_utf8(bytes.0.clone()).ok().filter(|text| !text.is_empty())
    };
    let pair = Pair {
        certificate: text(secret::WEBHOOK_CERTIFICATE)?,
        key: text(secret::WEBHOOK_PRIVATE_KEY)?,
    };
    let ends = found.annotations().get(annotation::CERTIFICATE_EXPIRE_TIME);
    Some(Held {
        pair,
        trusted: text(secret::WEBHOOK_CA)?,
        ends: ends.and_then(|text| text.parse().ok()),
    })
}

/// Whether a certificate can be used for a good while; one of unknown age, given by the user, can.
fn is_fresh(ends: Option<Timestamp>, now: Timestamp) -> bool {
    ends.is_none_or(|ends| ends.duration_since(now) > RENEWAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_before_its_end_and_a_given_one_never() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let in_days = |days: i64| Some(now + SignedDuration::from_hours(days * 24));
        assert!(is_fresh(in_days(100), now));
        assert!(!is_fresh(in_days(80), now));
        assert!(!is_fresh(in_days(-1), now));
        assert!(is_fresh(None, now));
    }

    #[test]
    fn only_webhooks_that_trust_something_else_are_told() {
        let bundle = ByteString(b"new".to_vec());
        let hooks = |trusted: &str| {
            let trusted = Some(ByteString(trusted.as_bytes().to_vec()));
            [("a".to_owned(), Some(bundle.clone())), ("b".to_owned(), trusted)].into_iter()
        };
        assert_eq!(trusting(hooks("new"), &bundle), None);
        assert_eq!(
            trusting(hooks("old"), &bundle),
            Some(json!({ "webhooks": [{ "name": "b", "clientConfig": { "caBundle": "bmV3" } }] }))
        );
    }
}

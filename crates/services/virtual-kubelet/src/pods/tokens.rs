//! Brings the tokens of service accounts to pods in the other cluster, and new ones in time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use liqo_api::keys::{event, label, manager};
use liqo_kit::events::Note;
use liqo_kit::keyed::{Ending, chain};
use liqo_kit::retry::{Failure as _, or_gone};
use liqo_kit::terse;
use liqo_kit::watch::Key;
use liqo_pod_offloading::lean::{HomePod, trim_secret};
use liqo_pod_offloading::tokens::{self, Due, Token};
use liqo_reflection::ServiceAccounts;
use tokio::time::Instant;
use tracing::debug;

use super::side::Side;
use super::{Error, Pods, Scene};
use crate::reflection::link::ask;

/// The kind as metrics name it.
const KIND: &str = "ServiceAccount";

/// The clock of the API server that makes tokens, as far as tokens have told it: by ours, they might
/// be renewed all the time, or too late.
#[derive(Default)]
pub(super) struct Clock {
    /// How far ours is ahead, in milliseconds.
    ahead: AtomicI64,
}

impl Clock {
    fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed));
        let now = Timestamp::now();
        now.checked_sub(ahead).unwrap_or(now)
    }

    fn set(&self, ahead: SignedDuration) {
        let ahead = i64::try_from(ahead.as_millis()).unwrap_or_default();
        self.ahead.store(ahead, Ordering::Relaxed);
    }
}

impl Pods {
    /// Makes sure that a pod there has tokens that are valid; says when to look again.
    pub(super) async fn keep_tokens(
        &self,
        scene: &Scene<'_>,
        side: &Side,
    ) -> Result<Option<Duration>, Error> {
        if side.place.service_accounts != ServiceAccounts::TokenApi {
            return Ok(None);
        }
        let home = scene.home.as_deref();
        // Before there is a ShadowPod, tokens are made together with it.
        if home.is_some() && scene.shadow.is_none() {
            return Ok(None);
        }
        match tokens::due(home, scene.secret.as_ref(), self.clock.now()) {
            Due::Now => {
                if let Some(home) = home {
                    self.make_tokens(scene.key, home, side).await?;
                }
                // What was written is seen soon, and says when it is due.
                Ok(None)
            }
            Due::Later(wait) => Ok(Some(wait)),
            Due::Remove => self.remove_tokens(scene, side).await.map(|()| None),
            Due::Nothing => Ok(None),
        }
    }

    /// Asks for the tokens of a pod, and puts them where its volumes find them.
    pub(super) async fn make_tokens(
        &self,
        key: &Key,
        home: &HomePod,
        side: &Side,
    ) -> Result<(), Error> {
        let wanted: Vec<Token> = home.tokens().collect();
        if wanted.is_empty() || side.place.service_accounts != ServiceAccounts::TokenApi {
            return Ok(());
        }
        let result = self.try_make_tokens(key, home, side, wanted).await;
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let ending = match &result {
            Ok(()) => Ending::Done,
            Err(error) => Ending::Failed(error.reason()),
        };
        self.ground.counts.count(KIND, namespace, ending);
        if let Err(error) = &result {
            let message = chain(error);
            let reason = event::FAILED_TOKENS_REFLECTION;
            let note = Note { warning: true, reason, action: "Reflect", message: &message };
            self.token_events.tell(home, note).await;
        }
        result
    }

    async fn try_make_tokens(
        &self,
        key: &Key,
        home: &HomePod,
        side: &Side,
        wanted: Vec<Token>,
    ) -> Result<(), Error> {
        let account = home.spec.service_account_name.as_deref().unwrap_or("default");
        let accounts: Api<ServiceAccount> = self.here(home);
        let params = PostParams::default();
        let mut issued = Vec::new();
        for token in wanted {
            let request = token.request(&home.metadata);
            let what = || format!("ask for a token of service account {account}");
            let request = accounts.create_token_request(account, &params, &request);
            let answer = ask(what, request).await?;
            let token = token.issued(answer).ok_or_else(|| Error::NoToken(account.to_owned()))?;
            self.clock.set(token.ahead(Timestamp::now()));
            issued.push(token);
        }
        let secret = tokens::secret(home, &side.place, &issued);
        self.write_secret(key, side, &secret).await
    }

    async fn write_secret(&self, key: &Key, side: &Side, secret: &Secret) -> Result<(), Error> {
        let secrets = side.api::<Secret>();
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let what = || format!("write Secret {name} in cluster {}", self.ground.peer);
        let known = match side.secret(&key.name) {
            Some(_) => None,
            None => self.create_secret(side, secret).await?,
        };
        let mut metadata = if let Some(metadata) = known {
            metadata
        } else {
            let params = PatchParams::apply(manager::REFLECTION).force();
            let patch = Patch::Apply(secret);
            ask(what, secrets.patch_metadata(name, &params, &patch)).await?.metadata
        };
        trim_secret(&mut metadata);
        debug!(pod = %key, "Tokens written");
        self.with(key, |memory| memory.secret.write(metadata, Instant::now()));
        Ok(())
    }

    /// Makes a Secret that was not there; nothing when there is one of ours that was not seen yet.
    async fn create_secret(
        &self,
        side: &Side,
        secret: &Secret,
    ) -> Result<Option<ObjectMeta>, Error> {
        let secrets = side.api::<Secret>();
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let what = || format!("make Secret {name} in cluster {}", self.ground.peer);
        let params = PostParams {
            field_manager: Some(manager::REFLECTION.to_owned()),
            ..PostParams::default()
        };
        let plain = Box::new(tokens::in_plain(secret));
        let refusal = match ask(what, terse::create(&secrets, &params, &plain)).await {
            Ok(made) => return Ok(Some(made)),
            Err(refusal) if refusal.code() == Some(409) => refusal,
            Err(refusal) => return Err(refusal.into()),
        };
        // Whoever has one of this name keeps it.
        let Some(found) = ask(what, secrets.get_metadata_opt(name)).await? else {
            return Err(refusal.into());
        };
        let labels = found.metadata.labels.as_ref();
        let is_for_a_pod = labels.is_some_and(|all| all.contains_key(label::SERVICE_ACCOUNT_POD));
        if side.place.is_ours(&found.metadata) && is_for_a_pod {
            return Ok(None);
        }
        let (name, peer) = (name.to_owned(), self.ground.peer.clone());
        Err(Error::Taken { kind: "Secret", name, peer })
    }

    /// Deletes the Secret of a pod that is gone, but only the one that was seen.
    async fn remove_tokens(&self, scene: &Scene<'_>, side: &Side) -> Result<(), Error> {
        let Some(secret) = &scene.secret else { return Ok(()) };
        let name = secret.name.clone().unwrap_or_default();
        let seen = Preconditions { uid: secret.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::background() };
        let secrets = side.api::<PartialObjectMeta<Secret>>();
        let what = || format!("delete Secret {name} in cluster {}", self.ground.peer);
        let request = async { or_gone(secrets.delete(&name, &params).await) };
        match ask(what, request).await {
            Ok(_) => {}
            Err(refusal) if refusal.code() == Some(409) => return Ok(()),
            Err(refusal) => return Err(refusal.into()),
        }
        self.with(scene.key, |memory| memory.secret.delete(secret));
        Ok(())
    }
}

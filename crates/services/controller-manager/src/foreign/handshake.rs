//! Becoming known to a peer: who it is, and an identity there.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::PoisonError;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use liqo_api::discovery::{ClusterIdentity, ForeignCluster};
use liqo_api::keys::{label, manager, object, secret as field};
use liqo_api::names::Cluster;
use liqo_handshake::{Error as HandshakeError, Peer, Trust};
use liqo_identity::secret;
use liqo_identity::signing::Application;
use liqo_identity::tenant;
use liqo_identity::token::Token;
use liqo_identity::wire::CertificateRequest;
use liqo_peering::conditions::Attempt;
use serde::Serialize;
use tokio::time::Instant;
use tracing::info;

use super::{ForeignClusters, proxy};
use crate::error::{Error, REFUSAL};

/// What is written about a cluster that said who it is.
#[derive(Debug, Serialize)]
struct Learned {
    metadata: Labelled,
    spec: Identified,
}

#[derive(Debug, Serialize)]
struct Labelled {
    labels: std::collections::BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Identified {
    cluster_identity: ClusterIdentity,
}

/// What a failure to become known means to users.
pub fn attempt(error: &Error) -> Attempt {
    let told = liqo_kit::keyed::chain(error);
    match error {
        Error::Handshake(HandshakeError::WrongToken { empty, .. }) => {
            Attempt::Refused { had_token: !empty }
        }
        Error::RefusedBefore { empty, .. } => Attempt::Refused { had_token: !empty },
        Error::Handshake(
            HandshakeError::WrongCluster { .. }
            | HandshakeError::NotLiqo { .. }
            | HandshakeError::OtherVersion { .. },
        ) => Attempt::Mistaken(told),
        Error::Handshake(
            HandshakeError::Unreachable { .. }
            | HandshakeError::Interrupted { .. }
            | HandshakeError::Proxy { .. }
            | HandshakeError::Tls { .. },
        ) => Attempt::Unreachable(told),
        Error::Write(_)
        | Error::Request { .. }
        | Error::Handshake(_)
        | Error::Reply(_)
        | Error::Application(_)
        | Error::Identity(_)
        | Error::Client(_)
        | Error::Tenant(_)
        | Error::Name(_)
        | Error::Plugin { .. }
        | Error::Refused { .. }
        | Error::Quantity(_) => Attempt::Failed(told),
    }
}

impl ForeignClusters {
    /// Asks a cluster who it is, and writes that down.
    pub(super) async fn learn(&self, foreign: &ForeignCluster) -> Result<(), Error> {
        let ids = peer(foreign)?.ids().await?;
        let known = foreign.spec.cluster_identity.clone().unwrap_or_default();
        let identity = ClusterIdentity {
            cluster_id: some(known.cluster_id).unwrap_or(ids.cluster_id),
            cluster_name: some(known.cluster_name).unwrap_or(ids.cluster_name),
        };
        // A name that makes no sense would stay: it cannot be changed once it is written.
        let cluster = identity.parse()?;
        info!(foreign = foreign.name_any(), %cluster, "Cluster known");
        let learned = Learned {
            metadata: Labelled { labels: [(label::CLUSTER_ID, cluster.id.to_string())].into() },
            spec: Identified { cluster_identity: identity },
        };
        let api: Api<ForeignCluster> = Api::all(self.world.client.clone());
        let params = PatchParams {
            field_manager: Some(manager::FOREIGN_CLUSTER.to_owned()),
            ..PatchParams::default()
        };
        api.patch(&foreign.name_any(), &params, &Patch::Merge(&learned))
            .await
            .map_err(Error::request("write who the cluster is"))?;
        Ok(())
    }

    /// Gets an identity at a cluster; the tenant namespace is made only when there is one.
    pub(super) async fn authenticate(
        &self,
        foreign: &ForeignCluster,
        remote: &Cluster,
        tenant: Option<&str>,
    ) -> Result<(String, Secret), Error> {
        let now = Timestamp::now();
        let (before, presented, own) = tokio::try_join!(
            self.live_identity(remote),
            self.remote_token(remote),
            self.own_token()
        )?;
        // Watches lag behind: it may have been there all the time.
        if let Some(identity) = &before
            && let Some((_, Some(_))) = self.usable(identity, &remote.id, foreign, now)
        {
            let tenant = identity.namespace().unwrap_or_default();
            return Ok((tenant, identity.clone()));
        }
        let application = self.application(remote, before.as_ref())?;
        let mut request = CertificateRequest::new(&self.world.home, &application.request);
        if let Some(token) = presented {
            token.reveal().clone_into(&mut request.destination_cluster_token);
        }
        if let Some(token) = own {
            token.reveal().clone_into(&mut request.origin_cluster_token);
        }
        let question = digest(&foreign.spec.foreign_auth_url, &request.destination_cluster_token);
        self.was_refused(remote, question, request.destination_cluster_token.is_empty())?;
        let peer = peer(foreign)?;
        peer.is(&remote.id).await?;
        let answer = peer.certificate(&request).await;
        if let Err(HandshakeError::WrongToken { .. }) = &answer {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.insert(remote.id.clone(), (question, Instant::now()));
        }
        let reply = answer?;
        let tenant = match tenant {
            Some(tenant) => tenant.to_owned(),
            None => self.ensure_tenant(remote).await?,
        };
        let identity =
            secret::identity(&tenant, &remote.id, &application.key, &reply, proxy(foreign))?;
        let identity = self.keep(&tenant, identity, before).await?;
        self.applications.lock().unwrap_or_else(PoisonError::into_inner).remove(&remote.id);
        let mut obtained = self.obtained.lock().unwrap_or_else(PoisonError::into_inner);
        obtained.insert(remote.id.clone(), Timestamp::now());
        info!(cluster = %remote, secret = identity.name_any(), "Identity obtained");
        Ok((tenant, identity))
    }

    /// Keeps from asking the same question again right after it was refused.
    fn was_refused(&self, remote: &Cluster, question: u64, empty: bool) -> Result<(), Error> {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let before = refusals.get(&remote.id).filter(|(refused, _)| *refused == question);
        match before.and_then(|(_, at)| REFUSAL.checked_sub(at.elapsed())) {
            Some(wait) => Err(Error::RefusedBefore { empty, wait }),
            None => Ok(()),
        }
    }

    async fn live_identity(&self, remote: &Cluster) -> Result<Option<Secret>, Error> {
        let api: Api<Secret> = Api::all(self.world.client.clone());
        let params = ListParams::default().labels(&secret::identities_at(remote.id.as_str()));
        let list = api.list(&params).await.map_err(Error::request("list identities"))?;
        Ok(secret::latest(&list.items, Timestamp::now()).cloned())
    }

    /// The key to certify: that of the identity before, or else a new one, kept until it is.
    fn application(&self, remote: &Cluster, before: Option<&Secret>) -> Result<Application, Error> {
        let home = &self.world.home.id;
        let key = before.and_then(|identity| identity.data.as_ref()?.get(field::PRIVATE_KEY));
        let key = key.and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
        if let Some(application) = key.and_then(|key| Application::again(home, key).ok()) {
            return Ok(application);
        }
        let mut applications = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(application) = applications.get(&remote.id) {
            return Ok(application.clone());
        }
        let application = Application::new(home)?;
        applications.insert(remote.id.clone(), application.clone());
        Ok(application)
    }

    /// The token to present to a cluster, wherever its Secret lies.
    async fn remote_token(&self, remote: &Cluster) -> Result<Option<Token>, Error> {
        // The one of our own namespace counts most, and is read at once.
        let own: Api<Secret> = Api::namespaced(self.world.client.clone(), &self.world.namespace);
        let usual = own.get_opt(&object::remote_token_secret(&remote.id)).await;
        let usual = usual.map_err(Error::request("read the token"))?;
        if let Some(token) = usual.as_ref().and_then(secret::token) {
            return Ok(Some(token));
        }
        let api: Api<Secret> = Api::all(self.world.client.clone());
        let selector =
            format!("{},{}={}", secret::REMOTE_TOKENS, label::CLUSTER_ID, remote.id.as_str());
        let params = ListParams::default().labels(&selector);
        let list = api.list(&params).await.map_err(Error::request("read the token"))?;
        // The newest among equals.
        let rank = |found: &&Secret| {
            let is_ours = found.namespace().as_deref() == Some(self.world.namespace.as_str());
            (is_ours, found.metadata.creation_timestamp.as_ref().map(|time| time.0))
        };
        Ok(list.items.iter().max_by_key(rank).and_then(secret::token))
    }

    async fn own_token(&self) -> Result<Option<Token>, Error> {
        let api: Api<Secret> = Api::namespaced(self.world.client.clone(), &self.world.namespace);
        let found = api.get_opt(object::AUTH_TOKEN_SECRET).await;
        let found = found.map_err(Error::request("read our own token"))?;
        Ok(found.as_ref().and_then(secret::token))
    }

    async fn ensure_tenant(&self, remote: &Cluster) -> Result<String, Error> {
        let api: Api<Namespace> = Api::all(self.world.client.clone());
        // As the API server has it at hand: what was made a moment ago is made again as it is.
        let params = ListParams::default().labels(&tenant::namespaces_of(&remote.id)).match_any();
        let list = api.list(&params).await.map_err(Error::request("list tenant namespaces"))?;
        if let Some(name) = tenant::existing(&list.items)? {
            return Ok(name.to_owned());
        }
        let want = tenant::namespace(remote)?;
        let params = PatchParams::apply(manager::FOREIGN_CLUSTER).force();
        api.patch(&want.name_any(), &params, &Patch::Apply(&want))
            .await
            .map_err(Error::request("make the tenant namespace"))?;
        Ok(want.name_any())
    }

    /// Stores an identity, in the place of the one before if there was one there.
    async fn keep(
        &self,
        tenant: &str,
        mut identity: Secret,
        before: Option<Secret>,
    ) -> Result<Secret, Error> {
        let api: Api<Secret> = Api::namespaced(self.world.client.clone(), tenant);
        let old = before.filter(|before| before.namespace().as_deref() == Some(tenant));
        let stored = match old {
            Some(old) => {
                identity.metadata.generate_name = None;
                identity.metadata.name = Some(old.name_any());
                let params = PatchParams::apply(manager::FOREIGN_CLUSTER).force();
                api.patch(&old.name_any(), &params, &Patch::Apply(&identity)).await
            }
            None => api.create(&PostParams::default(), &identity).await,
        };
        stored.map_err(Error::request("store the identity"))
    }
}

fn peer(foreign: &ForeignCluster) -> Result<Peer, Error> {
    let spec = &foreign.spec;
    let trust = if spec.insecure_skip_tls_verify { Trust::Anybody } else { Trust::System };
    Ok(Peer::new(&spec.foreign_auth_url, trust, None)?)
}

/// Tells questions apart without keeping the token.
fn digest(url: &str, token: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (url, token).hash(&mut hasher);
    hasher.finish()
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

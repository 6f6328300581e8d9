//! Who calls, and whether they may: as with every kubelet, nobody is let in unknown or unasked.
//!
//! ```text
//! certificate ── signed by the cluster's authority? ─┐
//!                                                    ├─> user ── SubjectAccessReview ─> let in
//! bearer token ── TokenReview ───────────────────────┘
//! ```
//!
//! The API server of this cluster decides. Its answers count for a while, so that a stream of requests
//! costs one question a minute; when it does not answer, nobody is let in.

mod recent;
mod wish;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use http::{HeaderMap, Method, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use liqo_kit::authority::Authority;
use liqo_kit::tls::TlsListener;
use rustls::pki_types::{CertificateDer, UnixTime};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::debug;

use self::recent::Recent;
use self::wish::Wish;

/// How long a yes counts.
const YES: Duration = Duration::from_mins(1);
/// How long a no counts: rights that were just granted should not be waited for.
const NO: Duration = Duration::from_secs(10);
/// How many questions are under way at once, whoever floods the port.
const QUESTIONS: usize = 8;

/// The certificates that the other end of a connection showed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer(Arc<[CertificateDer<'static>]>);

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        let (_, connection) = stream.io().get_ref();
        Self(connection.peer_certificates().unwrap_or_default().into())
    }
}

/// Somebody whom this cluster knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct User {
    name: String,
    uid: Option<String>,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Why somebody is not let in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Nobody knows who it is.
    #[error("show a certificate that the cluster signed, or a token that it accepts")]
    Unknown,
    /// It may not do that.
    #[error("{user} may not {verb} nodes/{subresource} of {node}")]
    Forbidden { user: String, verb: &'static str, subresource: &'static str, node: String },
    /// The API server did not say.
    #[error("cannot ask the API server who calls, or whether it may")]
    Unanswered(#[source] kube::Error),
}

/// Lets those in who may.
pub(crate) struct Callers {
    authority: Authority,
    tokens: Api<TokenReview>,
    access: Api<SubjectAccessReview>,
    node: String,
    questions: Semaphore,
    /// By the digest of the token; the token itself is not kept.
    known: Mutex<Recent<[u8; 32], Option<User>>>,
    allowed: Mutex<Recent<(User, &'static str, &'static str), bool>>,
}

impl Callers {
    pub(crate) fn new(client: &Client, authority: Authority, node: &str) -> Self {
        Self {
            authority,
            tokens: Api::all(client.clone()),
            access: Api::all(client.clone()),
            node: node.to_owned(),
            questions: Semaphore::new(QUESTIONS),
            known: Mutex::default(),
            allowed: Mutex::default(),
        }
    }

    /// Lets a request in, or says why not.
    pub(crate) async fn admit(
        &self,
        peer: &Peer,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let user = self.identify(peer, headers).await?;
        let wish = Wish::of(method, path);
        for subresource in wish.subresources {
            if self.may(&user, wish.verb, subresource).await? {
                return Ok(());
            }
        }
        let subresource = wish.subresources.first().copied().unwrap_or_default();
        let node = self.node.clone();
        Err(Refusal::Forbidden { user: user.name, verb: wish.verb, subresource, node })
    }

    /// Who calls, by a certificate if there is one that counts, and by a token otherwise.
    async fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<User, Refusal> {
        if !peer.0.is_empty() {
            match self.authority.identify(&peer.0, UnixTime::now()) {
                Ok(subject) => {
                    let (name, groups) = (subject.user, subject.groups);
                    return Ok(User { name, groups, ..User::default() });
                }
                Err(error) => debug!(%error, "Certificate of a caller does not count"),
            }
        }
        let token = bearer(headers).ok_or(Refusal::Unknown)?;
        self.owner(token).await?.ok_or(Refusal::Unknown)
    }

    /// Whose token it is.
    async fn owner(&self, token: &str) -> Result<Option<User>, Refusal> {
        let digest = Sha256::digest(token.as_bytes()).into();
        let seen = lock(&self.known).get(&digest, Instant::now());
        if let Some(user) = seen {
            return Ok(user);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let _turn = self.questions.acquire().await;
        let review = self.tokens.create(&PostParams::default(), &review).await;
        let status = review.map_err(Refusal::Unanswered)?.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        let user = user.and_then(|user| {
            Some(User {
                name: user.username.filter(|name| !name.is_empty())?,
                uid: user.uid,
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default(),
            })
        });
        let now = Instant::now();
        let lasts = if user.is_some() { YES } else { NO };
        lock(&self.known).put(digest, user.clone(), now + lasts, now);
        Ok(user)
    }

    /// Whether somebody may do something to a part of the node.
    async fn may(
        &self,
        user: &User,
        verb: &'static str,
        subresource: &'static str,
    ) -> Result<bool, Refusal> {
        let key = (user.clone(), verb, subresource);
        let seen = lock(&self.allowed).get(&key, Instant::now());
        if let Some(answer) = seen {
            return Ok(answer);
        }
        let attributes = ResourceAttributes {
            resource: Some("nodes".to_owned()),
            subresource: Some(subresource.to_owned()),
            verb: Some(verb.to_owned()),
            name: Some(self.node.clone()),
            version: Some("v1".to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            uid: user.uid.clone(),
            groups: Some(user.groups.clone()),
            extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let _turn = self.questions.acquire().await;
        let review = self.access.create(&PostParams::default(), &review).await;
        let allowed = review.map_err(Refusal::Unanswered)?.status.is_some_and(|it| it.allowed);
        let now = Instant::now();
        let lasts = if allowed { YES } else { NO };
        lock(&self.allowed).put(key, allowed, now + lasts, now);
        Ok(allowed)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_follows_the_word_bearer() {
        let read = |text: &str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, text.parse().unwrap())]);
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(read("Bearer abc.def").as_deref(), Some("abc.def"));
        assert_eq!(read("bearer  abc").as_deref(), Some("abc"));
        assert_eq!(read("Bearer "), None);
        assert_eq!(read("Basic abc"), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}

//! Keeps the token of this cluster: makes it, makes it again when it is gone, and knows it.

use std::future::Future;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::{manager, object};
use liqo_identity::secret;
use liqo_identity::token::{ENTROPY, Token};
use liqo_kit::apply::{self, Writer};
use liqo_kit::keyed::{Next, Queue};
use liqo_kit::retry::{Failure, Retry};
use liqo_kit::watch::{Key, Store, watch};
use tokio::sync::watch::{Receiver, Sender, channel};
use tracing::info;

/// The token as it is now; a clone knows the same one.
#[derive(Clone)]
pub struct Keeper(Receiver<Option<Token>>);

impl Keeper {
    /// Follows the Secret in a namespace. The future does the keeping; without it, nothing happens.
    pub fn new(client: Client, namespace: &str) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (send, receive) = channel(None);
        (Self(receive), keep(Api::namespaced(client, namespace), namespace.to_owned(), send))
    }

    /// The token; waits until it is known, unless nobody keeps it.
    pub async fn token(&self) -> Option<Token> {
        let mut receive = self.0.clone();
        receive.wait_for(Option::is_some).await.ok()?.clone()
    }
}

async fn keep(secrets: Api<Secret>, namespace: String, send: Sender<Option<Token>>) {
    let only = format!("metadata.name={}", object::AUTH_TOKEN_SECRET);
    let (store, touched) = watch(secrets.clone(), Config::default().fields(&only));
    let key = Key::namespaced(&namespace, object::AUTH_TOKEN_SECRET);
    // A Secret that was never there touches nothing, so the first look is ours.
    let first = {
        let (store, key) = (store.clone(), key.clone());
        stream::once(async move { store.wait_until_ready().await.is_ok().then_some(key) })
            .filter_map(std::future::ready)
    };
    let writer = Writer::owning(manager::AUTH);
    let touched = stream::select(touched, first);
    Queue::new("token")
        .run(touched, |key| look(&secrets, &namespace, &store, &writer, &send, key))
        .await;
}

async fn look(
    secrets: &Api<Secret>,
    namespace: &str,
    store: &Store<Secret>,
    writer: &Writer,
    send: &Sender<Option<Token>>,
    key: Key,
) -> Result<Next, Error> {
    let found = store.object(&key);
    let token = found.as_deref().and_then(secret::token);
    let is_known = token.is_some();
    send.send_replace(token);
    if is_known {
        return Ok(Next::AwaitChange);
    }
    let want = secret::auth_token(namespace, &Token::from_chance(&chance()));
    if found.is_some() {
        // It is there, and holds no token.
        writer.apply(secrets, &want, None).await?;
    } else {
        match secrets.create(&PostParams::default(), &want).await {
            // Somebody was faster; the watch tells what they chose.
            Err(kube::Error::Api(status)) if status.code == 409 => return Ok(Next::AwaitChange),
            made => made?,
        };
    }
    info!(secret = %key, "Token made");
    Ok(Next::AwaitChange)
}

fn chance() -> [u8; ENTROPY] {
    let mut bytes = [0; ENTROPY];
    rand::fill(&mut bytes);
    bytes
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Apply(#[from] apply::Error),
    #[error("cannot make the token")]
    Make(#[from] kube::Error),
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        // Without a token, nobody can peer: what is refused now may be allowed in a moment.
        Retry::Soon
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Apply(error) => error.reason(),
            Self::Make(error) => error.reason(),
        }
    }
}

#[cfg(test)]
impl Keeper {
    /// A token that never changes.
    pub fn of(token: &str) -> Self {
        Self(channel(Token::known(token)).1)
    }
}

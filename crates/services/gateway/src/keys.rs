//! The gateway's own keys: made once, and kept in a Secret.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use liqo_api::keys::{label, object, secret};
use liqo_tunnel::PrivateKey;
use tracing::info;

use crate::error::Error;

/// The key, as it was made by whoever was first.
pub(crate) async fn own(client: &Client, namespace: &str) -> Result<PrivateKey, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let name = object::WIREGUARD_SECRET;
    let read = Error::request("read the gateway's keys");
    if let Some(secret) = secrets.get_opt(name).await.map_err(read)? {
        return key_in(&secret);
    }
    let key = PrivateKey::generate();
    match secrets.create(&PostParams::default(), &secret_of(&key)).await {
        Ok(_) => {
            info!(secret = name, public_key = %key.public(), "Keys made");
            Ok(key)
        }
        // Another replica was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            key_in(&secrets.get(name).await.map_err(Error::request("read the gateway's keys"))?)
        }
        Err(error) => Err(Error::request("keep the gateway's keys")(error)),
    }
}

fn key_in(secret: &Secret) -> Result<PrivateKey, Error> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(secret::WIREGUARD_PRIVATE_KEY));
    let text = bytes.and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
    let key = text.and_then(|text| PrivateKey::from_base64(text).ok());
    key.ok_or_else(|| Error::Keys(object::WIREGUARD_SECRET.to_owned()))
}

fn secret_of(key: &PrivateKey) -> Secret {
    let pairs = [
        (secret::WIREGUARD_PRIVATE_KEY, key.to_base64()),
        (secret::WIREGUARD_PUBLIC_KEY, key.public().to_string()),
    ];
    let mark = (label::TUNNEL_KEY.to_owned(), label::TUNNEL_KEY_WIREGUARD.to_owned());
    Secret {
        metadata: ObjectMeta {
            name: Some(object::WIREGUARD_SECRET.to_owned()),
            labels: Some(BTreeMap::from([mark])),
            ..ObjectMeta::default()
        },
        data: Some(pairs.map(|(key, text)| (key.to_owned(), ByteString(text.into()))).into()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_kept() {
        let key = PrivateKey::generate();
        assert_eq!(key_in(&secret_of(&key)).unwrap().public(), key.public());
    }

    #[test]
    fn a_secret_without_keys_is_named() {
        let error = key_in(&Secret::default()).unwrap_err().to_string();
        assert!(error.contains("wireguard-pubkey") && error.contains("delete it"), "{error}");
    }
}

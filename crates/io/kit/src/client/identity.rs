//! The identity that a remote cluster gave us, as its Secret tells it.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::Config;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use liqo_api::keys::secret as field;
use secrecy::SecretString;

/// The one name in a kubeconfig that has no choices.
const NAME: &str = "remote";

/// A Secret is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A field is not there.
    #[error("'{0}' is missing")]
    Missing(&'static str),
    /// A field is not text.
    #[error("'{0}' is not text")]
    NotText(&'static str),
    /// The fields do not make up a configuration.
    #[error("cannot use the identity")]
    Unusable(#[source] Box<kube::config::KubeconfigError>),
    /// It is one for AWS.
    #[error("identities of AWS are not supported")]
    Aws,
}

/// Where a remote cluster is, who we are there, and which namespace is ours.
#[derive(Clone)]
pub struct Identity {
    /// The namespace that the remote cluster keeps for us.
    pub namespace: String,
    url: String,
    authority: Option<String>,
    proxy: Option<String>,
    certificate: String,
    key: SecretString,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("namespace", &self.namespace)
            .field("url", &self.url)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

impl TryFrom<&Secret> for Identity {
    type Error = IdentityError;

    fn try_from(secret: &Secret) -> Result<Self, IdentityError> {
        if text(secret, field::AWS_ACCESS_KEY_ID)?.is_some() {
            return Err(IdentityError::Aws);
        }
        let required = |name| text(secret, name)?.ok_or(IdentityError::Missing(name));
        Ok(Self {
            namespace: required(field::NAMESPACE)?,
            url: required(field::API_SERVER_URL)?,
            authority: text(secret, field::API_SERVER_CA)?,
            proxy: text(secret, field::PROXY_URL)?,
            certificate: required(field::CERTIFICATE)?,
            key: required(field::PRIVATE_KEY)?.into(),
        })
    }
}

impl Identity {
    /// The configuration of a client with this identity.
    pub async fn config(&self) -> Result<Config, IdentityError> {
        let encode = |text: &str| BASE64_STANDARD.encode(text);
        let cluster = Cluster {
            server: Some(self.url.clone()),
            certificate_authority_data: self.authority.as_deref().map(encode),
            proxy_url: self.proxy.clone(),
            ..Cluster::default()
        };
        let user = AuthInfo {
            client_certificate_data: Some(encode(&self.certificate)),
            client_key_data: Some(encode(secrecy::ExposeSecret::expose_secret(&self.key)).into()),
            ..AuthInfo::default()
        };
        let context = Context {
            cluster: NAME.to_owned(),
            user: Some(NAME.to_owned()),
            namespace: Some(self.namespace.clone()),
            ..Context::default()
        };
        let name = || NAME.to_owned();
        let file = Kubeconfig {
            clusters: vec![NamedCluster {
                name: name(),
                cluster: Some(cluster),
                ..NamedCluster::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: name(),
                auth_info: Some(user),
                ..NamedAuthInfo::default()
            }],
            contexts: vec![NamedContext {
                name: name(),
                context: Some(context),
                ..NamedContext::default()
            }],
            current_context: Some(name()),
            ..Kubeconfig::default()
        };
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .map_err(|source| IdentityError::Unusable(Box::new(source)))
    }
}

/// A field as text; one that is empty is not there.
fn text(secret: &Secret, name: &'static str) -> Result<Option<String>, IdentityError> {
    let Some(bytes) = secret.data.as_ref().and_then(|data| data.get(name)) else { return Ok(None) };
    let text = String::from_utf8(bytes.0.clone()).map_err(|_| IdentityError::NotText(name))?;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let mut identity = whole();
        identity.data.as_mut().unwrap().remove(field::CERTIFICATE);
        let error = Identity::try_from(&identity).unwrap_err();
        assert_eq!(error.to_string(), "'certificate' is missing");
    }

    #[test]
    fn the_private_key_is_not_printed() {
        let text = format!("{:?}", Identity::try_from(&whole()).unwrap());
        assert!(text.contains("https://198.18.0.1:6443") && !text.contains("hush"), "{text}");
    }

    #[tokio::test]
    async fn url_proxy_and_namespace_reach_the_configuration() {
        let config = Identity::try_from(&whole()).unwrap().config().await.unwrap();
        assert_eq!(config.cluster_url, "https://198.18.0.1:6443");
        assert_eq!(config.default_namespace, "liqo-tenant-rome");
        assert_eq!(config.proxy_url.unwrap(), "http://198.18.0.2:8118");
        assert!(config.root_cert.is_none(), "the system's authorities count");
    }

    fn whole() -> Secret {
        let data = [
            (field::NAMESPACE, "liqo-tenant-rome"),
            (field::API_SERVER_URL, "https://198.18.0.1:6443"),
            (field::PROXY_URL, "http://198.18.0.2:8118"),
            (field::CERTIFICATE, "certificate"),
            (field::PRIVATE_KEY, "hush"),
        ];
        let data = data.map(|(name, text)| (name.to_owned(), ByteString(text.into())));
        Secret { data: Some(data.into()), ..Secret::default() }
    }
}

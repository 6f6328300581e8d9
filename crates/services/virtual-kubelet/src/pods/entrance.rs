//! How pods in the other cluster reach the API server of this one.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use liqo_pod_offloading::access::{Access, Server, legacy_secrets};
use liqo_reflection::ServiceAccounts;
use tokio::sync::OnceCell;

use super::Error;
use super::side::Side;
use crate::addresses::Translator;
use crate::args::ReflectionArgs;
use crate::reflection::link::ask;

/// The API that gives tokens, among those of the core.
const TOKENS: &str = "serviceaccounts/token";

/// How pods in the other cluster reach the API server of this one.
pub(crate) struct Entrance {
    tokens: ServiceAccounts,
    host: Option<String>,
    port: u16,
    /// Whether the host is what the other cluster calls it.
    is_public: bool,
    /// What the address of the host is called in the other cluster.
    address: OnceCell<IpAddr>,
}

impl Entrance {
    /// Follows from the command line, and from how this cluster gives tokens.
    pub(crate) fn new(args: &ReflectionArgs, tokens: ServiceAccounts) -> Self {
        let public = args.home_api_server_host.clone().zip(args.home_api_server_port);
        let is_public = public.is_some();
        let own = || (args.kubernetes_service_host.clone(), args.kubernetes_service_port);
        let (host, port) = public.map_or_else(own, |(host, port)| (Some(host), port));
        Self { tokens, host, port, is_public, address: OnceCell::new() }
    }

    /// What a pod with a service account is given.
    pub(super) async fn access(
        &self,
        account: &str,
        translator: &Translator,
        side: &Side,
    ) -> Result<Access, Error> {
        if self.tokens == ServiceAccounts::Disabled {
            return Ok(Access::default());
        }
        let server = match &self.host {
            None => None,
            Some(host) => Some(self.server(host, translator).await?),
        };
        let secret = match self.tokens {
            ServiceAccounts::Legacy => legacy_secret(account, side).await?,
            ServiceAccounts::Disabled | ServiceAccounts::TokenApi => None,
        };
        Ok(Access { tokens: self.tokens, server, secret })
    }

    async fn server(&self, host: &str, translator: &Translator) -> Result<Server, Error> {
        match host.parse::<IpAddr>() {
            Ok(address) if !self.is_public => {
                let translate = || translator.map_endpoint(address);
                let address = self.address.get_or_try_init(translate).await?;
                Ok(Server::at(*address, self.port))
            }
            Ok(_) | Err(_) => Ok(Server { host: host.to_owned(), port: self.port, address: None }),
        }
    }
}

/// The Secret in the other cluster with the token of a service account.
async fn legacy_secret(account: &str, side: &Side) -> Result<Option<String>, Error> {
    let secrets = side.api::<PartialObjectMeta<Secret>>();
    let selector = format!("{},{}", side.place.selector(), legacy_secrets(account));
    let params = ListParams::default().labels(&selector);
    let what = || format!("find the token of service account {account}");
    let found = ask(what, secrets.list(&params)).await?;
    Ok(found.items.into_iter().find_map(|secret| secret.metadata.name))
}

/// How this cluster gives tokens.
pub(crate) async fn tokens(
    client: &Client,
    args: &ReflectionArgs,
) -> kube::Result<ServiceAccounts> {
    if !args.enable_apiserver_support || args.workers.service_account == 0 {
        return Ok(ServiceAccounts::Disabled);
    }
    let resources = client.list_core_api_resources("v1").await?.resources;
    let asks = resources.iter().any(|resource| resource.name == TOKENS);
    Ok(if asks { ServiceAccounts::TokenApi } else { ServiceAccounts::Legacy })
}

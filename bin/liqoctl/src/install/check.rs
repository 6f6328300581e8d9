//! Looks at the cluster for what would not work.

use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use liqo_api::keys::label;
use liqo_install::provider::Facts;
use liqo_install::sanity;

use crate::cluster::Cluster;
use crate::failure::Failure;

/// What an installation needs most: group, resource, and whether it is in a namespace.
const NEEDS: [(&str, &str, bool); 6] = [
    ("", "namespaces", false),
    ("apiextensions.k8s.io", "customresourcedefinitions", false),
    ("rbac.authorization.k8s.io", "clusterroles", false),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", false),
    ("", "secrets", true),
    ("apps", "deployments", true),
];
/// How many objects are listed at a time.
const PAGE: u32 = 500;

/// Makes sure that the user may install.
pub async fn permissions(cluster: &Cluster, namespace: &str) -> Result<(), Failure> {
    let reviews = NEEDS.into_iter().map(|(group, resource, inside)| async move {
        let api: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some("create".to_owned()),
            namespace: inside.then(|| namespace.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let answer = api.create(&PostParams::default(), &review).await?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        let full =
            if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let place = if inside { format!(" in namespace {namespace}") } else { String::new() };
        Ok::<_, kube::Error>((!allowed).then(|| format!("create {full}{place}")))
    });
    let missing = try_join_all(reviews)
        .await
        .map_err(|error| Failure::new("cannot find out what you may do", error))?;
    let missing: Vec<String> = missing.into_iter().flatten().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::text(format!("you may not install Liqo here; you cannot {}", missing.join(", ")))
        .hint("Use the context of a cluster administrator, or ask one."))
}

/// Makes sure that the networks are those that pods and services have.
pub async fn networks(cluster: &Cluster, facts: &Facts) -> Result<(), Failure> {
    let hint = |text: String| {
        Failure::text(text).hint("Correct the network, or add --skip-validation if it is right.")
    };
    let pods: Vec<Pod> = all(Api::all(cluster.client.clone())).await?;
    let inside = pods.iter().filter(|pod| {
        let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default();
        !on_host && !pod.labels().contains_key(label::SHADOW_POD)
    });
    let addresses: Vec<(String, String)> =
        inside.filter_map(|pod| Some((place(pod), pod.status.as_ref()?.pod_ip.clone()?))).collect();
    sanity::pods(facts.pod_cidr, pairs(&addresses)).map_err(hint)?;
    let services: Vec<Service> = all(Api::all(cluster.client.clone())).await?;
    let addresses: Vec<(String, String)> = services
        .iter()
        .filter_map(|one| Some((place(one), one.spec.as_ref()?.cluster_ip.clone()?)))
        .collect();
    sanity::services(facts.service_cidr, pairs(&addresses)).map_err(hint)
}

async fn all<K>(api: Api<K>) -> Result<Vec<K>, Failure>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let mut items = vec![];
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let what = format!("cannot list {}", K::plural(&()));
        let list = api.list(&params).await.map_err(|error| Failure::new(what, error))?;
        items.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(items),
        }
    }
}

fn place<K: kube::Resource>(object: &K) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

fn pairs(addresses: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    addresses.iter().map(|(name, address)| (name.as_str(), address.as_str()))
}

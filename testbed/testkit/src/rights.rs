//! Users with the rights that the chart grants, and no others.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject,
};
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use crate::ControlPlane;

/// How long the API server may take to notice a right.
const LIMIT: Duration = Duration::from_mins(1);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// The group of everything about rights.
const RBAC: &str = "rbac.authorization.k8s.io";

/// The group of all whom an API server knows.
const EVERYBODY: &str = "system:authenticated";

/// A certificate and its private key, in PEM.
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl ControlPlane {
    /// Grants a user what a component or a role of the chart may do in a cluster; only in one
    /// namespace if one is given.
    pub async fn grant(&self, role: &str, user: &str, namespace: Option<&str>) -> Result<()> {
        #[derive(Deserialize)]
        struct Rules {
            cluster: Vec<PolicyRule>,
        }
        let all = liqo_permissions::all();
        let (_, rules) = all
            .iter()
            .find(|(name, _)| *name == role)
            .with_context(|| format!("a role '{role}'"))?;
        let rules: Rules = serde_saphyr::from_str(&rules.to_string())?;
        let cluster_role = ClusterRole {
            metadata: named(role),
            rules: Some(rules.cluster),
            ..ClusterRole::default()
        };
        let new = PostParams::default();
        Api::<ClusterRole>::all(self.client()).create(&new, &cluster_role).await?;
        self.bind(role, user, namespace).await?;
        let first = cluster_role.rules.iter().flatten().next().context("a role has rules")?;
        self.wait_until_allowed(first, user, namespace).await?;
        self.wait_until_welcome(user).await
    }

    /// Lets the API server call kubelets, as clusters do.
    pub async fn let_the_api_server_call_kubelets(&self) -> Result<()> {
        let user = "kube-apiserver-kubelet-client";
        self.bind("system:kubelet-api-admin", user, None).await?;
        let rule = PolicyRule {
            resources: Some(vec!["nodes/proxy".to_owned()]),
            verbs: vec!["create".to_owned()],
            ..PolicyRule::default()
        };
        self.wait_until_allowed(&rule, user, None).await
    }

    /// Waits until a user may ask for what everybody may: an API server grants that to all whom it
    /// knows, a moment after its start.
    async fn wait_until_welcome(&self, user: &str) -> Result<()> {
        for path in ["/version", "/api/v1"] {
            let attributes =
                NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
            let spec = SubjectAccessReviewSpec {
                user: Some(user.to_owned()),
                groups: Some(vec![EVERYBODY.to_owned()]),
                non_resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            };
            self.wait_for(spec).await?;
        }
        Ok(())
    }

    /// Waits until the API server has noticed that a user may do what a rule allows.
    async fn wait_until_allowed(
        &self,
        rule: &PolicyRule,
        user: &str,
        namespace: Option<&str>,
    ) -> Result<()> {
        let first = |list: &Option<Vec<String>>| list.iter().flatten().next().cloned();
        let resource = first(&rule.resources).unwrap_or_default();
        let (resource, part) = resource.split_once('/').unwrap_or((&resource, ""));
        let attributes = ResourceAttributes {
            group: first(&rule.api_groups),
            resource: Some(resource.to_owned()),
            subresource: Some(part.to_owned()),
            verb: rule.verbs.first().cloned(),
            namespace: namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        self.wait_for(SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        })
        .await
    }

    async fn wait_for(&self, spec: SubjectAccessReviewSpec) -> Result<()> {
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client());
        let noticed = async {
            loop {
                let review = reviews.create(&PostParams::default(), &review).await?;
                if review.status.is_some_and(|status| status.allowed) {
                    return Ok(());
                }
                // Nothing tells when a right begins to count.
                sleep(PAUSE).await;
            }
        };
        timeout(LIMIT, noticed).await.with_context(|| format!("not allowed: {:?}", review.spec))?
    }

    async fn bind(&self, role: &str, user: &str, namespace: Option<&str>) -> Result<()> {
        let role_ref = RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        };
        let subject = Subject {
            api_group: Some(RBAC.to_owned()),
            kind: "User".to_owned(),
            name: user.to_owned(),
            namespace: None,
        };
        let (new, subjects) = (PostParams::default(), Some(vec![subject]));
        let metadata = named(&format!("{role}-{user}"));
        if let Some(namespace) = namespace {
            let binding = RoleBinding { metadata, role_ref, subjects };
            Api::namespaced(self.client(), namespace).create(&new, &binding).await?;
        } else {
            let binding = ClusterRoleBinding { metadata, role_ref, subjects };
            Api::all(self.client()).create(&new, &binding).await?;
        }
        Ok(())
    }

    /// A client that is somebody else.
    pub async fn as_user(&self, user: &str) -> Result<Client> {
        let mut config = self.config().await?;
        config.auth_info.impersonate = Some(user.to_owned());
        Ok(Client::try_from(config)?)
    }

    /// How an administrator reaches it.
    pub async fn config(&self) -> Result<Config> {
        let file = Kubeconfig::read_from(self.kubeconfig())?;
        Ok(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
    }

    /// A certificate by which the API server knows a user.
    pub fn certify(&self, user: &str) -> Result<Certified> {
        let file = |name: &str| {
            let path = self.kubeconfig().with_file_name("pki").join(name);
            fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
        };
        let authority = KeyPair::from_pem(&file("ca.key")?)?;
        let mut issuer = CertificateParams::default();
        // The name that the playground gives its authority.
        issuer.distinguished_name.push(DnType::CommonName, "kubernetes");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &Issuer::new(issuer, authority))?;
        Ok(Certified { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

//! What a real API server makes of the resource definitions.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt as _};
use liqo_testkit::ControlPlane;
use serde_json::{Value, json};

#[tokio::test]
async fn a_real_api_server_accepts_every_definition_and_enforces_what_must_not_change() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client();
    define_all(&client).await;
    defaults_are_filled_in(&client).await;
    a_known_identity_cannot_change(&client).await;
    an_offloading_has_one_name_and_one_strategy(&client).await;
    values_outside_an_enumeration_are_refused(&client).await;
}

async fn define_all(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in liqo_api::all_crds() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    for definition in liqo_api::all_crds() {
        let name = definition.name_any();
        await_condition(definitions.clone(), &name, conditions::is_crd_established())
            .await
            .unwrap();
        // A schema that is not structural would still be established, but say so here.
        let seen = definitions.get(&name).await.unwrap();
        let conditions = seen.status.and_then(|status| status.conditions).unwrap_or_default();
        let complaint = conditions.iter().find(|one| one.type_ == "NonStructuralSchema");
        assert!(complaint.is_none(), "{name}: {complaint:?}");
    }
}

async fn defaults_are_filled_in(client: &Client) {
    let clusters = kind(client, "discovery.liqo.io", "ForeignCluster", None);
    let made = clusters.create("milan", foreign_cluster()).await.unwrap();
    assert_eq!(made.data["spec"]["outgoingPeeringEnabled"], "Auto");
    assert_eq!(made.data["spec"]["incomingPeeringEnabled"], "Auto");
    assert_eq!(made.data["spec"]["insecureSkipTLSVerify"], true);
}

async fn a_known_identity_cannot_change(client: &Client) {
    let clusters = kind(client, "discovery.liqo.io", "ForeignCluster", None);
    let learned = json!({"spec": {"clusterIdentity": {
        "clusterID": "5a1f6e5e-9f3b-4a3e-8d8e-6d1c0b9a7f10", "clusterName": "milan",
    }}});
    clusters.merge("milan", learned).await.unwrap();
    let other = json!({"spec": {"clusterIdentity": {"clusterName": "turin"}}});
    let error = clusters.merge("milan", other).await.unwrap_err().to_string();
    assert!(error.contains("clusterIdentity"), "{error}");
    // What may change still does.
    clusters.merge("milan", json!({"spec": {"outgoingPeeringEnabled": "Yes"}})).await.unwrap();
}

async fn an_offloading_has_one_name_and_one_strategy(client: &Client) {
    let offloadings = kind(client, "offloading.liqo.io", "NamespaceOffloading", Some("default"));
    let error = offloadings.create("other", json!({"spec": {}})).await.unwrap_err().to_string();
    assert!(error.contains("offloading"), "{error}");
    offloadings.create("offloading", json!({"spec": {}})).await.unwrap();
    let renamed = json!({"spec": {"namespaceMappingStrategy": "EnforceSameName"}});
    let error = offloadings.merge("offloading", renamed).await.unwrap_err().to_string();
    assert!(error.contains("namespaceMappingStrategy"), "{error}");
}

async fn values_outside_an_enumeration_are_refused(client: &Client) {
    let clusters = kind(client, "discovery.liqo.io", "ForeignCluster", None);
    let maybe = json!({"spec": {"outgoingPeeringEnabled": "Maybe"}});
    let error = clusters.merge("milan", maybe).await.unwrap_err().to_string();
    assert!(error.contains("Maybe") && error.contains("Auto"), "{error}");
}

fn foreign_cluster() -> Value {
    json!({"spec": {"foreignAuthUrl": "https://auth.milan.example:443"}})
}

/// Objects of one kind.
struct Kind {
    api: Api<DynamicObject>,
    resource: ApiResource,
}

fn kind(client: &Client, group: &str, name: &str, namespace: Option<&str>) -> Kind {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1alpha1", name));
    let api = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    Kind { api, resource }
}

impl Kind {
    async fn create(&self, name: &str, data: Value) -> Result<DynamicObject, kube::Error> {
        let object = DynamicObject::new(name, &self.resource).data(data);
        self.api.create(&PostParams::default(), &object).await
    }

    async fn merge(&self, name: &str, change: Value) -> Result<DynamicObject, kube::Error> {
        self.api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await
    }
}

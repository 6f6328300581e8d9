//! Offloading against a real API server; what the controller manager does, the test does.
#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use std::process::{Output, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use liqo_api::offloading::NamespaceOffloading;
use liqo_testkit::ControlPlane;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_namespace_is_offloaded_and_taken_back() {
    let plane = ControlPlane::start().await.unwrap();
    plane.define(liqo_api::all_crds()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(plane.client());
    let metadata = ObjectMeta { name: Some("shop".to_owned()), ..ObjectMeta::default() };
    let shop = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &shop).await.unwrap();
    let lab = Lab { offloadings: Api::namespaced(plane.client(), "shop"), plane };

    lab.what_makes_no_sense_is_told().await;
    lab.the_object_can_be_had_alone().await;
    lab.nobody_who_looks_is_told_in_time().await;
    lab.a_namespace_reaches_other_clusters().await;
    lab.a_change_keeps_the_mapping_and_warns().await;
    lab.what_fails_is_told_with_its_reason().await;
    lab.no_cluster_is_a_warning().await;
    lab.taking_back_waits_for_every_cluster().await;
    lab.what_is_not_offloaded_is_not_an_error().await;
}

struct Lab {
    plane: ControlPlane,
    offloadings: Api<NamespaceOffloading>,
}

impl Lab {
    async fn what_makes_no_sense_is_told(&self) {
        let (text, fine) = self.run(&["offload", "namespace", "nowhere"]).await;
        assert!(!fine && text.contains("there is no namespace nowhere"), "{text}");
        let (text, fine) = self.run(&["offload", "ns", "shop", "-l", "a in b"]).await;
        assert!(!fine && text.contains("'a in b' is no selector"), "{text}");
        assert!(self.offloadings.get_opt("offloading").await.unwrap().is_none());
    }

    async fn the_object_can_be_had_alone(&self) {
        let words = ["offload", "ns", "shop", "-o", "yaml", "--pod-offloading-strategy", "Remote"];
        let (text, fine) = self.run(&words).await;
        assert!(fine, "{text}");
        insta::assert_snapshot!(text, @"
        apiVersion: offloading.liqo.io/v1alpha1
        kind: NamespaceOffloading
        metadata:
          name: offloading
          namespace: shop
        spec:
          clusterSelector:
            nodeSelectorTerms: []
          namespaceMappingStrategy: DefaultName
          podOffloadingStrategy: Remote
        ");
        let words = ["offload", "ns", "shop", "-o", "json", "-l", "a=b,!c", "-l", "d in (e,f)"];
        let (text, _) = self.run(&words).await;
        let shown: Value = serde_json::from_str(&text).unwrap();
        let terms = &shown["spec"]["clusterSelector"]["nodeSelectorTerms"];
        assert_eq!(terms.as_array().unwrap().len(), 2, "{text}");
        assert_eq!(terms[0]["matchExpressions"].as_array().unwrap().len(), 2, "{text}");
        assert!(self.offloadings.get_opt("offloading").await.unwrap().is_none());
    }

    async fn nobody_who_looks_is_told_in_time(&self) {
        let (text, fine) = self.run(&["offload", "ns", "shop", "--timeout", "1s"]).await;
        assert!(!fine && text.contains("timed out waiting for the condition"), "{text}");
        assert!(text.contains("nobody has looked at it"), "{text}");
        let (text, _) = self.run(&["unoffload", "ns", "shop"]).await;
        assert!(text.contains("Namespace shop is in this cluster only"), "{text}");
    }

    async fn a_namespace_reaches_other_clusters(&self) {
        let words = ["offload", "ns", "shop", "--namespace-mapping-strategy", "EnforceSameName"];
        let running = self.start(&words);
        self.report(1, "InProgress", "Creating").await;
        self.report(1, "Ready", "NamespaceCreated").await;
        let (text, fine) = ended(running).await;
        assert!(fine, "{text}");
        assert!(text.contains("Namespace shop extends to milan-ee0b4a as shop"), "{text}");
    }

    async fn a_change_keeps_the_mapping_and_warns(&self) {
        let running = self.start(&["offload", "ns", "shop", "--pod-offloading-strategy", "Local"]);
        self.report(2, "Ready", "NamespaceCreated").await;
        let (text, fine) = ended(running).await;
        assert!(fine && text.contains("WARN  Pods that run already stay"), "{text}");
        let spec = self.offloadings.get("offloading").await.unwrap().spec;
        let shown = serde_json::to_value(spec).unwrap();
        assert_eq!(shown["namespaceMappingStrategy"], "EnforceSameName");
        assert_eq!(shown["podOffloadingStrategy"], "Local");
    }

    async fn what_fails_is_told_with_its_reason(&self) {
        let running = self.start(&["offload", "ns", "shop"]);
        self.report(3, "AllFailed", "CreationLoopBackOff").await;
        let (text, fine) = ended(running).await;
        assert!(!fine && text.contains("- milan-ee0b4a: because CreationLoopBackOff"), "{text}");
    }

    async fn no_cluster_is_a_warning(&self) {
        let running = self.start(&["offload", "ns", "shop", "-l", "region=nowhere"]);
        self.report(4, "NoClusterSelected", "Creating").await;
        let (text, fine) = ended(running).await;
        assert!(fine && text.contains("WARN  Namespace shop extends to no cluster"), "{text}");
    }

    async fn taking_back_waits_for_every_cluster(&self) {
        let hold = json!({"metadata": {"finalizers": ["test/hold"]}});
        self.patch(hold).await;
        let words = ["unoffload", "namespace", "shop", "--timeout", "2s", "--verbose"];
        let running = self.start(&words);
        self.report(5, "Terminating", "Terminating").await;
        let (text, fine) = ended(running).await;
        assert!(!fine && text.contains("milan-ee0b4a still has namespace shop"), "{text}");
        self.patch(json!({"metadata": {"finalizers": null}})).await;
    }

    async fn what_is_not_offloaded_is_not_an_error(&self) {
        let (text, fine) = self.run(&["unoffload", "ns", "shop"]).await;
        assert!(fine && text.contains("Namespace shop is not offloaded"), "{text}");
    }

    /// Does what the controller manager does with a generation of the object.
    async fn report(&self, generation: i64, phase: &str, reason: &str) {
        let is_it = move |found: Option<&NamespaceOffloading>| {
            found.is_some_and(|found| {
                found.metadata.generation >= Some(generation)
                    || found.metadata.deletion_timestamp.is_some()
            })
        };
        let seen = await_condition(self.offloadings.clone(), "offloading", is_it);
        let seen = timeout(LIMIT, seen).await.unwrap().unwrap().unwrap();
        let is_ready = if phase == "Ready" { "True" } else { "False" };
        let message = format!("because {reason}");
        let status = json!({"status": {
            "observedGeneration": seen.metadata.generation,
            "offloadingPhase": phase,
            "remoteNamespaceName": "shop",
            "remoteNamespacesConditions": {"milan-ee0b4a": [
                {"type": "OffloadingRequired", "status": "True"},
                {"type": "Ready", "status": is_ready, "reason": reason, "message": message},
            ]},
        }});
        let params = PatchParams::default();
        let name = seen.name_any();
        self.offloadings.patch_status(&name, &params, &Patch::Merge(status)).await.unwrap();
    }

    async fn patch(&self, change: Value) {
        let params = PatchParams::default();
        self.offloadings.patch("offloading", &params, &Patch::Merge(change)).await.unwrap();
    }

    async fn run(&self, words: &[&str]) -> (String, bool) {
        ended(self.start(words)).await
    }

    fn start(&self, words: &[&str]) -> tokio::process::Child {
        Command::new(env!("CARGO_BIN_EXE_liqoctl"))
            .args(words)
            .env_clear()
            .env("KUBECONFIG", self.plane.kubeconfig())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }
}

/// What a command said, and whether it ended well.
async fn ended(child: tokio::process::Child) -> (String, bool) {
    let Output { status, stdout, stderr } =
        timeout(LIMIT, child.wait_with_output()).await.unwrap().unwrap();
    (String::from_utf8([stdout, stderr].concat()).unwrap(), status.success())
}

//! What holds for the permissions of all components, as they are written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use liqo_api::all_crds;
use liqo_api::keys::{component, object};
use serde::Deserialize;

/// A file, as the chart reads it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: Vec<PolicyRule>,
    #[serde(default)]
    namespace: Vec<PolicyRule>,
}

/// Verbs that change nothing.
const HARMLESS: [&str; 3] = ["get", "list", "watch"];

#[test]
fn every_file_is_that_of_a_component_or_a_role() {
    let components = [
        component::AUTH,
        component::CONTROLLER_MANAGER,
        component::CRD_REPLICATOR,
        component::DISCOVERY,
        component::GATEWAY,
        component::METRIC_AGENT,
        component::NETWORK_MANAGER,
        component::PRE_DELETE,
        component::ROUTE,
        component::TELEMETRY,
    ];
    let roles = [
        object::ROLE_BASIC,
        object::ROLE_INCOMING,
        object::ROLE_OUTGOING,
        object::ROLE_VIRTUAL_KUBELET_LOCAL,
        object::ROLE_VIRTUAL_KUBELET_REMOTE,
    ];

    let components = components.map(|name| format!("{}{name}", component::PREFIX));
    let known: BTreeSet<String> = components.into_iter().chain(roles.map(str::to_owned)).collect();
    let named: BTreeSet<String> =
        files().keys().map(|name| format!("{}{name}", component::PREFIX)).collect();
    assert_eq!(named, known);
}

#[test]
fn no_name_is_given_twice() {
    assert_eq!(files().len(), crate::all().len());
}

#[test]
fn nothing_is_granted_with_a_wildcard() {
    for (name, rule) in rules() {
        let words = [rule.api_groups, rule.resources, rule.resource_names, Some(rule.verbs)];
        let mut words = words.into_iter().flatten().flatten();
        assert!(words.all(|word| !word.contains('*')), "{name}");
    }
}

#[test]
fn every_rule_allows_something_on_something() {
    for (name, rule) in rules() {
        assert!(!rule.verbs.is_empty(), "{name}: {rule:?}");
        assert!(rule.resources.is_some_and(|resources| !resources.is_empty()), "{name}");
        assert_eq!(rule.api_groups.map(|groups| groups.len()), Some(1), "{name}");
    }
}

#[test]
fn every_resource_of_ours_exists() {
    let mut known: BTreeSet<(String, String)> = all_crds()
        .into_iter()
        .flat_map(|crd| {
            let plural = crd.spec.names.plural;
            let parts = ["", "/status", "/finalizers"];
            parts.map(|part| (crd.spec.group.clone(), format!("{plural}{part}")))
        })
        .collect();
    // Served by the metric agent.
    known.extend(
        ["scrape", "scrape/metrics"]
            .map(|resource| (object::GROUP_METRICS.to_owned(), resource.to_owned())),
    );

    for (name, rule) in rules() {
        let group = rule.api_groups.unwrap_or_default().concat();
        for resource in rule.resources.unwrap_or_default() {
            let used = (group.clone(), resource);
            assert!(!group.ends_with(".liqo.io") || known.contains(&used), "{name}: {used:?}");
        }
    }
}

#[test]
fn few_may_write_secrets_of_all_namespaces() {
    let is_writing = |rule: &PolicyRule| {
        let resources = rule.resources.iter().flatten();
        resources.into_iter().any(|resource| resource == "secrets")
            && rule.verbs.iter().any(|verb| !HARMLESS.contains(&verb.as_str()))
    };
    let mut writers = BTreeSet::new();
    for (name, file) in files() {
        for rule in file.cluster.into_iter().filter(is_writing) {
            writers.insert((name, rule.resource_names.unwrap_or_default().join(" ")));
        }
    }

    let any = String::new();
    let allowed = [
        // Only what it is about: the certificates of peers.
        (component::AUTH, object::REMOTE_CERTIFICATE_SECRET.to_owned()),
        (component::CONTROLLER_MANAGER, any.clone()),
        (component::VIRTUAL_KUBELET_LOCAL, any.clone()),
        // For peers in offloaded namespaces alone; who grants it holds it, too.
        (component::VIRTUAL_KUBELET_REMOTE, any),
    ];
    assert_eq!(writers, BTreeSet::from(allowed));
}

fn rules() -> Vec<(&'static str, PolicyRule)> {
    let files = files().into_iter();
    let rules = files
        .flat_map(|(name, file)| {
            file.cluster.into_iter().chain(file.namespace).map(move |rule| (name, rule))
        })
        .collect::<Vec<_>>();
    assert!(!rules.is_empty());
    rules
}

fn files() -> BTreeMap<&'static str, File> {
    let all = crate::all().into_iter();
    all.map(|(name, permissions)| {
        (name, serde_saphyr::from_str(&permissions.to_string()).expect("a file is valid YAML"))
    })
    .collect()
}

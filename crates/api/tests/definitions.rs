//! What an API server, `kubectl` and a peer see of the custom resource definitions.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionVersion, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use liqo_api::{CustomResourceDefinition, all_crds};

/// Name, path and priority of a printer column.
type Column = (&'static str, &'static str, i32);

const AGE: Column = ("Age", ".metadata.creationTimestamp", 0);
const LOCAL: Column = ("Local", r".metadata.labels.liqo\.io/replication", 0);

#[test]
fn every_kind_has_its_names() {
    let names: Vec<String> = all_crds().iter().map(describe).collect();

    assert_eq!(
        names,
        [
            "ForeignCluster foreignclusters.discovery.liqo.io Cluster liqo status",
            "ResourceRequest resourcerequests.discovery.liqo.io Namespaced liqo status",
            "IpamStorage ipamstorages.net.liqo.io Cluster liqo",
            "NatMapping natmappings.net.liqo.io Cluster liqo status",
            "NetworkConfig networkconfigs.net.liqo.io Namespaced liqo status",
            "TunnelEndpoint tunnelendpoints.net.liqo.io Namespaced liqo status",
            "NamespaceOffloading namespaceoffloadings.offloading.liqo.io nsof Namespaced liqo status",
            "ResourceOffer resourceoffers.sharing.liqo.io offer Namespaced liqo status",
            "NamespaceMap namespacemaps.virtualkubelet.liqo.io Namespaced liqo status",
            "ShadowEndpointSlice shadowendpointslices.virtualkubelet.liqo.io Namespaced",
            "ShadowPod shadowpods.virtualkubelet.liqo.io Namespaced status",
        ]
    );
}

#[test]
fn every_kind_has_one_version_that_is_served_and_stored() {
    for crd in all_crds() {
        let [version] = crd.spec.versions.as_slice() else { panic!("{:?} versions", crd.metadata) };
        assert_eq!(
            (version.name.as_str(), version.served, version.storage),
            ("v1alpha1", true, true)
        );
    }
}

#[test]
fn a_foreign_cluster_is_listed_with_the_state_of_its_peerings() {
    assert_eq!(
        columns("ForeignCluster"),
        [
            row("Type", ".spec.peeringType", 0),
            row("ClusterID", ".spec.clusterIdentity.clusterID", 1),
            row("ClusterName", ".spec.clusterIdentity.clusterName", 1),
            row("Outgoing peering", &peering("OutgoingPeering"), 0),
            row("Incoming peering", &peering("IncomingPeering"), 0),
            row("Networking", &peering("NetworkStatus"), 0),
            row("API Server", &peering("APIServerStatus"), 1),
            row("Authentication", &peering("AuthenticationStatus"), 0),
            age(),
        ]
    );
}

#[test]
fn every_other_kind_is_listed_with_what_matters_of_it() {
    let expected: [(&str, &[Column]); 10] = [
        ("ResourceRequest", &[LOCAL, AGE]),
        (
            "ResourceOffer",
            &[
                ("Status", ".status.phase", 0),
                ("VirtualKubeletStatus", ".status.virtualKubeletStatus", 0),
                LOCAL,
                AGE,
            ],
        ),
        (
            "NetworkConfig",
            &[
                ("Peering Cluster", ".spec.cluster.clusterName", 0),
                ("Endpoint IP", ".spec.endpointIP", 1),
                ("VPN Backend", ".spec.backendType", 1),
                ("Processed", ".status.processed", 0),
                LOCAL,
                AGE,
            ],
        ),
        (
            "TunnelEndpoint",
            &[
                ("Peering Cluster", ".spec.clusterIdentity.clusterName", 0),
                ("Endpoint IP", ".spec.endpointIP", 1),
                ("Backend type", ".spec.backendType", 0),
                ("Latency", ".status.connection.latency.value", 1),
                ("Connection status", ".status.connection.status", 0),
                AGE,
            ],
        ),
        (
            "NamespaceOffloading",
            &[
                ("NamespaceMappingStrategy", ".spec.namespaceMappingStrategy", 0),
                ("PodOffloadingStrategy", ".spec.podOffloadingStrategy", 0),
                ("OffloadingPhase", ".status.offloadingPhase", 0),
                ("RemoteNamespaceName", ".status.remoteNamespaceName", 10),
                AGE,
            ],
        ),
        ("NamespaceMap", &[LOCAL, AGE]),
        ("ShadowPod", &[("Status", ".status.phase", 0), AGE]),
        ("IpamStorage", &[]),
        ("NatMapping", &[]),
        ("ShadowEndpointSlice", &[]),
    ];
    for (kind, rows) in expected {
        let rows: Vec<_> =
            rows.iter().map(|(name, path, priority)| row(name, path, *priority)).collect();
        assert_eq!(columns(kind), rows, "{kind}");
    }
}

#[test]
fn what_must_be_there_is_required_and_nothing_else() {
    let expected: [(&str, &str, &[&str]); 14] = [
        ("ForeignCluster", "spec", &["foreignAuthUrl"]),
        ("ForeignCluster", "spec.clusterIdentity", &["clusterID", "clusterName"]),
        ("ForeignCluster", "status", &[]),
        ("ResourceRequest", "spec", &["authUrl", "clusterIdentity"]),
        ("ResourceRequest", "status", &["offerState"]),
        ("ResourceOffer", "spec", &["clusterId"]),
        ("ResourceOffer", "status", &["phase"]),
        (
            "NetworkConfig",
            "spec",
            &["backendType", "backend_config", "cluster", "endpointIP", "externalCIDR", "podCIDR"],
        ),
        ("NetworkConfig", "status", &["processed"]),
        ("NamespaceOffloading", "spec", &[]),
        ("NamespaceOffloading", "spec.clusterSelector", &["nodeSelectorTerms"]),
        ("NamespaceMap", "spec", &[]),
        ("ShadowPod", "spec.pod", &["containers"]),
        ("ShadowPod", "status", &["phase"]),
    ];
    for (kind, path, fields) in expected {
        assert_eq!(field(kind, path).required.unwrap_or_default(), fields, "{kind} {path}");
    }
}

#[test]
fn choices_have_their_values_and_defaults() {
    let expected: [(&str, &str, &str, &str); 10] = [
        ("ForeignCluster", "spec.peeringType", "OutOfBand InBand", "OutOfBand"),
        ("ForeignCluster", "spec.outgoingPeeringEnabled", "Auto No Yes", "Auto"),
        ("ForeignCluster", "spec.incomingPeeringEnabled", "Auto No Yes", "Auto"),
        ("ResourceRequest", "status.offerState", "None Created", "None"),
        (
            "ResourceOffer",
            "status.phase",
            "Pending ManualActionRequired Accepted Refused",
            "Pending",
        ),
        ("ResourceOffer", "status.virtualKubeletStatus", "None Created Deleting", "None"),
        (
            "NamespaceOffloading",
            "spec.namespaceMappingStrategy",
            "EnforceSameName DefaultName",
            "DefaultName",
        ),
        (
            "NamespaceOffloading",
            "spec.podOffloadingStrategy",
            "Local Remote LocalAndRemote",
            "LocalAndRemote",
        ),
        ("ShadowPod", "status.phase", "Pending Running Succeeded Failed Unknown", "Unknown"),
        ("TunnelEndpoint", "status.connection.status", "Connecting Connected Error", ""),
    ];
    for (kind, path, values, default) in expected {
        let schema = field(kind, path);
        let found: Vec<String> = schema
            .enum_
            .unwrap_or_default()
            .iter()
            .map(|value| value.0.as_str().unwrap().to_owned())
            .collect();
        let found_default = schema.default.map(|default| default.0.as_str().unwrap().to_owned());
        assert_eq!(found.join(" "), values, "{kind} {path}");
        assert_eq!(found_default.unwrap_or_default(), default, "{kind} {path}");
    }
}

#[test]
fn other_values_have_defaults_and_bounds_too() {
    assert_eq!(field("ForeignCluster", "spec.insecureSkipTLSVerify").default.unwrap().0, true);
    assert_eq!(field("ForeignCluster", "spec.ttl").minimum, Some(0.0));
    assert!(field("ForeignCluster", "spec.foreignAuthUrl").pattern.unwrap().starts_with("https:"));
    assert_eq!(field("NetworkConfig", "status.processed").default.unwrap().0, false);
    assert_eq!(field("TunnelEndpoint", "spec.remoteNATPodCIDR").default.unwrap().0, "None");
}

#[test]
fn conditions_of_a_peering_may_have_different_writers() {
    let conditions = field("ForeignCluster", "status.peeringConditions");

    assert_eq!(conditions.x_kubernetes_list_type.as_deref(), Some("map"));
    assert_eq!(conditions.x_kubernetes_list_map_keys, Some(vec!["type".to_owned()]));
}

#[test]
fn what_may_not_change_is_guarded_by_the_api_server() {
    let rules = |kind: &str, path: &str| -> Vec<String> {
        let rules = field(kind, path).x_kubernetes_validations.unwrap_or_default();
        rules.into_iter().map(|rule| rule.rule).collect()
    };
    let known_stays = |member: &str| {
        format!(
            "!has(oldSelf.clusterIdentity) || oldSelf.clusterIdentity.{member} == '' || \
             (has(self.clusterIdentity) && \
             self.clusterIdentity.{member} == oldSelf.clusterIdentity.{member})"
        )
    };

    assert_eq!(
        rules("ForeignCluster", "spec"),
        [
            "self.peeringType == oldSelf.peeringType",
            &known_stays("clusterID"),
            &known_stays("clusterName"),
        ]
    );
    assert_eq!(
        rules("NamespaceOffloading", "spec"),
        ["self.namespaceMappingStrategy == oldSelf.namespaceMappingStrategy"]
    );
    assert_eq!(rules("NamespaceOffloading", ""), ["self.metadata.name == 'offloading'"]);
}

#[test]
fn schemas_are_structural_and_explain_every_field() {
    for crd in all_crds() {
        let kind = &crd.spec.names.kind;
        let mut problems = Vec::new();
        inspect(kind, root(version(&crd)), &mut problems);
        assert!(problems.is_empty(), "{problems:#?}");
    }
}

fn inspect(path: &str, schema: &JSONSchemaProps, problems: &mut Vec<String>) {
    let mut report = |problem: &str| problems.push(format!("{path}: {problem}"));
    let is_open = schema.x_kubernetes_int_or_string == Some(true);
    if schema.type_.is_none() && !is_open {
        report("has no type");
    }
    if schema.ref_path.is_some() || schema.definitions.is_some() {
        report("refers to another schema");
    }
    if schema.any_of.is_some() || schema.one_of.is_some() || schema.all_of.is_some() {
        report("has alternatives");
    }
    if schema.nullable.is_some() {
        report("may be null");
    }
    match schema.format.as_deref() {
        None | Some("int32" | "int64" | "date-time" | "byte") => {}
        Some(format) => report(&format!("has the format {format}")),
    }
    for (name, property) in schema.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        match property.description.as_deref() {
            Some(text) if text.ends_with('.') && text.starts_with(char::is_uppercase) => {}
            Some(text) => problems.push(format!("{path}: '{text}' is not a sentence")),
            None => problems.push(format!("{path}: is not explained")),
        }
        inspect(&path, property, problems);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        inspect(&format!("{path}[]"), items, problems);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        inspect(&format!("{path}.*"), values, problems);
    }
}

/// Kind, name, short names, scope, categories and subresource, as far as there are any.
fn describe(crd: &CustomResourceDefinition) -> String {
    let names = &crd.spec.names;
    let name = format!("{}.{}", names.plural, crd.spec.group);
    assert_eq!(crd.metadata.name.as_ref(), Some(&name));
    assert_eq!(names.singular, Some(names.kind.to_lowercase()));
    let has_status =
        version(crd).subresources.as_ref().is_some_and(|resources| resources.status.is_some());
    let mut words = vec![names.kind.clone(), name];
    words.extend(names.short_names.clone().unwrap_or_default());
    words.push(crd.spec.scope.clone());
    words.extend(names.categories.clone().unwrap_or_default());
    words.extend(has_status.then(|| "status".to_owned()));
    words.join(" ")
}

/// Name, type, path and priority of each printer column.
type Row = (String, String, String, i32);

fn columns(kind: &str) -> Vec<Row> {
    let columns = version(&crd(kind)).additional_printer_columns.clone().unwrap_or_default();
    columns
        .into_iter()
        .map(|column| (column.name, column.type_, column.json_path, column.priority.unwrap_or(0)))
        .collect()
}

fn row(name: &str, path: &str, priority: i32) -> Row {
    let type_ = if name == "Age" { "date" } else { "string" };
    (name.to_owned(), type_.to_owned(), path.to_owned(), priority)
}

fn age() -> Row {
    row(AGE.0, AGE.1, AGE.2)
}

fn peering(condition: &str) -> String {
    format!(".status.peeringConditions[?(@.type == '{condition}')].status")
}

fn crd(kind: &str) -> CustomResourceDefinition {
    all_crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap()
}

fn version(crd: &CustomResourceDefinition) -> &CustomResourceDefinitionVersion {
    crd.spec.versions.first().unwrap()
}

fn root(version: &CustomResourceDefinitionVersion) -> &JSONSchemaProps {
    version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap()
}

/// The schema of a field by its path; of the whole object when the path is empty.
fn field(kind: &str, path: &str) -> JSONSchemaProps {
    let mut schema = root(version(&crd(kind))).clone();
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let mut properties: BTreeMap<_, _> = schema.properties.unwrap_or_default();
        schema = properties.remove(name).unwrap_or_else(|| panic!("{kind} has no {path}"));
    }
    schema
}

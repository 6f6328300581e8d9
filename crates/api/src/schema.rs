//! Schemas of what custom resources embed, and the last touch before an API server sees them.
//!
//! Types of Kubernetes itself are described here by hand: their derived schemas are large and say
//! more about Kubernetes than about us.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    ValidationRule,
};
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::keys::object;

/// How a quantity reads: a number, and a suffix or an exponent.
const QUANTITY: &str = concat!(
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)",
    r"([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))?$",
);

/// A definition ready for the API server.
///
/// What may be left out may not be null instead, as in every API of Kubernetes; descriptions are
/// one paragraph; and rules about an object's name, which no field can carry, are added.
pub(crate) fn published(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let is_offloading = crd.spec.names.kind == "NamespaceOffloading";
    for version in &mut crd.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) else {
            continue;
        };
        settle(root);
        root.title = None;
        if is_offloading {
            root.x_kubernetes_validations = Some(vec![offloading_name()]);
        }
    }
    crd
}

fn offloading_name() -> ValidationRule {
    let name = object::NAMESPACE_OFFLOADING;
    ValidationRule {
        rule: format!("self.metadata.name == '{name}'"),
        message: Some(format!("the name of a NamespaceOffloading is always '{name}'")),
        ..ValidationRule::default()
    }
}

fn settle(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.default.take_if(|default| default.0.is_null());
    if let Some(description) = &mut schema.description {
        *description =
            description.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    }
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        settle(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => settle(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(settle),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        settle(values);
    }
}

/// A point in time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Quantities by name.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": quantity() })
}

fn quantity() -> Schema {
    json_schema!({ "pattern": QUANTITY, "x-kubernetes-int-or-string": true })
}

/// Bytes by name, in base64.
pub(crate) fn bytes_by_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "type": "string", "format": "byte" },
    })
}

/// A pod's specification: only its outline, since the API server checks the pod made from it.
pub(crate) fn pod_spec(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["containers"],
        "properties": {
            "containers": {
                "description": "Lists the containers of the pod.",
                "type": "array",
                "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            },
        },
        "x-kubernetes-preserve-unknown-fields": true,
        // One owner for all of it: a record of who wrote each field is as large as the fields.
        "x-kubernetes-map-type": "atomic",
    })
}

/// Container images and their sizes.
pub(crate) fn container_images(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "description": "Describes a container image.",
            "type": "object",
            "properties": {
                "names": {
                    "description": "Lists the names by which the image is known.",
                    "type": "array",
                    "items": { "type": "string" },
                },
                "sizeBytes": {
                    "description": "States the size of the image in bytes.",
                    "type": "integer",
                    "format": "int64",
                },
            },
        },
    })
}

/// A quota on resources.
pub(crate) fn resource_quota(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "hard": {
                "description": "Holds the most that may be used of each resource.",
                "type": "object",
                "additionalProperties": quantity(),
            },
            "scopes": {
                "description": "Lists the kinds of objects that count; all of them when empty.",
                "type": "array",
                "items": { "type": "string" },
            },
            "scopeSelector": {
                "description": "Selects the objects that count by their scope.",
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {
                    "matchExpressions": {
                        "description": "Lists what must all be true of an object.",
                        "type": "array",
                        "items": {
                            "description": "States something about the scope of an object.",
                            "type": "object",
                            "required": ["operator", "scopeName"],
                            "properties": {
                                "scopeName": {
                                    "description": "Names the scope.",
                                    "type": "string",
                                },
                                "operator": {
                                    "description": "Relates the scope to the values.",
                                    "type": "string",
                                },
                                "values": {
                                    "description": "Lists the values the scope is compared with.",
                                    "type": "array",
                                    "items": { "type": "string" },
                                },
                            },
                        },
                    },
                },
            },
        },
    })
}

/// A selector of nodes by their labels or fields.
pub(crate) fn node_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "required": ["nodeSelectorTerms"],
        "properties": {
            "nodeSelectorTerms": {
                "description": "Lists terms of which one must match; without any, all match.",
                "type": "array",
                "items": {
                    "description": "Matches a node of which all its requirements are true.",
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {
                        "matchExpressions": {
                            "description": "Lists requirements on the labels of the node.",
                            "type": "array",
                            "items": node_requirement("Names the label."),
                        },
                        "matchFields": {
                            "description": "Lists requirements on the fields of the node.",
                            "type": "array",
                            "items": node_requirement("Names the field."),
                        },
                    },
                },
            },
        },
    })
}

fn node_requirement(key: &str) -> Schema {
    json_schema!({
        "description": "States something about a node.",
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": { "description": key, "type": "string" },
            "operator": {
                "description":
                    "Relates the key to the values: In, NotIn, Exists, DoesNotExist, Gt or Lt.",
                "type": "string",
            },
            "values": {
                "description": "Lists the values the key is compared with.",
                "type": "array",
                "items": { "type": "string" },
            },
        },
    })
}

/// Endpoints of a service.
pub(crate) fn endpoints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "description": "Describes one endpoint.",
            "type": "object",
            "required": ["addresses"],
            "properties": {
                "addresses": {
                    "description": "Lists the addresses of the endpoint.",
                    "type": "array",
                    "items": { "type": "string" },
                    "x-kubernetes-list-type": "set",
                },
                "conditions": endpoint_conditions(),
                "deprecatedTopology": {
                    "description": "Holds topology labels in the form of an older API.",
                    "type": "object",
                    "additionalProperties": { "type": "string" },
                },
                "hints": endpoint_hints(),
                "hostname": {
                    "description": "States the host name of the endpoint.",
                    "type": "string",
                },
                "nodeName": {
                    "description": "Names the node that hosts the endpoint.",
                    "type": "string",
                },
                "targetRef": target_reference(),
                "zone": {
                    "description": "Names the zone that the endpoint is in.",
                    "type": "string",
                },
            },
        },
    })
}

fn endpoint_conditions() -> Schema {
    json_schema!({
        "description": "Reports the state of the endpoint.",
        "type": "object",
        "properties": {
            "ready": {
                "description": "Says whether the endpoint takes new connections.",
                "type": "boolean",
            },
            "serving": {
                "description": "Says whether the endpoint answers, even on its way out.",
                "type": "boolean",
            },
            "terminating": {
                "description": "Says whether the endpoint is on its way out.",
                "type": "boolean",
            },
        },
    })
}

fn endpoint_hints() -> Schema {
    let places = |place: &str| {
        json_schema!({
            "description": format!("Lists the {place}s that should prefer this endpoint."),
            "type": "array",
            "items": {
                "description": format!("Refers to a {place}."),
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": { "description": format!("Names the {place}."), "type": "string" },
                },
            },
        })
    };
    json_schema!({
        "description": "Advises who should use the endpoint.",
        "type": "object",
        "properties": { "forNodes": places("node"), "forZones": places("zone") },
    })
}

fn target_reference() -> Schema {
    let text = |description: &str| json_schema!({ "description": description, "type": "string" });
    json_schema!({
        "description": "Refers to the object behind the endpoint.",
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": text("States the API version of the object."),
            "fieldPath": text("Points to a part of the object."),
            "kind": text("States the kind of the object."),
            "name": text("Names the object."),
            "namespace": text("Names the namespace of the object."),
            "resourceVersion": text("States which version of the object is meant."),
            "uid": text("States the UID of the object."),
        },
    })
}

/// Ports of the endpoints of a service.
pub(crate) fn endpoint_ports(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "description": "Describes one port.",
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "appProtocol": {
                    "description": "States the protocol of the application.",
                    "type": "string",
                },
                "name": {
                    "description": "Names the port.",
                    "type": "string",
                },
                "port": {
                    "description": "States the number of the port.",
                    "type": "integer",
                    "format": "int32",
                },
                "protocol": {
                    "description": "States the transport protocol.",
                    "type": "string",
                    "default": "TCP",
                },
            },
        },
    })
}

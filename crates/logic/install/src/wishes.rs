//! What the user asks for, whatever the cluster.

use std::collections::BTreeMap;

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use crate::merge::{self, Mismatch};
use crate::provider::Facts;

/// How services are reached from outside of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceType {
    /// Not at all.
    ClusterIp,
    /// At a port of every node.
    NodePort,
    /// At an address of their own.
    LoadBalancer,
}

impl ServiceType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LoadBalancer, Self::NodePort, Self::ClusterIp];

    /// Its name in Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

/// What the user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Identity of the cluster.
    pub cluster_id: String,
    /// Name of the cluster.
    pub cluster_name: String,
    /// Labels of the cluster.
    pub cluster_labels: BTreeMap<String, String>,
    /// Share of the free resources that peers are offered, in percent.
    pub sharing_percentage: u8,
    /// Whether there are two of what must not fail.
    pub high_availability: bool,
    /// Networks that are in use outside of the cluster.
    pub reserved_subnets: Vec<Ipv4Net>,
    /// Whether there are metrics.
    pub metrics: bool,
    /// Whether no figures are sent.
    pub no_telemetry: bool,
    /// How peers reach the cluster, unless its kind says it.
    pub service_type: Option<ServiceType>,
    /// Tag of the images, unless it is the chart's.
    pub tag: Option<String>,
}

impl Wishes {
    /// Values of the chart: the user's words, then the facts, then how peers reach the cluster.
    pub fn values(&self, facts: &Facts) -> Result<Value, Mismatch> {
        let mut values = self.common();
        merge::append(&mut values, facts.values())?;
        if let Some(kind) = self.service_type {
            let service = json!({"service": {"type": kind.as_str()}});
            merge::append(&mut values, json!({"auth": service, "gateway": service}))?;
        }
        Ok(values)
    }

    fn common(&self) -> Value {
        let replicas = if self.high_availability { 2 } else { 1 };
        let subnets: Vec<String> = self.reserved_subnets.iter().map(ToString::to_string).collect();
        let mut values = json!({
            "controllerManager": {
                "replicas": replicas,
                "config": {"resourceSharingPercentage": self.sharing_percentage},
            },
            "discovery": {"config": {
                "clusterIDOverride": self.cluster_id,
                "clusterName": self.cluster_name,
                "clusterLabels": self.cluster_labels,
            }},
            "gateway": {
                "replicas": replicas,
                "metrics": {"enabled": self.metrics, "serviceMonitor": {"enabled": self.metrics}},
            },
            "networkManager": {"config": {"reservedSubnets": subnets}},
            "virtualKubelet": {
                "metrics": {"enabled": self.metrics, "podMonitor": {"enabled": self.metrics}},
            },
        });
        if self.no_telemetry {
            values["telemetry"] = json!({"enable": false});
        }
        if let Some(tag) = &self.tag {
            values["tag"] = json!(tag);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use liqo_chart::{Chart, Overrides, Values};

    use super::*;
    use crate::provider::Provider;

    #[test]
    fn without_a_service_type_the_kind_of_cluster_decides() {
        let types = |provider, service_type| {
            let values = wishes(service_type).values(&facts(provider)).unwrap();
            ["auth", "gateway"].map(|name| values[name]["service"]["type"].clone())
        };

        assert_eq!(types(Provider::Kind, None), ["NodePort", "NodePort"]);
        assert_eq!(types(Provider::Kubeadm, None), [Value::Null, Value::Null]);
        let given = types(Provider::Kind, Some(ServiceType::ClusterIp));
        assert_eq!(given, ["ClusterIP", "ClusterIP"]);
    }

    #[test]
    fn labels_of_the_user_and_of_the_kind_come_together() {
        let values = wishes(None).values(&facts(Provider::K3s)).unwrap();

        let labels = &values["discovery"]["config"]["clusterLabels"];
        assert_eq!(labels, &json!({"liqo.io/provider": "k3s", "region": "eu"}));
    }

    #[test]
    fn the_chart_knows_every_value() {
        let chart = Chart::embedded().unwrap();
        for provider in [Provider::Generic, Provider::K3s, Provider::Kind, Provider::Kubeadm] {
            for service_type in ServiceType::ALL {
                let mut wishes = wishes(Some(service_type));
                (wishes.no_telemetry, wishes.tag) = (true, Some("abc".to_owned()));
                let mut overrides = Overrides::default();
                overrides.value(wishes.values(&facts(provider)).unwrap()).unwrap();
                assert!(Values::new(&chart, &overrides).is_ok());
            }
        }
    }

    fn wishes(service_type: Option<ServiceType>) -> Wishes {
        Wishes {
            cluster_id: "41543714-6e17-4c7b-9bc9-70de7f7ae64f".to_owned(),
            cluster_name: "rome".to_owned(),
            cluster_labels: [("region".to_owned(), "eu".to_owned())].into(),
            sharing_percentage: 90,
            high_availability: true,
            reserved_subnets: vec!["192.168.0.0/24".parse().unwrap()],
            metrics: true,
            no_telemetry: false,
            service_type,
            tag: None,
        }
    }

    fn facts(provider: Provider) -> Facts {
        Facts {
            provider,
            pod_cidr: "10.0.0.0/16".parse().unwrap(),
            service_cidr: "10.1.0.0/16".parse().unwrap(),
            api_server: None,
        }
    }
}

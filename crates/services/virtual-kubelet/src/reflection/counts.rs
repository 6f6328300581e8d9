//! What is counted of reflection: `liqo_virtual_kubelet_reflection_{item,error}_counter`.

use liqo_api::names::Cluster;
use liqo_kit::keyed::Ending;
use liqo_kit::metrics::{BareCounter, Metrics};
use prometheus_client::metrics::family::Family;

type Labels = [(&'static str, String); 5];

/// Counters of what was reflected, and of what failed; a clone counts on.
#[derive(Clone)]
pub(crate) struct Counts {
    items: Family<Labels, BareCounter>,
    errors: Family<Labels, BareCounter>,
    cluster: Cluster,
    node: String,
}

impl Counts {
    /// Shows the counters.
    pub(crate) fn register(metrics: &Metrics, cluster: &Cluster, node: &str) -> Self {
        let family = |name, help| metrics.register(name, help, Family::default());
        Self {
            items: family(
                "virtual_kubelet_reflection_item_counter",
                "Objects that were worked on with success",
            ),
            errors: family(
                "virtual_kubelet_reflection_error_counter",
                "Objects that could not be reflected, each time it was tried",
            ),
            cluster: cluster.clone(),
            node: node.to_owned(),
        }
    }

    /// Counts how the work on an object of a kind in a namespace here ended.
    pub(crate) fn count(&self, kind: &'static str, namespace: &str, ending: Ending) {
        let counter = match ending {
            Ending::Done => &self.items,
            Ending::Failed(_) => &self.errors,
        };
        let labels = [
            ("namespace", namespace.to_owned()),
            ("reflector_resource", kind.to_owned()),
            ("cluster_id", self.cluster.id.to_string()),
            ("cluster_name", self.cluster.name.to_string()),
            ("node_name", self.node.clone()),
        ];
        counter.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_names_and_labels_that_dashboards_ask_for() {
        let metrics = Metrics::default();
        let id = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
        let cluster = Cluster { id: id.parse().unwrap(), name: "milan".parse().unwrap() };
        let counts = Counts::register(&metrics, &cluster, "liqo-milan");
        counts.count("ConfigMap", "shop", Ending::Done);
        counts.count("ConfigMap", "shop", Ending::Failed("Forbidden"));
        let text = metrics.text().unwrap();
        for kind in ["item", "error"] {
            let line = format!(
                "liqo_virtual_kubelet_reflection_{kind}_counter{{namespace=\"shop\",\
                 reflector_resource=\"ConfigMap\",cluster_id=\"{id}\",cluster_name=\"milan\",\
                 node_name=\"liqo-milan\"}} 1\n"
            );
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}

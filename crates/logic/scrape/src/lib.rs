//! Which metrics of this cluster's nodes a consumer may see, and how it sees them.
//!
//! A consumer sees this whole cluster as one node: of the kubelets' metrics, those of its own pods,
//! under the names its namespaces have at home, and what the nodes use, summed up.

mod exposition;

use std::collections::{BTreeMap, HashMap, HashSet};

use self::exposition::{Families, Line, Sample};

/// What is used of a node, which is summed over all nodes.
const OF_NODES: [&str; 2] = ["node_cpu_usage_seconds_total", "node_memory_working_set_bytes"];

/// What kubelets can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The kubelet itself.
    Kubelet,
    /// Containers, as cAdvisor sees them.
    Containers,
    /// CPU and memory.
    Resources,
    /// Probes of containers.
    Probes,
}

impl Subject {
    /// The subject of a path such as `metrics/cadvisor`.
    pub fn of_path(path: &str) -> Option<Self> {
        match path.trim_matches('/') {
            "metrics" => Some(Self::Kubelet),
            "metrics/cadvisor" => Some(Self::Containers),
            "metrics/resource" => Some(Self::Resources),
            "metrics/probes" => Some(Self::Probes),
            _ => None,
        }
    }

    /// The path at a kubelet.
    pub fn path(self) -> &'static str {
        match self {
            Self::Kubelet => "metrics",
            Self::Containers => "metrics/cadvisor",
            Self::Resources => "metrics/resource",
            Self::Probes => "metrics/probes",
        }
    }
}

/// What a consumer runs here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenancy {
    /// Its namespaces here, and what they are called at home.
    pub namespaces: HashMap<String, String>,
    /// Its pods, by namespace and name.
    pub pods: HashSet<(String, String)>,
}

/// What the kubelets of some nodes said, as one text for one consumer.
pub fn merge<'a>(texts: impl IntoIterator<Item = &'a str>, tenancy: &Tenancy) -> String {
    let mut families = Families::default();
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for text in texts {
        let mut described = families.start();
        for line in text.lines() {
            match exposition::read(line) {
                Line::Description(text) => described.describe(text),
                Line::Sample(sample) => match seen(&sample, tenancy) {
                    Seen::AsIs(line) => described.add(line),
                    Seen::InSum(name) => {
                        described.announce();
                        sums.entry(name).or_default().add(&sample);
                    }
                    Seen::Not => {}
                },
                Line::Other => {}
            }
        }
    }
    for (name, sum) in sums {
        families.add_to(name, sum.line(name));
    }
    families.text()
}

/// How a consumer sees a sample.
enum Seen {
    AsIs(String),
    InSum(&'static str),
    Not,
}

fn seen(sample: &Sample<'_>, tenancy: &Tenancy) -> Seen {
    if let Some(name) = OF_NODES.into_iter().find(|name| *name == sample.name) {
        return Seen::InSum(name);
    }
    let (Some(namespace), Some(pod)) = (sample.label("namespace"), sample.label("pod")) else {
        return Seen::Not;
    };
    let Some(home) = tenancy.namespaces.get(namespace) else { return Seen::Not };
    if !tenancy.pods.contains(&(namespace.to_owned(), pod.to_owned())) {
        return Seen::Not;
    }
    Seen::AsIs(sample.with_label("namespace", home))
}

#[derive(Default)]
struct Sum {
    value: f64,
    /// The latest of the times, which are in order.
    time: Option<i64>,
}

impl Sum {
    fn add(&mut self, sample: &Sample<'_>) {
        self.value += sample.value.parse::<f64>().unwrap_or_default();
        self.time = self.time.max(sample.time.and_then(|time| time.parse().ok()));
    }

    fn line(&self, name: &str) -> String {
        match self.time {
            Some(time) => format!("{name} {:.6} {time}", self.value),
            None => format!("{name} {:.6}", self.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="web",namespace="shop-rome",pod="web-1"} 7.5 1700000000100
container_cpu_usage_seconds_total{container="web",namespace="shop-rome",pod="stranger"} 9 1700000000100
container_cpu_usage_seconds_total{container="dns",namespace="kube-system",pod="dns-1"} 1 1700000000100
# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time of the node
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 100.25 1700000000100
# HELP kubelet_secrets Nothing for others
# TYPE kubelet_secrets gauge
kubelet_secrets 3
"#;
    const TWO: &str = r#"# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="db",namespace="shop-rome",pod="db-0"} 2 1700000000200
# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time of the node
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 0.5 1700000000200
"#;

    #[test]
    fn a_consumer_sees_its_own_pods_and_the_sum_of_the_nodes() {
        assert_eq!(
            merge([ONE, TWO], &tenancy()),
            r#"# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="db",namespace="shop",pod="db-0"} 2 1700000000200
container_cpu_usage_seconds_total{container="web",namespace="shop",pod="web-1"} 7.5 1700000000100
# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time of the node
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 100.750000 1700000000200
"#
        );
    }

    #[test]
    fn who_runs_nothing_here_sees_only_what_the_nodes_use() {
        let text = merge([ONE, TWO], &Tenancy::default());
        assert!(!text.contains("container_") && !text.contains("kubelet_"), "{text}");
        assert!(text.contains("\nnode_cpu_usage_seconds_total 100.750000 1700000000200\n"));
    }

    #[test]
    fn a_label_that_only_looks_like_a_pod_of_ours_is_not_enough() {
        let forged = r#"x{image="a\",namespace=\"shop-rome\",pod=\"web-1\"",namespace="other",pod="web-1"} 1"#;
        assert_eq!(merge([forged], &tenancy()), "");
    }

    #[test]
    fn only_paths_of_kubelets_are_known() {
        for path in ["metrics", "metrics/cadvisor", "metrics/resource", "metrics/probes"] {
            assert_eq!(Subject::of_path(path).unwrap().path(), path);
        }
        assert_eq!(Subject::of_path("metrics/../exec"), None);
    }

    fn tenancy() -> Tenancy {
        let pod = |name: &str| ("shop-rome".to_owned(), name.to_owned());
        Tenancy {
            namespaces: [("shop-rome".to_owned(), "shop".to_owned())].into(),
            pods: [pod("web-1"), pod("db-0")].into(),
        }
    }
}

//! What a pod asks of its node, counted as the scheduler counts it.
//!
//! Containers run together, and so do init containers that are never waited for (`restartPolicy:
//! Always`); other init containers run one after the other, beside those started before them. The
//! pod's own requests, where it states them, stand for those of all its containers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::amounts::Amounts;

/// What a pod asks of its node.
pub fn of_pod(spec: &PodSpec) -> Amounts {
    let mut together = Amounts::default();
    for container in &spec.containers {
        together.add(&of_container(container));
    }
    // What runs already when an init container runs, and the most that any of them needs.
    let (mut started, mut most) = (Amounts::default(), Amounts::default());
    for container in spec.init_containers.iter().flatten() {
        let needs = of_container(container);
        if container.restart_policy.as_deref() == Some("Always") {
            together.add(&needs);
            started.add(&needs);
            most.raise(&started);
        } else {
            let mut peak = started.clone();
            peak.add(&needs);
            most.raise(&peak);
        }
    }
    together.raise(&most);
    for (name, amount) in Amounts::readable(requests(spec.resources.as_ref())).iter() {
        together.set(name, amount);
    }
    together.add(&Amounts::readable(spec.overhead.as_ref()));
    together
}

fn of_container(container: &Container) -> Amounts {
    Amounts::readable(requests(container.resources.as_ref()))
}

fn requests(resources: Option<&ResourceRequirements>) -> Option<&BTreeMap<String, Text>> {
    resources?.requests.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amounts::CPU;
    use crate::quantity::Quantity;

    #[test]
    fn containers_add_up() {
        let spec = pod(&["100m", "1"], &[], &[]);
        assert_eq!(of_pod(&spec).of(CPU), cpu("1100m"));
    }

    #[test]
    fn the_largest_init_container_counts_if_it_needs_more() {
        assert_eq!(of_pod(&pod(&["1"], &["3", "2"], &[])).of(CPU), cpu("3"));
        assert_eq!(of_pod(&pod(&["4"], &["3", "2"], &[])).of(CPU), cpu("4"));
    }

    #[test]
    fn sidecars_run_beside_everything_that_starts_after_them() {
        // Beside the containers: 1 + 2. Beside the later init container: 2 + 5.
        let spec = pod(&["1"], &["2", "5"], &[0]);
        assert_eq!(of_pod(&spec).of(CPU), cpu("7"));
        let spec = pod(&["1"], &["5", "2"], &[1]);
        assert_eq!(of_pod(&spec).of(CPU), cpu("5"));
    }

    #[test]
    fn the_overhead_of_the_runtime_comes_on_top() {
        let overhead = Some(list("250m"));
        let spec = PodSpec { overhead, ..pod(&["1"], &["2"], &[]) };
        assert_eq!(of_pod(&spec).of(CPU), cpu("2250m"));
    }

    #[test]
    fn a_pod_may_speak_for_its_containers() {
        let spec = PodSpec { resources: Some(asking("10")), ..pod(&["1", "2"], &[], &[]) };
        assert_eq!(of_pod(&spec).of(CPU), cpu("10"));
    }

    fn pod(containers: &[&str], init: &[&str], sidecars: &[usize]) -> PodSpec {
        let container =
            |amount: &&str| Container { resources: Some(asking(amount)), ..Container::default() };
        let mut init: Vec<_> = init.iter().map(container).collect();
        for index in sidecars {
            init[*index].restart_policy = Some("Always".to_owned());
        }
        PodSpec {
            containers: containers.iter().map(container).collect(),
            init_containers: Some(init),
            ..PodSpec::default()
        }
    }

    fn asking(amount: &str) -> ResourceRequirements {
        ResourceRequirements { requests: Some(list(amount)), ..ResourceRequirements::default() }
    }

    fn list(amount: &str) -> BTreeMap<String, Text> {
        BTreeMap::from([(CPU.to_owned(), Text(amount.to_owned()))])
    }

    fn cpu(text: &str) -> Quantity {
        text.parse().unwrap()
    }
}

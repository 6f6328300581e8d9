//! How an installation does, in boxes.

use super::{Cluster, Component, Endpoint, Network, Report};
use crate::screen::{Part, Style, draw};

impl Report {
    /// All boxes; the first that tells of a failure is the last.
    pub fn text(&self, verbose: bool, style: Style) -> String {
        let namespace = &self.namespace;
        let line = if namespace.exists {
            format!("namespace {} exists", namespace.name)
        } else {
            format!("there is no namespace {}; install Liqo, or give --namespace", namespace.name)
        };
        let check = [Part::Mark(namespace.exists, line)];
        let mut boxes = vec![draw("Namespace existence check", &check, style)];
        if namespace.exists {
            boxes.push(draw("Control plane check", &self.control_plane(verbose), style));
        }
        if let Some(cluster) = &self.cluster {
            boxes.push(draw("Local cluster information", &cluster.parts(), style));
        }
        boxes.join("\n")
    }

    fn control_plane(&self, verbose: bool) -> Vec<Part> {
        let good = self.components.iter().all(|one| one.problems.is_empty());
        let verdict = if good { "control plane is fine" } else { "control plane has problems" };
        let mut parts = vec![Part::Mark(good, verdict.to_owned())];
        for kind in ["Deployment", "DaemonSet"] {
            let some: Vec<Part> = self
                .components
                .iter()
                .filter(|one| one.kind == kind)
                .flat_map(|one| one.parts(verbose))
                .collect();
            if !some.is_empty() {
                parts.push(Part::section(kind, some));
            }
        }
        parts
    }
}

impl Component {
    fn parts(&self, verbose: bool) -> Vec<Part> {
        let Self { desired, ready, available, .. } = self;
        let numbers = format!(
            "Desired: {desired}, Ready: {ready}/{desired}, Available: {available}/{desired}"
        );
        let mut parts = vec![Part::entry(&self.name, numbers)];
        if verbose && !self.images.is_empty() {
            let images = self.images.iter().map(|image| Part::Item(image.clone())).collect();
            parts.push(Part::section("    Images", images));
        }
        parts.extend(self.problems.iter().map(|one| Part::Mark(false, one.clone())));
        parts
    }
}

impl Cluster {
    fn parts(&self) -> Vec<Part> {
        let mut identity = vec![
            Part::entry("Cluster ID", &self.cluster_id),
            Part::entry("Cluster name", &self.cluster_name),
        ];
        if !self.cluster_labels.is_empty() {
            let labels = self.cluster_labels.iter();
            let labels = labels.map(|(key, value)| Part::entry(key, value)).collect();
            identity.push(Part::section("Cluster labels", labels));
        }
        let network = match &self.network {
            Some(network) => network.parts(),
            None => vec![Part::entry("Status", "External")],
        };
        let endpoints = [
            ("Network gateway", self.endpoints.network_gateway.as_ref()),
            ("Authentication URL", Some(&self.endpoints.authentication)),
            ("Kubernetes API server URL", Some(&self.endpoints.api_server)),
        ];
        let endpoints = endpoints.into_iter().filter_map(|(key, endpoint)| {
            Some(match endpoint? {
                Endpoint::Url(url) => Part::entry(key, url),
                Endpoint::Problem(problem) => Part::entry(key, format!("✖ {problem}")),
            })
        });
        vec![
            Part::section("Cluster identity", identity),
            Part::section("Network", network),
            Part::section("Endpoints", endpoints.collect()),
        ]
    }
}

impl Network {
    fn parts(&self) -> Vec<Part> {
        let external =
            if self.external_cidr.is_empty() { "not chosen yet" } else { &self.external_cidr };
        let mut parts = vec![
            Part::entry("Pod CIDR", &self.pod_cidr),
            Part::entry("Service CIDR", &self.service_cidr),
            Part::entry("External CIDR", external),
        ];
        if !self.reserved_subnets.is_empty() {
            let items = self.reserved_subnets.iter().map(|one| Part::Item(one.clone())).collect();
            parts.push(Part::section("Reserved Subnets", items));
        }
        parts
    }
}

//! Files of the repository that are made from the code.

use std::collections::BTreeMap;

use liqo_api::{CustomResourceDefinition, all_crds};
use liqo_chart::Chart;
use serde_json::Value;

/// Where the custom resource definitions lie.
pub const CRDS: &str = "charts/liqo/crds/";

/// Where the schema of the chart's values lies.
pub const SCHEMA: &str = "charts/liqo/values.schema.json";

/// The command that brings the files up to date.
pub const COMMAND: &str = "cargo xtask gen";

/// Every generated file, by its path.
pub fn files() -> BTreeMap<String, String> {
    let crds = all_crds();
    let crds = crds.iter().map(|crd| (path(crd), text(crd)));
    crds.chain([(SCHEMA.to_owned(), schema())]).collect()
}

/// Whether a path is one where only generated files may be.
pub fn is_generated(path: &str) -> bool {
    path.starts_with(CRDS) || path == SCHEMA
}

fn schema() -> String {
    let chart = Chart::embedded().expect("the chart is compiled in");
    let schema = liqo_chart::schema(&chart).expect("the defaults are valid YAML");
    format!("{schema:#}\n")
}

fn path(crd: &CustomResourceDefinition) -> String {
    let spec = &crd.spec;
    format!("{CRDS}{}.{}.yaml", spec.names.plural, spec.group)
}

fn text(crd: &CustomResourceDefinition) -> String {
    let value: Value = serde_json::to_value(crd).expect("a definition is plain data");
    let yaml = serde_saphyr::to_string(&value).expect("plain data can be written as YAML");
    format!("# Made by `{COMMAND}` from crates/api; change it there.\n{yaml}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_has_a_file_of_its_own() {
        let files = files();

        assert_eq!(files.len(), 12);
        assert!(files.contains_key("charts/liqo/crds/foreignclusters.discovery.liqo.io.yaml"));
        assert!(files.keys().all(|path| is_generated(path)));
    }

    #[test]
    fn a_file_reads_back_as_its_definition() {
        for crd in all_crds() {
            let read: CustomResourceDefinition = serde_saphyr::from_str(&text(&crd)).unwrap();

            assert_eq!(read, crd);
        }
    }

    #[test]
    fn words_that_older_parsers_take_for_booleans_are_quoted() {
        let text = files().remove("charts/liqo/crds/foreignclusters.discovery.liqo.io.yaml");

        let values: Vec<String> = text
            .unwrap()
            .lines()
            .map(|line| line.trim_start_matches([' ', '-']).to_owned())
            .filter(|line| line.to_lowercase().trim_matches(['"', '\'']) == "yes")
            .collect();
        assert!(!values.is_empty());
        assert!(values.iter().all(|value| value.starts_with(['"', '\''])), "{values:?}");
    }
}

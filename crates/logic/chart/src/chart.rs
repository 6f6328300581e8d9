//! The chart: a folder of files, compiled in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, yaml};

const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// A Helm chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What the chart says of itself.
    pub metadata: Metadata,
    files: BTreeMap<String, String>,
}

/// What a chart says of itself, as in `Chart.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Name of the chart.
    pub name: String,
    /// Version of the chart.
    pub version: String,
    /// Version of what the chart installs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// Version of the chart's own format.
    pub api_version: String,
    /// Whether it installs something or is a library.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// One line about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Versions of Kubernetes it can be installed in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
}

impl Chart {
    /// Liqo's own chart.
    pub fn embedded() -> Result<Self, Error> {
        Self::new(FILES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())))
    }

    /// A chart out of its files, named by their paths in its folder.
    pub fn new(files: impl IntoIterator<Item = (String, String)>) -> Result<Self, Error> {
        let files: BTreeMap<String, String> = files.into_iter().collect();
        let text = files.get("Chart.yaml").ok_or(Error::NoFile("Chart.yaml"))?;
        let metadata = yaml::read("Chart.yaml", text)?;
        Ok(Self { metadata, files })
    }

    /// Text of a file.
    pub fn file(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Paths and texts of the files below a folder, in order.
    pub fn folder(&self, folder: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| {
                path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
            })
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Paths and texts of the files that are neither templates nor the chart's own description.
    pub fn loose_files(&self) -> impl Iterator<Item = (&str, &str)> {
        const KNOWN: [&str; 3] = ["Chart.yaml", "values.yaml", "values.schema.json"];
        self.files
            .iter()
            .filter(|(path, _)| {
                !KNOWN.contains(&path.as_str())
                    && !path.starts_with("templates/")
                    && !path.starts_with("crds/")
            })
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Values that hold unless the user says otherwise.
    pub fn defaults(&self) -> Result<Value, Error> {
        let text = self.file("values.yaml").ok_or(Error::NoFile("values.yaml"))?;
        yaml::read_map("values.yaml", text)
    }

    /// Definitions of the custom resources, which come before everything else.
    pub fn custom_resource_definitions(&self) -> Result<Vec<Value>, Error> {
        self.folder("crds").map(|(path, text)| yaml::read(path, text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_is_compiled_in() {
        let chart = Chart::embedded().unwrap();

        assert_eq!(chart.metadata.name, "liqo");
        assert_eq!(chart.metadata.version, format!("v{}", env!("CARGO_PKG_VERSION")));
        assert_eq!(chart.metadata.app_version, chart.metadata.version);
        assert_eq!(chart.custom_resource_definitions().unwrap().len(), 11);
        assert!(chart.file("templates/NOTES.txt").is_some());
    }

    #[test]
    fn every_file_of_permissions_is_used_by_a_component() {
        let chart = Chart::embedded().unwrap();
        let templates: String = chart.folder("templates").map(|(_, text)| text).collect();

        for (path, _) in chart.folder("files/rbac") {
            let name = path.trim_start_matches("files/rbac/").trim_end_matches(".yaml");
            let name =
                if let Some(kind) = name.strip_prefix("remote-peering-") { kind } else { name };
            assert!(templates.contains(&format!("\"{name}\"")), "{path}");
        }
    }

    #[test]
    fn every_value_is_documented_in_one_line() {
        let chart = Chart::embedded().unwrap();
        let lines: Vec<&str> = chart.file("values.yaml").unwrap().lines().collect();

        for (above, line) in lines.iter().zip(lines.iter().skip(1)) {
            let is_setting = line.split_once(": ").is_some() && !line.trim_start().starts_with('#');
            let is_quantity = line.contains("cpu: ") || line.contains("memory: ");
            if is_setting && !is_quantity {
                assert!(above.trim_start().starts_with("# "), "{line}");
            }
        }
    }

    #[test]
    fn a_chart_without_a_description_is_none() {
        assert!(matches!(Chart::new([]), Err(Error::NoFile("Chart.yaml"))));
    }
}

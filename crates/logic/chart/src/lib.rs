//! What an installation of Liqo consists of: the chart, its values, and what they make.
//!
//! ```text
//! Chart::embedded() ── defaults ──┐
//! files, --set ─── Overrides ─────┴─> Values ──> render() ──> documents, hooks, notes ──> Release
//! ```
//!
//! It does what Helm does with our chart, without Helm: the same values mean the same objects in the
//! same order, and the record of a release is one that Helm reads. Nothing here talks to a cluster.

mod chart;
mod functions;
mod kinds;
mod release;
mod render;
mod schema;
mod set;
mod values;
mod yaml;

pub use chart::{Chart, Metadata};
pub use release::{Info, Record, Release, Status};
pub use render::{Document, Hook, Rendered, Target, documents, render};
pub use schema::{Problem, check, schema};
pub use set::Expression;
pub use values::{Overrides, Values};
pub use yaml::write as to_yaml;

/// Why there is nothing to install.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the chart, or of the user, is no YAML.
    #[error("{file} is not valid YAML")]
    Yaml {
        /// Which file.
        file: String,
        /// Where and why.
        source: Box<serde_saphyr::Error>,
    },
    /// A file has to be there.
    #[error("the chart has no {0}")]
    NoFile(&'static str),
    /// Values have to be a map.
    #[error("{0} holds no map of values")]
    NoMap(String),
    /// An expression of `--set` makes no sense.
    #[error("cannot set `{expression}`: {problem}")]
    Set {
        /// The whole expression.
        expression: String,
        /// What is wrong with which key.
        problem: String,
    },
    /// Values are not what the chart expects.
    #[error("{}", list(.0))]
    Values(Vec<Problem>),
    /// A template makes no sense, or refuses the values.
    #[error("{template}: {problem}")]
    Template {
        /// Which template.
        template: String,
        /// What it says.
        problem: String,
    },
    /// A record of a release is damaged.
    #[error("the record of the release cannot be {0}")]
    Record(&'static str, #[source] Box<dyn std::error::Error + Send + Sync>),
}

fn list(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

//! What can go wrong with a release.

use liqo_install::object::Id;

/// Why a release is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not do what it was asked.
    #[error("cannot {what}")]
    Request {
        /// What was asked.
        what: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// Something cannot be waited for.
    #[error("cannot wait for {what}")]
    Wait {
        /// What was waited for.
        what: String,
        /// Why not.
        source: Box<kube::runtime::wait::Error>,
    },
    /// The chart or a record makes no sense.
    #[error(transparent)]
    Chart(#[from] liqo_chart::Error),
    /// Objects of somebody else are in the way.
    #[error("{}", strangers(.0))]
    Strangers(Vec<Id>),
    /// The cluster does not know a kind of objects.
    #[error(
        "the cluster knows no {kind} of {version}; install what defines it, or do not ask for it"
    )]
    NoKind {
        /// The kind.
        kind: String,
        /// Its group and version.
        version: String,
    },
    /// Something failed, and will not work by waiting.
    #[error("{what} failed: {why}")]
    Never {
        /// What.
        what: String,
        /// Why.
        why: String,
    },
    /// It took too long.
    #[error("timed out waiting for the condition{}", after(.0))]
    TimedOut(String),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
    /// Objects are left although they were deleted.
    #[error("still there: {}", .0.join(", "))]
    Left(Vec<String>),
}

impl Error {
    /// Wraps what the API server said.
    pub(crate) fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        |source| Self::Request { what, source: Box::new(source) }
    }
}

fn strangers(ids: &[Id]) -> String {
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!(
        "these objects exist already and do not belong to this installation: {}; rename or delete \
         them, or install Liqo in the namespace that they belong to",
        names.join(", ")
    )
}

fn after(waiting: &str) -> String {
    if waiting.is_empty() { String::new() } else { format!(" ({waiting})") }
}

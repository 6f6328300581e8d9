//! The rules, and what a violation looks like.

mod generated;
mod layers;
mod length;
mod links;
mod orphans;
mod style;

use std::fmt;

use clap::ValueEnum;

use crate::generate;
use crate::repository::Repository;

/// A rule of this workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// Dependencies between our packages only go down, and decisions stay free of I/O
    Layers,
    /// Every Rust file is part of some target
    Orphans,
    /// No Rust file is longer than a reader's patience
    Length,
    /// Files say what they are, modules have telling names, lints are not silenced
    Style,
    /// Relative links in Markdown lead somewhere
    Links,
    /// Files made from the code are what the code makes
    Generated,
}

impl Check {
    /// Every rule, in the order they are reported.
    pub const ALL: [Self; 6] =
        [Self::Layers, Self::Orphans, Self::Length, Self::Style, Self::Links, Self::Generated];

    /// Applies the rule; an empty list means it is kept.
    pub fn run(self, repository: &Repository) -> Vec<Finding> {
        let Repository { workspace, paths, rust, markdown, generated } = repository;
        match self {
            Self::Layers => layers::check(workspace),
            Self::Orphans => orphans::check(workspace, rust),
            Self::Length => length::check(rust),
            Self::Style => style::check(rust),
            Self::Links => links::check(markdown, paths),
            Self::Generated => generated::check(&generate::files(), generated),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Layers => "layers",
            Self::Orphans => "orphans",
            Self::Length => "length",
            Self::Style => "style",
            Self::Links => "links",
            Self::Generated => "generated",
        })
    }
}

/// A violation: where it is, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    place: String,
    problem: String,
}

impl Finding {
    fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into() }
    }

    fn at_line(path: &str, line: usize, problem: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), problem)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

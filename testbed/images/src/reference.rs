//! Reads image names and completes them the way container runtimes do.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The registry that an image name without one belongs to; only a name, nothing is fetched.
const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_TAG: &str = "latest";
const LONGEST_TAG: usize = 128;

/// A complete image name: registry, repository and tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    registry: String,
    repository: String,
    tag: String,
}

impl Reference {
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// The short form that `docker images` shows.
    pub(crate) fn familiar(&self) -> String {
        let Self { registry, repository, tag } = self;
        if registry == DEFAULT_REGISTRY {
            let short = repository.strip_prefix("library/").unwrap_or(repository);
            format!("{short}:{tag}")
        } else {
            self.to_string()
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.registry, self.repository, self.tag)
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(raw: &str) -> Result<Self, Error> {
        let refuse = |reason| Error::Reference { reference: raw.to_owned(), reason };
        if raw.contains('@') {
            return Err(refuse("a digest is not known before the image is written"));
        }
        let (registry, rest) = match raw.split_once('/') {
            Some((first, rest)) if is_registry(first) => (first, rest),
            Some(_) | None => (DEFAULT_REGISTRY, raw),
        };
        let (repository, tag) = rest.rsplit_once(':').unwrap_or((rest, DEFAULT_TAG));
        if !repository.split('/').all(is_component) {
            return Err(refuse("the repository has lower-case letters, digits and single . _ -"));
        }
        if !is_tag(tag) {
            return Err(refuse("the tag has at most 128 letters, digits, and . _ - inside"));
        }
        let repository = if registry == DEFAULT_REGISTRY && !repository.contains('/') {
            format!("library/{repository}")
        } else {
            repository.to_owned()
        };
        Ok(Self { registry: registry.to_owned(), repository, tag: tag.to_owned() })
    }
}

/// Docker's rule: the first part is a registry if it cannot be a user name.
fn is_registry(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':'])
}

fn is_component(part: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.starts_with(alphanumeric)
        && part.ends_with(alphanumeric)
        && part.chars().all(|c| alphanumeric(c) || matches!(c, '.' | '_' | '-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.len() <= LONGEST_TAG
        && tag.starts_with(word)
        && tag.chars().all(|c| word(c) || matches!(c, '.' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(raw: &str) -> String {
        raw.parse::<Reference>().unwrap().to_string()
    }

    #[test]
    fn short_names_are_completed_like_a_runtime_does() {
        assert_eq!(complete("demo"), "docker.io/library/demo:latest");
        assert_eq!(complete("playground/demo:v1"), "docker.io/playground/demo:v1");
        assert_eq!(complete("localhost/demo:v1"), "localhost/demo:v1");
        assert_eq!(complete("registry.test:5000/a/b"), "registry.test:5000/a/b:latest");
    }

    #[test]
    fn the_familiar_name_drops_what_was_completed() {
        let familiar = |raw: &str| raw.parse::<Reference>().unwrap().familiar();
        assert_eq!(familiar("demo"), "demo:latest");
        assert_eq!(familiar("playground/demo:v1"), "playground/demo:v1");
        assert_eq!(familiar("localhost/demo:v1"), "localhost/demo:v1");
    }

    #[test]
    fn names_that_no_runtime_accepts_are_refused() {
        for raw in ["", "Demo", "demo:", "demo:-x", "a//b", "-a", "demo@sha256:00", "a b"] {
            assert!(raw.parse::<Reference>().is_err(), "{raw:?}");
        }
    }
}

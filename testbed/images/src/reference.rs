//! Reads image names. They say their registry, so that no runtime completes them with another.

use std::fmt;
use std::str::FromStr;

use crate::Error;

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
        let (registry, rest) =
            raw.split_once('/').filter(|(first, _)| is_registry(first)).ok_or_else(|| {
                refuse("it starts with a registry, or with localhost/ if it has none")
            })?;
        let (repository, tag) = rest.rsplit_once(':').unwrap_or((rest, DEFAULT_TAG));
        if !repository.split('/').all(is_component) {
            return Err(refuse("the repository has lower-case letters, digits and single . _ -"));
        }
        if !is_tag(tag) {
            return Err(refuse("the tag has at most 128 letters, digits, and . _ - inside"));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.to_owned(),
        })
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
    fn a_name_without_a_tag_is_the_latest() {
        assert_eq!(complete("localhost/demo:v1"), "localhost/demo:v1");
        assert_eq!(complete("registry.test:5000/a/b"), "registry.test:5000/a/b:latest");
    }

    #[test]
    fn a_name_without_a_registry_is_refused() {
        for raw in ["demo", "playground/demo:v1"] {
            let error = raw.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains("localhost/"), "{error}");
        }
    }

    #[test]
    fn names_that_no_runtime_accepts_are_refused() {
        for raw in ["", "Demo", "demo:", "demo:-x", "a//b", "-a", "demo@sha256:00", "a b"]
            .map(|raw| format!("localhost/{raw}"))
        {
            assert!(raw.parse::<Reference>().is_err(), "{raw:?}");
        }
    }
}

//! Finds Rust files that have grown past what one sitting can read.

use std::collections::BTreeMap;

use super::Finding;

const MOST_LINES: usize = 600;

/// Every file of more lines than allowed.
pub fn check(rust: &BTreeMap<String, String>) -> Vec<Finding> {
    rust.iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(path, lines)| {
            Finding::new(path, format!("{lines} lines, of at most {MOST_LINES}; split it"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_exactly_the_limit_passes() {
        assert!(check(&file_of(600)).is_empty());
    }

    #[test]
    fn a_longer_file_is_named_with_its_count() {
        let findings = check(&file_of(601));

        assert_eq!(findings[0].to_string(), "src/long.rs: 601 lines, of at most 600; split it");
    }

    fn file_of(lines: usize) -> BTreeMap<String, String> {
        BTreeMap::from([("src/long.rs".to_owned(), "//\n".repeat(lines))])
    }
}

//! Finds generated files that are not what the code would make now.

use std::collections::BTreeMap;

use super::Finding;
use crate::generate::COMMAND;

/// Every file that is missing, different or no longer made.
pub fn check(want: &BTreeMap<String, String>, have: &BTreeMap<String, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in want {
        match have.get(path) {
            Some(present) if present == text => {}
            Some(_) => findings.push(finding(path, "is not what the code makes now")),
            None => findings.push(finding(path, "is missing")),
        }
    }
    let stale = have.keys().filter(|path| !want.contains_key(*path));
    findings.extend(stale.map(|path| finding(path, "is not made by the code")));
    findings
}

fn finding(path: &str, problem: &str) -> Finding {
    Finding::new(path, format!("{problem}; run `{COMMAND}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_up_to_date_pass() {
        assert_eq!(check(&files(&[("a", "1")]), &files(&[("a", "1")])), []);
    }

    #[test]
    fn a_difference_is_found_with_its_cure() {
        let found = check(
            &files(&[("changed", "new"), ("missing", "")]),
            &files(&[("changed", "old"), ("stale", "")]),
        );

        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "changed: is not what the code makes now; run `cargo xtask gen`",
                "missing: is missing; run `cargo xtask gen`",
                "stale: is not made by the code; run `cargo xtask gen`",
            ]
        );
    }

    fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }
}

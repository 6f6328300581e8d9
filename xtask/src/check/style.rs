//! Finds what the style guide forbids and no linter knows.

use std::collections::BTreeMap;

use super::Finding;
use crate::path::stem;
use crate::rust::{Token, code_only, modules, tokens};

/// Names that say nothing of what is inside.
const EMPTY_NAMES: [&str; 4] = ["common", "helpers", "misc", "utils"];

/// What excuses a sleep in a test: something else ends it in time.
const EXCUSE: &str = "// bounded:";

/// Every breach, file by file.
pub fn check(rust: &BTreeMap<String, String>) -> Vec<Finding> {
    rust.iter().flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(Finding::new(path, "does not open with `//!` and what it is"));
    }
    findings.extend(file_name(path));
    findings.extend(inline_names(path, text));
    let code = code_only(text);
    let tokens = tokens(&code);
    findings.extend(silenced_lints(path, &tokens));
    if path.split('/').any(|part| part == "tests") {
        findings.extend(sleeps(path, text, &tokens));
    }
    findings
}

fn file_name(path: &str) -> Option<Finding> {
    if stem(path) == "mod" {
        let advice = "name the file after its module, beside the module's folder";
        return Some(Finding::new(path, format!("is called mod.rs; {advice}")));
    }
    let names = path.trim_end_matches(".rs").split('/');
    let empty = names.into_iter().find(|name| EMPTY_NAMES.contains(name))?;
    Some(Finding::new(path, nothing_said(empty)))
}

fn inline_names(path: &str, text: &str) -> Vec<Finding> {
    let inline = modules(text).into_iter().filter(|module| module.is_inline);
    inline
        .filter(|module| EMPTY_NAMES.contains(&module.name.as_str()))
        .map(|module| Finding::at_line(path, module.line, nothing_said(&module.name)))
        .collect()
}

fn nothing_said(name: &str) -> String {
    format!("'{name}' says nothing of what is inside")
}

/// Attributes that allow a lint, also behind `cfg_attr`.
fn silenced_lints(path: &str, tokens: &[Token<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        let following = |by: usize| tokens.get(index + by).map(|token| token.text);
        match token.text {
            "#" if depth == 0 => {
                let opens = following(1) == Some("[")
                    || (following(1) == Some("!") && following(2) == Some("["));
                depth = usize::from(opens);
            }
            // The attribute's own bracket is already counted.
            "[" if depth > 0 && !opens_attribute(tokens, index) => depth += 1,
            "]" => depth = depth.saturating_sub(1),
            "allow" if depth > 0 && following(1) == Some("(") => {
                let advice = "use `#[expect(…, reason = \"…\")]`";
                findings.push(Finding::at_line(
                    path,
                    token.line,
                    format!("allows a lint; {advice}"),
                ));
            }
            _ => {}
        }
    }
    findings
}

fn opens_attribute(tokens: &[Token<'_>], bracket: usize) -> bool {
    let before = |by: usize| Some(tokens.get(bracket.checked_sub(by)?)?.text);
    before(1) == Some("#") || (before(1) == Some("!") && before(2) == Some("#"))
}

fn sleeps(path: &str, text: &str, tokens: &[Token<'_>]) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().collect();
    let is_excused = |token: &Token<'_>| {
        lines.get(token.line.saturating_sub(1)).is_some_and(|line| line.contains(EXCUSE))
    };
    let calls = tokens.windows(2).filter_map(|pair| match pair {
        [name, next] if name.text == "sleep" && next.text == "(" => Some(name),
        _ => None,
    });
    calls
        .filter(|call| !is_excused(call))
        .map(|call| {
            let advice = format!("wait for what must come true, or say `{EXCUSE} …`");
            Finding::at_line(path, call.line, format!("a test sleeps; {advice}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_file_passes() {
        let text =
            "//! Says what it is.\n#[expect(dead_code, reason = \"x\")]\nfn f() { allow(1) }";
        assert_eq!(check_file("src/plan.rs", text), []);
    }

    #[test]
    fn a_file_says_first_what_it_is() {
        assert_eq!(problems("src/plan.rs", "use std::fmt;"), 1);
    }

    #[test]
    fn modules_are_not_called_mod_rs() {
        assert_eq!(problems("src/plan/mod.rs", "//! A"), 1);
    }

    #[test]
    fn names_that_say_nothing_are_found_in_files_folders_and_inline() {
        assert_eq!(problems("src/utils.rs", "//! A"), 1);
        assert_eq!(problems("src/common/plan.rs", "//! A"), 1);
        assert_eq!(problems("src/plan.rs", "//! A\nmod helpers { }"), 1);
        assert_eq!(problems("src/uncommon.rs", "//! A"), 0);
    }

    #[test]
    fn a_silenced_lint_is_found_with_its_line() {
        for attribute in [
            "#[allow(dead_code)]",
            "#![allow(dead_code)]",
            "#[cfg_attr(test, allow(dead_code))]",
            "#[rustfmt::skip]\n#[allow(dead_code)]",
        ] {
            let findings = check_file("src/plan.rs", &format!("//! A\n{attribute}\nfn f() {{}}"));
            assert_eq!(findings.len(), 1, "{attribute}");
        }
        let found = check_file("src/plan.rs", "//! A\n\n#[allow(dead_code)]").remove(0);
        assert!(found.to_string().starts_with("src/plan.rs:3: allows a lint"));
    }

    #[test]
    fn text_about_lints_is_not_a_lint() {
        assert_eq!(
            problems("src/plan.rs", "//! Never #[allow(x)].\nconst A: &str = \"#[allow(x)]\";"),
            0
        );
    }

    #[test]
    fn a_test_does_not_sleep() {
        let text = "//! A\nfn f() { tokio::time::sleep(SECOND).await; }";
        assert_eq!(problems("lab/tests/peer.rs", text), 1);
        assert_eq!(problems("lab/src/peer.rs", text), 0);
        assert_eq!(
            problems("lab/tests/peer.rs", "//! A\nfn f() { std::thread::sleep(SECOND) }"),
            1
        );
    }

    #[test]
    fn a_bounded_sleep_is_excused() {
        let text = "//! A\nfn f() { sleep(STEP); } // bounded: the deadline above\n";
        assert_eq!(problems("lab/tests/peer.rs", text), 0);
    }

    fn problems(path: &str, text: &str) -> usize {
        check_file(path, text).len()
    }
}

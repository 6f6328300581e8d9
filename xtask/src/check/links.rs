//! Finds relative links in Markdown that lead nowhere.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::path::{folder, join};

/// Every link whose target is not among the paths of the repository.
pub fn check(markdown: &BTreeMap<String, String>, paths: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in markdown {
        for (line, target) in targets(text) {
            if let Some(file) = local_file(&target)
                && !exists(path, file, paths)
            {
                findings.push(Finding::at_line(
                    path,
                    line,
                    format!("links to {target}: no such file"),
                ));
            }
        }
    }
    findings
}

/// Line and target of every link, image and reference outside of code.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if let Some(mark) = fence {
            if start.starts_with(mark) {
                fence = None;
            }
            continue;
        }
        fence = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        if fence.is_none() {
            let line = without_code(line);
            found.extend(targets_of_line(&line).into_iter().map(|target| (index + 1, target)));
        }
    }
    found
}

fn targets_of_line(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, opening) in line.match_indices("](") {
        found.extend(line.get(at + opening.len()..).and_then(in_parentheses));
    }
    if line.trim_start().starts_with('[')
        && let Some((_, target)) = line.split_once("]:")
    {
        found.push(target.to_owned());
    }
    for attribute in ["src=\"", "href=\""] {
        for (at, opening) in line.match_indices(attribute) {
            let value = line.get(at + opening.len()..).and_then(|rest| rest.split_once('"'));
            found.extend(value.map(|(target, _)| target.to_owned()));
        }
    }
    found.iter().map(|target| bare(target)).filter(|target| !target.is_empty()).collect()
}

/// The text up to the parenthesis that closes one opened just before.
fn in_parentheses(text: &str) -> Option<String> {
    let mut depth = 1_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return text.get(..at).map(str::to_owned);
        }
    }
    None
}

/// A target without title and angle brackets.
fn bare(target: &str) -> String {
    let target = target.trim();
    let bracketed = target.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let first = || target.split_whitespace().next().unwrap_or_default();
    bracketed.map_or_else(first, |(inner, _)| inner).to_owned()
}

/// The file part of a target inside the repository; nothing for addresses and anchors.
fn local_file(target: &str) -> Option<&str> {
    let file = target.split(['#', '?']).next().unwrap_or_default();
    let has_scheme = file.split('/').next().is_some_and(|first| first.contains(':'));
    (!file.is_empty() && !has_scheme && !file.starts_with("//")).then_some(file)
}

fn exists(from: &str, file: &str, paths: &BTreeSet<String>) -> bool {
    let start = if file.starts_with('/') { "" } else { folder(from) };
    let file = file.replace("%20", " ");
    join(start, &file).is_some_and(|path| path.is_empty() || paths.contains(&path))
}

/// The line with its code spans blanked.
fn without_code(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('`') {
        let body = after.trim_start_matches('`');
        let ticks = "`".repeat(after.len() - body.len() + 1);
        kept.push_str(before);
        let Some((_, next)) = body.split_once(&ticks) else {
            rest = body;
            break;
        };
        rest = next;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_and_folders_pass() {
        for link in [
            "[a](guide.md)",
            "[a](guide.md#part \"title\")",
            "[`code`](../docs/guide.md)",
            "[a](/README.md)",
            "[a](..)",
            "[a](<a b.md>) and [b](a%20b.md)",
            "![a](odd(1).png)",
            "[ref]: guide.md",
            "<img src=\"odd(1).png\">",
        ] {
            assert!(broken(link).is_empty(), "{link}");
        }
    }

    #[test]
    fn addresses_and_anchors_are_not_files() {
        for link in ["[a](https://example.org/x)", "[a](mailto:a@example.org)", "[a](#part)"] {
            assert!(broken(link).is_empty(), "{link}");
        }
    }

    #[test]
    fn code_holds_no_links() {
        for code in ["`[a](gone.md)`", "``a ` [a](gone.md)``", "```text\n[a](gone.md)\n```"] {
            assert!(broken(code).is_empty(), "{code}");
        }
    }

    #[test]
    fn a_link_to_nothing_is_found_with_its_line() {
        assert_eq!(
            broken("a\n\n[a](gone.md)"),
            ["docs/index.md:3: links to gone.md: no such file"]
        );
    }

    #[test]
    fn every_kind_of_link_is_looked_at() {
        for link in
            ["[a]: gone.md", "![a](gone.png)", "<a href=\"gone.md\">", "[a](guide.md)[b](gone.md)"]
        {
            assert_eq!(broken(link).len(), 1, "{link}");
        }
    }

    #[test]
    fn a_link_out_of_the_repository_is_found() {
        assert_eq!(broken("[a](../../other.md)").len(), 1);
    }

    fn broken(text: &str) -> Vec<String> {
        let paths = ["README.md", "docs", "docs/guide.md", "docs/a b.md", "docs/odd(1).png"];
        let markdown = BTreeMap::from([("docs/index.md".to_owned(), text.to_owned())]);
        let findings = check(&markdown, &paths.map(str::to_owned).into());
        findings.iter().map(ToString::to_string).collect()
    }
}

//! The text format of metrics: reading lines, and putting families together again.

use std::collections::BTreeMap;

/// A line of a text of metrics.
pub(crate) enum Line<'a> {
    /// `# HELP` or `# TYPE`.
    Description(&'a str),
    Sample(Sample<'a>),
    /// Nothing that says anything.
    Other,
}

/// One value of a metric.
pub(crate) struct Sample<'a> {
    pub(crate) name: &'a str,
    /// As they are written, escapes included.
    labels: Vec<(&'a str, &'a str)>,
    pub(crate) value: &'a str,
    pub(crate) time: Option<&'a str>,
}

impl Sample<'_> {
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// The line, with another value of one label.
    pub(crate) fn with_label(&self, name: &str, value: &str) -> String {
        let labels: Vec<String> = self
            .labels
            .iter()
            .map(|(key, own)| format!("{key}=\"{}\"", if *key == name { value } else { own }))
            .collect();
        let time = self.time.map(|time| format!(" {time}")).unwrap_or_default();
        format!("{}{{{}}} {}{time}", self.name, labels.join(","), self.value)
    }
}

/// Reads a line; one that is not understood says nothing.
pub(crate) fn read(line: &str) -> Line<'_> {
    if line.starts_with('#') {
        let describes = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
        return if describes { Line::Description(line) } else { Line::Other };
    }
    sample(line).map_or(Line::Other, Line::Sample)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (vec![], rest),
    };
    let mut words = rest.split_ascii_whitespace();
    Some(Sample { name, labels, value: words.next()?, time: words.next() })
}

type Labels<'a> = Vec<(&'a str, &'a str)>;

/// Labels up to the closing brace, and what comes after it.
fn labels(mut rest: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = vec![];
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (key, after) = rest.split_once("=\"")?;
        let end = closing_quote(after)?;
        labels.push((key.trim(), after.get(..end)?));
        rest = after.get(end + 1..)?;
    }
}

/// Where the quote is that ends a text with escapes.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(place, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(place)
    })
}

#[derive(Default)]
struct Family {
    description: Vec<String>,
    lines: Vec<String>,
}

/// Families of metrics, by name.
#[derive(Default)]
pub(crate) struct Families(BTreeMap<String, Family>);

impl Families {
    /// Begins the text of another node.
    pub(crate) fn start(&mut self) -> Described<'_> {
        Described { families: self, name: String::new(), description: vec![] }
    }

    pub(crate) fn add_to(&mut self, name: &str, line: String) {
        self.0.entry(name.to_owned()).or_default().lines.push(line);
    }

    /// Everything, with each family's lines in order.
    pub(crate) fn text(self) -> String {
        let mut text = String::new();
        for mut family in self.0.into_values() {
            family.lines.sort();
            for line in family.description.into_iter().chain(family.lines) {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }
}

/// The family that the description of a text has come to.
pub(crate) struct Described<'a> {
    families: &'a mut Families,
    name: String,
    description: Vec<String>,
}

impl Described<'_> {
    /// Takes a line of description, which begins a family when it is about another one.
    pub(crate) fn describe(&mut self, line: &str) {
        let name = line.split(' ').nth(2).unwrap_or_default();
        if name != self.name {
            name.clone_into(&mut self.name);
            self.description.clear();
        }
        self.description.push(line.to_owned());
    }

    /// Makes sure that the family is there, with its description.
    pub(crate) fn announce(&mut self) -> &mut Vec<String> {
        let family = self.families.0.entry(self.name.clone()).or_default();
        if family.description.is_empty() {
            family.description.clone_from(&self.description);
        }
        &mut family.lines
    }

    pub(crate) fn add(&mut self, line: String) {
        self.announce().push(line);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_in_labels_do_not_end_them() {
        let Line::Sample(sample) = read(r#"a{b="c\"}d\\",e="f"} 1 2"#) else { panic!() };
        assert_eq!((sample.label("b"), sample.label("e")), (Some(r#"c\"}d\\"#), Some("f")));
        assert_eq!((sample.name, sample.value, sample.time), ("a", "1", Some("2")));
        assert_eq!(sample.with_label("e", "g"), r#"a{b="c\"}d\\",e="g"} 1 2"#);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange_to_read(line: String) {
            let _ = read(&line);
        }
    }
}

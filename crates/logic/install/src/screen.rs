//! Boxes of text, as wide as a terminal used to be.

/// How wide a box is.
const WIDTH: usize = 80;
/// How wide its content is.
const INNER: usize = WIDTH - 4;
/// How far each level is indented.
const INDENT: usize = 4;

/// Something in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A title, and what belongs to it.
    Section(String, Vec<Part>),
    /// A key and its value; the values of neighbours are aligned.
    Entry(String, String),
    /// One of many.
    Item(String),
    /// Whether something is so.
    Mark(bool, String),
}

impl Part {
    /// A section.
    pub fn section(title: &str, parts: Vec<Self>) -> Self {
        Self::Section(title.to_owned(), parts)
    }

    /// A key and its value.
    pub fn entry(key: &str, value: impl Into<String>) -> Self {
        Self::Entry(key.to_owned(), value.into())
    }
}

/// How words are made to stand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Not at all.
    Plain,
    /// With the escape sequences of terminals.
    Terminal,
}

/// A line: what it looks like, and how wide it is without escape sequences.
struct Line {
    text: String,
    width: usize,
}

/// Draws a box.
pub fn draw(title: &str, parts: &[Part], style: Style) -> String {
    let rule = "─".repeat(WIDTH.saturating_sub(title.chars().count() + 5));
    let mut text = format!("┌─ {} {rule}┐\n", style.bold(title));
    for line in lines(parts, 0, style) {
        let pad = " ".repeat(INNER.saturating_sub(line.width));
        text.push_str("│ ");
        text.push_str(&line.text);
        text.push_str(&pad);
        text.push_str(" │\n");
    }
    text.push('└');
    text.push_str(&"─".repeat(WIDTH - 2));
    text.push('┘');
    text
}

fn lines(parts: &[Part], level: usize, style: Style) -> Vec<Line> {
    let widest = |part: &Part| match part {
        Part::Entry(key, _) => key.chars().count(),
        Part::Section(..) | Part::Item(_) | Part::Mark(..) => 0,
    };
    let keys = parts.iter().map(widest).max().unwrap_or_default();
    let indent = level * INDENT;
    let mut all = vec![];
    for part in parts {
        match part {
            Part::Section(title, inner) => {
                all.extend(wrapped("", indent, title, |text| style.bold(text)));
                all.extend(lines(inner, level + 1, style));
            }
            Part::Entry(key, value) => {
                let pad = " ".repeat(keys.saturating_sub(key.chars().count()));
                let head = format!("{}:{pad} ", style.bold(key));
                all.extend(headed(&head, keys + 2, indent, value, str::to_owned));
            }
            Part::Item(text) => all.extend(wrapped("- ", indent, text, str::to_owned)),
            Part::Mark(good, text) => {
                let mark = style.mark(*good);
                all.extend(headed(&format!("{mark} "), 2, indent, text, str::to_owned));
            }
        }
    }
    all
}

fn wrapped(head: &str, indent: usize, text: &str, paint: impl Fn(&str) -> String) -> Vec<Line> {
    headed(head, head.chars().count(), indent, text, paint)
}

/// A text after a head; what does not fit goes below its beginning.
fn headed(
    head: &str,
    head_width: usize,
    indent: usize,
    text: &str,
    paint: impl Fn(&str) -> String,
) -> Vec<Line> {
    let room = INNER.saturating_sub(indent + head_width).max(1);
    let mut all = vec![];
    for piece in pieces(text, room) {
        let front = if all.is_empty() { head.to_owned() } else { " ".repeat(head_width) };
        let width = indent + head_width + piece.chars().count();
        all.push(Line { text: format!("{}{front}{}", " ".repeat(indent), paint(&piece)), width });
    }
    all
}

/// Breaks a text between words; a word that is too long is cut.
fn pieces(text: &str, room: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    for word in text.split_whitespace() {
        let mut letters: Vec<char> = word.chars().collect();
        loop {
            let used = all.last().map_or(0, |last| last.chars().count());
            let gap = usize::from(used > 0);
            if used + gap + letters.len() <= room || (used == 0 && letters.len() <= room) {
                if let Some(last) = all.last_mut() {
                    if gap == 1 {
                        last.push(' ');
                    }
                    last.extend(letters);
                }
                break;
            }
            if used == 0 {
                let rest = letters.split_off(room);
                if let Some(last) = all.last_mut() {
                    last.extend(letters);
                }
                letters = rest;
            }
            all.push(String::new());
        }
    }
    all
}

impl Style {
    fn bold(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Terminal => format!("\x1b[1m{text}\x1b[0m"),
        }
    }

    fn mark(self, good: bool) -> String {
        let (mark, colour) = if good { ("✔", 32) } else { ("✖", 31) };
        match self {
            Self::Plain => mark.to_owned(),
            Self::Terminal => format!("\x1b[{colour}m{mark}\x1b[0m"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_aligned_and_levels_indented() {
        let parts = [
            Part::Mark(true, "fine".to_owned()),
            Part::section(
                "Outer",
                vec![
                    Part::entry("Short", "a"),
                    Part::entry("Rather long", "b"),
                    Part::section("Inner", vec![Part::Item("x".to_owned())]),
                ],
            ),
        ];

        insta::assert_snapshot!(draw("Title", &parts, Style::Plain), @"
        ┌─ Title ──────────────────────────────────────────────────────────────────────┐
        │ ✔ fine                                                                       │
        │ Outer                                                                        │
        │     Short:       a                                                           │
        │     Rather long: b                                                           │
        │     Inner                                                                    │
        │         - x                                                                  │
        └──────────────────────────────────────────────────────────────────────────────┘
        ");
    }

    #[test]
    fn what_does_not_fit_goes_below() {
        let value = format!("{} {}", "word ".repeat(16), "x".repeat(80));
        let parts = [Part::entry("Key", value)];

        insta::assert_snapshot!(draw("Title", &parts, Style::Plain), @"
        ┌─ Title ──────────────────────────────────────────────────────────────────────┐
        │ Key: word word word word word word word word word word word word word word   │
        │      word word                                                               │
        │      xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx │
        │      xxxxxxxxx                                                               │
        └──────────────────────────────────────────────────────────────────────────────┘
        ");
    }

    #[test]
    fn escape_sequences_take_no_room() {
        let parts = [Part::entry("Key", "value"), Part::Mark(false, "bad".to_owned())];
        let bare = |text: &str| {
            let mut text = text.to_owned();
            for sequence in ["\x1b[1m", "\x1b[0m", "\x1b[31m"] {
                text = text.replace(sequence, "");
            }
            text
        };

        let plain = draw("Title", &parts, Style::Plain);
        let terminal = draw("Title", &parts, Style::Terminal);

        assert_ne!(plain, terminal);
        assert_eq!(bare(&terminal), plain);
    }

    proptest! {
        #[test]
        fn every_line_is_as_wide_as_the_box(key in "[a-z]{1,20}", value in "[a-z ]{0,200}") {
            let parts = [Part::section("s", vec![Part::Entry(key, value.clone()), Part::Item(value)])];
            for line in draw("Title", &parts, Style::Plain).lines() {
                prop_assert_eq!(line.chars().count(), WIDTH);
            }
        }
    }
}

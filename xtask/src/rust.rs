//! Just enough of Rust's grammar to tell code from text, and to see which modules it declares.
//!
//! A parser crate would know more, and cost every build of the checks its own build.

/// A word or a single sign of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Where it starts, in bytes.
    pub offset: usize,
    /// Its line, counted from one.
    pub line: usize,
    /// The word or sign itself.
    pub text: &'a str,
}

/// A module as its parent declares it.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Names of the inline modules around the declaration, outermost first.
    pub inside: Vec<String>,
    /// The file a `path` attribute gives it.
    pub path: Option<String>,
    /// Whether its body stands right there.
    pub is_inline: bool,
    /// The line of the declaration.
    pub line: usize,
}

/// The modules a file declares, in order.
pub fn modules(text: &str) -> Vec<Module> {
    let code = code_only(text);
    let tokens = tokens(&code);
    let words: Vec<&str> = tokens.iter().map(|token| token.text).collect();
    let mut modules = Vec::new();
    let mut braces: Vec<Option<String>> = Vec::new();
    let mut opening = None;
    let mut path = None;
    for (index, token) in tokens.iter().enumerate() {
        match words.get(index..).unwrap_or_default() {
            ["mod", name, end @ (";" | "{"), ..] => {
                let is_inline = *end == "{";
                opening = is_inline.then(|| (*name).to_owned());
                modules.push(Module {
                    name: (*name).to_owned(),
                    inside: braces.iter().flatten().cloned().collect(),
                    path: path.take(),
                    is_inline,
                    line: token.line,
                });
            }
            ["#", "[", "path", "=", ..] => path = first_literal(text, token.offset),
            ["{", ..] => braces.push(opening.take()),
            ["}", ..] => {
                braces.pop();
            }
            _ => {}
        }
    }
    modules
}

/// The words and signs of a code from which comments and literals are gone.
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut offset = 0;
    while let Some(rest) = code.get(offset..).filter(|rest| !rest.is_empty()) {
        let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let sign = rest.chars().next().map_or(1, char::len_utf8);
        let (text, _) = rest.split_at(word.max(sign));
        if !text.trim().is_empty() {
            tokens.push(Token { offset, line, text });
        }
        line += usize::from(text == "\n");
        offset += text.len();
    }
    tokens
}

/// The same text with spaces for every byte of a comment or literal: offsets and lines stay.
pub fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    let mut previous = ' ';
    while let Some(first) = rest.chars().next() {
        let blank = prose_len(rest, previous);
        let (head, tail) = rest.split_at(if blank == 0 { first.len_utf8() } else { blank });
        if blank == 0 {
            code.push(first);
            previous = first;
        } else {
            code.extend(head.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            previous = ' ';
        }
        rest = tail;
    }
    code
}

/// Length of the comment or literal that the text starts with; zero when it starts with code.
fn prose_len(text: &str, previous: char) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment_len(text);
    }
    if text.starts_with('"') {
        return quoted_len(text, '"');
    }
    if text.starts_with('\'') {
        return character_len(text);
    }
    if is_word(previous) {
        return 0;
    }
    let raw = text.strip_prefix(['b', 'c']).unwrap_or(text);
    match raw_string_len(raw) {
        0 => 0,
        len => text.len() - raw.len() + len,
    }
}

fn block_comment_len(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut offset = 0;
    while let Some(rest) = text.get(offset..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            offset += 2;
        } else if rest.starts_with("*/") {
            depth = depth.saturating_sub(1);
            offset += 2;
            if depth == 0 {
                return offset;
            }
        } else {
            offset += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (offset, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return offset + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Zero for a lifetime, which has no closing quote right after its first character.
fn character_len(text: &str) -> usize {
    let mut chars = text.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted_len(text, '\''),
        _ => 0,
    }
}

fn raw_string_len(text: &str) -> usize {
    let Some(fence) = text.strip_prefix('r') else { return 0 };
    let body = fence.trim_start_matches('#');
    let hashes = fence.len() - body.len();
    let Some(body) = body.strip_prefix('"') else { return 0 };
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    body.find(&end).map_or(text.len(), |at| start + at + end.len())
}

fn first_literal(text: &str, offset: usize) -> Option<String> {
    let (_, after) = text.get(offset..)?.split_once('"')?;
    let (literal, _) = after.split_once('"')?;
    Some(literal.to_owned())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        for prose in [
            "// mod a;",
            "/* mod a; /* nested */ mod b; */",
            r#""mod a; \" mod b;""#,
            r##"r#"mod a; " mod b;"#"##,
            r##"br#"mod a;"#"##,
            "b\"mod a;\"",
            r"'\''",
            "'\"'",
        ] {
            let found = modules(&format!("{prose}\nmod real;"));
            let names: Vec<_> = found.iter().map(|module| module.name.as_str()).collect();
            assert_eq!(names, ["real"], "{prose}");
        }
    }

    #[test]
    fn offsets_and_lines_survive() {
        let text = "let a = \"ä\n\"; /* é */ b";
        let code = code_only(text);

        assert_eq!(code.len(), text.len());
        let last = tokens(&code).pop().unwrap();
        assert_eq!((last.text, last.line, last.offset), ("b", 2, text.len() - 1));
    }

    #[test]
    fn lifetimes_are_code() {
        assert_eq!(code_only("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn raw_identifiers_are_code() {
        assert_eq!(code_only("let r#type = bar#x;"), "let r#type = bar#x;");
    }

    #[test]
    fn modules_know_what_surrounds_them() {
        let found =
            modules("mod a;\nfn f() {}\npub(crate) mod b {\n    if x { }\n    mod c;\n}\nmod d;");

        let names: Vec<_> = found.iter().map(|m| (m.name.as_str(), m.line, m.is_inline)).collect();
        assert_eq!(names, [("a", 1, false), ("b", 3, true), ("c", 5, false), ("d", 7, false)]);
        assert_eq!(found[2].inside, ["b"]);
        assert!(found[3].inside.is_empty());
    }

    #[test]
    fn a_path_attribute_belongs_to_the_next_module() {
        let found = modules("#[path = \"else/where.rs\"]\nmod a;\nmod b;");

        assert_eq!(found[0].path.as_deref(), Some("else/where.rs"));
        assert_eq!(found[1].path, None);
    }
}

//! Paths inside the repository as text: relative to its root, with `/`.

/// The folder a path lies in; empty at the root.
pub fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The last part of a path without its extension.
pub fn stem(path: &str) -> &str {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Follows a relative path from a folder; nothing when it leads out of the repository.
pub fn join(folder: &str, relative: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in folder.split('/').chain(relative.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_followed() {
        assert_eq!(join("docs/adr", "../.././README.md").as_deref(), Some("README.md"));
        assert_eq!(join("", "docs/").as_deref(), Some("docs"));
    }

    #[test]
    fn a_path_out_of_the_repository_leads_nowhere() {
        assert_eq!(join("docs", "../../other"), None);
    }

    #[test]
    fn a_path_falls_into_folder_and_stem() {
        assert_eq!(
            (folder("src/check/style.rs"), stem("src/check/style.rs")),
            ("src/check", "style")
        );
        assert_eq!((folder("build.rs"), stem("build.rs")), ("", "build"));
    }
}

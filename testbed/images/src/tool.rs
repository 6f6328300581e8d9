//! Finds an installed tool by its name.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::Error;

/// Where Debian keeps administrators' tools, which a user's `PATH` may lack.
const ALSO: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The absolute path of the tool `name`.
pub(crate) fn find(name: &str) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in(&path, name).ok_or_else(|| Error::ToolMissing { tool: name.to_owned() })
}

fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    std::env::split_paths(path)
        .chain(ALSO.map(PathBuf::from))
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_executable_of_the_path_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        for (at, mode) in [(&first, 0o644), (&second, 0o755)] {
            fs::create_dir(at).unwrap();
            fs::write(at.join("tool"), "").unwrap();
            fs::set_permissions(at.join("tool"), fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(find_in(&path, "tool"), Some(second.join("tool")));
    }

    #[test]
    fn system_folders_are_searched_even_when_the_path_lacks_them() {
        let found = find_in(OsStr::new(""), "ldconfig");
        assert!(found.is_some_and(|path| path.ends_with("sbin/ldconfig")));
    }
}

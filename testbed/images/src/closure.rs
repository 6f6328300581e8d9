//! Finds the shared libraries that an ELF file needs, by asking `ldd`.
//!
//! Every library keeps the path at which the loader found it on the host. The loader's built-in
//! search path contains these, so an image needs no `ld.so.cache`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;

const ELF_MAGIC: [u8; 4] = *b"\x7fELF";

/// A file that must be at `at` in the image; its contents are those of `host`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Library {
    pub(crate) at: PathBuf,
    pub(crate) host: PathBuf,
}

/// Why the output of `ldd` names no complete closure.
#[derive(Debug, PartialEq, Eq)]
struct NotFound<'a>(&'a str);

/// The libraries and the loader that `binary` needs; none when it is statically linked.
pub(crate) fn of(binary: &Path) -> Result<BTreeSet<Library>, Error> {
    if !is_elf(binary).map_err(|source| Error::Read { path: binary.to_owned(), source })? {
        return Err(Error::NotElf { path: binary.to_owned() });
    }
    // ldd takes a name without a slash for a file of the current directory but warns on stdout.
    let absolute = std::path::absolute(binary)
        .map_err(|source| Error::Read { path: binary.to_owned(), source })?;
    let output = Command::new("ldd")
        .arg(&absolute)
        .env("LC_ALL", "C")
        // Libraries that only the caller's environment knows would not be found in the image.
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("LD_PRELOAD")
        .output()
        .map_err(|source| Error::Ldd { binary: binary.to_owned(), source })?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if is_static(&stdout) || is_static(&stderr) {
        return Ok(BTreeSet::new());
    }
    if !output.status.success() {
        let message = stderr.trim().to_owned();
        return Err(Error::LddRefused { binary: binary.to_owned(), message });
    }
    parse(&stdout).map_err(|NotFound(library)| Error::LibraryMissing {
        binary: binary.to_owned(),
        library: library.to_owned(),
    })
}

fn is_elf(path: &Path) -> io::Result<bool> {
    let mut magic = Vec::with_capacity(ELF_MAGIC.len());
    File::open(path)?.take(4).read_to_end(&mut magic)?;
    Ok(magic == ELF_MAGIC)
}

fn is_static(output: &str) -> bool {
    output.contains("statically linked") || output.contains("not a dynamic executable")
}

/// Reads the output of `ldd` for a dynamic executable.
fn parse(output: &str) -> Result<BTreeSet<Library>, NotFound<'_>> {
    output.lines().filter_map(|line| parse_line(line).transpose()).collect()
}

/// Reads `libc.so.6 => /lib/libc.so.6 (0x…)` or `/lib64/ld-linux.so.2 (0x…)`; the kernel's vdso
/// and blank lines are nothing.
fn parse_line(line: &str) -> Result<Option<Library>, NotFound<'_>> {
    let line = line.trim();
    let line = line.rsplit_once(" (0x").map_or(line, |(rest, _)| rest);
    let (wanted, found) = line.split_once(" => ").unwrap_or((line, line));
    if found == "not found" {
        return Err(NotFound(wanted));
    }
    if !found.starts_with('/') {
        return Ok(None);
    }
    // A path to the left is one that the binary insists on: the loader, or a library by path.
    let at = if wanted.starts_with('/') { wanted } else { found };
    Ok(Some(Library { at: at.into(), host: found.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(at: &str, host: &str) -> Library {
        Library { at: at.into(), host: host.into() }
    }

    #[test]
    fn libraries_and_loader_are_found_and_the_vdso_is_not() {
        let output = "\
\tlinux-vdso.so.1 (0x00007facbc301000)
\tlibmnl.so.0 => /lib/x86_64-linux-gnu/libmnl.so.0 (0x00007facbbfea000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007facbbff2000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007facbc303000)
";
        let expected = [
            library("/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
            library("/lib/x86_64-linux-gnu/libmnl.so.0", "/lib/x86_64-linux-gnu/libmnl.so.0"),
            library("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
        ];
        assert_eq!(parse(output), Ok(BTreeSet::from(expected)));
    }

    #[test]
    fn a_loader_found_elsewhere_is_placed_where_the_binary_wants_it() {
        let output = "\t/lib64/ld-linux-x86-64.so.2 => /usr/lib/ld-linux-x86-64.so.2 (0x1)\n";
        let expected = library("/lib64/ld-linux-x86-64.so.2", "/usr/lib/ld-linux-x86-64.so.2");
        assert_eq!(parse(output), Ok(BTreeSet::from([expected])));
    }

    #[test]
    fn a_missing_library_is_named() {
        let output = "\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlibnope.so.1 => not found\n";
        assert_eq!(parse(output), Err(NotFound("libnope.so.1")));
    }

    #[test]
    fn both_words_for_static_are_understood() {
        assert!(is_static("\tstatically linked\n"));
        assert!(is_static("\tnot a dynamic executable\n"));
        assert!(!is_static("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"));
    }

    #[test]
    fn a_static_binary_needs_nothing() {
        // Debian links it statically, so that it can repair broken libraries.
        assert_eq!(of(Path::new("/sbin/ldconfig")).unwrap(), BTreeSet::new());
    }

    #[test]
    fn this_very_test_needs_libc_and_a_loader() {
        let libraries = of(&std::env::current_exe().unwrap()).unwrap();
        let named = |part: &str| {
            libraries.iter().any(|library| library.at.to_string_lossy().contains(part))
        };
        assert!(named("libc.so.6") && named("/ld-linux-"), "{libraries:?}");
    }
}

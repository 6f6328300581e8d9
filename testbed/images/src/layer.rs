//! The files of an image and their tar form.
//!
//! Everything that could differ between two runs is fixed: order, owner, time and mode.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use tar::{Builder, EntryType, Header};

use crate::Error;

/// Mode of directories that only exist because something is inside.
const PARENT_MODE: u32 = 0o755;

/// One path of the image.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Directory {
        mode: u32,
    },
    Bytes {
        contents: Vec<u8>,
        mode: u32,
    },
    /// A file of the host, read when the layer is written; symbolic links are followed.
    Host {
        path: PathBuf,
        mode: u32,
    },
    Symlink {
        target: PathBuf,
    },
}

/// All paths of the image, without the leading slash; parents come before children.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<PathBuf, Entry>);

impl Tree {
    /// Adds or replaces an entry, and adds the directories above it.
    pub(crate) fn insert(&mut self, at: &Path, entry: Entry) -> Result<(), Error> {
        let path = inside(at).ok_or_else(|| Error::Path { path: at.to_owned() })?;
        let taken =
            |by: &Path| Error::Taken { path: at.to_owned(), taken: Path::new("/").join(by) };
        for parent in path.ancestors().skip(1).filter(|parent| *parent != Path::new("")) {
            match self.0.get(parent) {
                Some(Entry::Directory { .. }) => {}
                Some(Entry::Bytes { .. } | Entry::Host { .. } | Entry::Symlink { .. }) => {
                    return Err(taken(parent));
                }
                None => {
                    self.0.insert(parent.to_owned(), Entry::Directory { mode: PARENT_MODE });
                }
            }
        }
        if let Some(old) = self.0.get(&path)
            && old.is_directory() != entry.is_directory()
        {
            return Err(taken(&path));
        }
        self.0.insert(path, entry);
        Ok(())
    }

    /// Writes the layer; `failed` tells where writing, rather than reading, went wrong.
    pub(crate) fn write<W: Write>(
        &self,
        builder: &mut Builder<W>,
        failed: impl Fn(io::Error) -> Error + Copy,
    ) -> Result<(), Error> {
        for (path, entry) in &self.0 {
            match entry {
                Entry::Directory { mode } => {
                    // A directory of a tar ends in a slash.
                    append(builder, &path.join(""), EntryType::Directory, *mode, 0, io::empty())
                        .map_err(failed)?;
                }
                Entry::Bytes { contents, mode } => {
                    append_file(builder, path, *mode, contents).map_err(failed)?;
                }
                Entry::Host { path: host, mode } => {
                    let (file, size) =
                        open(host).map_err(|source| Error::Read { path: host.clone(), source })?;
                    let whole = Exactly { inner: file, left: size };
                    append(builder, path, EntryType::Regular, *mode, size, whole)
                        .map_err(failed)?;
                }
                Entry::Symlink { target } => {
                    let mut header = header(EntryType::Symlink, 0o777, 0);
                    builder.append_link(&mut header, path, target).map_err(failed)?;
                }
            }
        }
        Ok(())
    }
}

impl Entry {
    fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

/// Appends a regular file from memory.
pub(crate) fn append_file<W: Write>(
    builder: &mut Builder<W>,
    path: &Path,
    mode: u32,
    contents: &[u8],
) -> io::Result<()> {
    let size = contents.len().try_into().map_err(io::Error::other)?;
    append(builder, path, EntryType::Regular, mode, size, contents)
}

/// Appends an entry whose owner and time are the same on every machine.
pub(crate) fn append<W: Write>(
    builder: &mut Builder<W>,
    path: &Path,
    kind: EntryType,
    mode: u32,
    size: u64,
    contents: impl Read,
) -> io::Result<()> {
    builder.append_data(&mut header(kind, mode, size), path, contents)
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// The path below `/`, or nothing for `/` itself and for paths that do not stay inside.
fn inside(at: &Path) -> Option<PathBuf> {
    let mut components = at.components();
    if components.next() != Some(Component::RootDir) {
        return None;
    }
    let path = components
        .map(|component| match component {
            Component::Normal(name) => Some(name),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect::<Option<PathBuf>>()?;
    (path != Path::new("")).then_some(path)
}

/// Reads exactly `left` bytes: a file that changes meanwhile must not shift the rest of a tar.
struct Exactly<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let read = self.inner.by_ref().take(self.left).read(buffer)?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "a file became shorter while it was copied",
            ));
        }
        self.left -= u64::try_from(read).map_err(io::Error::other)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Entry {
        Entry::Bytes { contents: b"x".to_vec(), mode: 0o644 }
    }

    fn paths(tree: &Tree) -> Vec<String> {
        tree.0.keys().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn parents_are_added_and_sorted_before_their_children() {
        let mut tree = Tree::default();
        tree.insert(Path::new("/usr/bin/demo"), file()).unwrap();
        tree.insert(Path::new("/etc/passwd"), file()).unwrap();
        assert_eq!(paths(&tree), ["etc", "etc/passwd", "usr", "usr/bin", "usr/bin/demo"]);
    }

    #[test]
    fn a_directory_keeps_its_mode_when_something_is_put_inside() {
        let mut tree = Tree::default();
        tree.insert(Path::new("/tmp"), Entry::Directory { mode: 0o1777 }).unwrap();
        tree.insert(Path::new("/tmp/x"), file()).unwrap();
        assert!(matches!(tree.0.get(Path::new("tmp")), Some(Entry::Directory { mode: 0o1777 })));
    }

    #[test]
    fn paths_that_leave_the_image_are_refused() {
        for path in ["etc/passwd", "/etc/../passwd", "/", ""] {
            let refused = Tree::default().insert(Path::new(path), file());
            assert!(matches!(refused, Err(Error::Path { .. })), "{path:?}");
        }
    }

    #[test]
    fn nothing_can_be_put_below_a_link_or_over_a_directory() {
        let mut tree = Tree::default();
        tree.insert(Path::new("/lib"), Entry::Symlink { target: "usr/lib".into() }).unwrap();
        tree.insert(Path::new("/usr/bin/demo"), file()).unwrap();
        for path in ["/lib/libc.so.6", "/usr/bin"] {
            let refused = tree.insert(Path::new(path), file());
            assert!(matches!(refused, Err(Error::Taken { .. })), "{path:?}");
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_and_one_that_grows_is_cut() {
        let mut out = Vec::new();
        let short = Exactly { inner: &b"abc"[..], left: 4 }.read_to_end(&mut out);
        assert_eq!(short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        out.clear();
        Exactly { inner: &b"abcdef"[..], left: 4 }.read_to_end(&mut out).unwrap();
        assert_eq!(out, b"abcd");
    }
}

//! What can go wrong between a recipe and its archive.

use std::io;
use std::path::PathBuf;

/// Why an image could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image name is not one that a container runtime accepts.
    #[error("`{reference}` is not an image name like `localhost/playground/demo:v1`: {reason}")]
    Reference {
        /// The name as given.
        reference: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A path inside the image is relative, or leaves the image.
    #[error("`{path}` is not an absolute path without `..`")]
    Path {
        /// The path as given.
        path: PathBuf,
    },
    /// Something else than a directory is where a directory is needed, or the other way round.
    #[error("cannot put `{path}` in the image: `{taken}` is already something else")]
    Taken {
        /// The path that was to be added.
        path: PathBuf,
        /// The path in its way.
        taken: PathBuf,
    },
    /// A tool is not installed.
    #[error(
        "`{tool}` is not on PATH, nor in /usr/sbin or /sbin: install the Debian package that has it"
    )]
    ToolMissing {
        /// The tool as named in the recipe.
        tool: String,
    },
    /// A binary is something else, such as a script.
    #[error("`{path}` is not an ELF executable")]
    NotElf {
        /// The file on the host.
        path: PathBuf,
    },
    /// A shared library of a binary is not installed.
    #[error("`{binary}` needs `{library}`, which is not installed")]
    LibraryMissing {
        /// The file on the host.
        binary: PathBuf,
        /// The library as the binary names it.
        library: String,
    },
    /// `ldd` could not be started.
    #[error("cannot run ldd on `{binary}`")]
    Ldd {
        /// The file on the host.
        binary: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `ldd` ran and refused the binary.
    #[error("ldd cannot read `{binary}`: {message}")]
    LddRefused {
        /// The file on the host.
        binary: PathBuf,
        /// What ldd said.
        message: String,
    },
    /// A file of the host could not be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file on the host.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The archive could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The archive on the host.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

//! The archive: one tar that is both an OCI layout and what `docker save` writes.
//!
//! ```text
//! blobs/sha256/<layer>       the files, an uncompressed tar
//! blobs/sha256/<config>      how a container starts; names the layer
//! blobs/sha256/<manifest>    names config and layer
//! index.json                 OCI: names the manifest and the image
//! manifest.json              Docker: names config, layer and the image
//! oci-layout
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Seek as _, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType};

use crate::layer::{self, Tree};
use crate::reference::Reference;
use crate::{Error, Settings, Summary};

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// Writes the archive beside `target`, then renames it.
pub(crate) fn write(
    reference: &Reference,
    tree: &Tree,
    settings: &Settings,
    target: &Path,
) -> Result<Summary, Error> {
    let failed = |source| Error::Write { path: target.to_owned(), source };
    let folder = match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    };
    let mut layer = Layer::write(tree, folder, failed)?;
    let mut whole = tempfile::Builder::new()
        .prefix(".image-")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(failed)?;
    assemble(reference, &mut layer, settings, whole.as_file_mut()).map_err(failed)?;
    let size = whole.as_file().metadata().map_err(failed)?.len();
    whole.persist(target).map_err(|error| failed(error.error))?;
    Ok(Summary { reference: reference.to_string(), size, layer: layer.blob.digest })
}

/// The layer in an unnamed temporary file, so that it is never held in memory.
struct Layer {
    file: File,
    blob: Descriptor,
}

impl Layer {
    fn write(
        tree: &Tree,
        folder: &Path,
        failed: impl Fn(io::Error) -> Error + Copy,
    ) -> Result<Self, Error> {
        let file = tempfile::tempfile_in(folder).map_err(failed)?;
        let mut builder = Builder::new(Hashed::new(BufWriter::new(file)));
        tree.write(&mut builder, failed)?;
        let hashed = builder.into_inner().map_err(failed)?;
        let digest = digest(&hashed.hash.finalize());
        let mut file = hashed.inner.into_inner().map_err(|error| failed(error.into_error()))?;
        file.rewind().map_err(failed)?;
        Ok(Self { file, blob: Descriptor::new(LAYER, digest, hashed.size) })
    }
}

fn assemble(
    reference: &Reference,
    layer: &mut Layer,
    settings: &Settings,
    out: &mut File,
) -> io::Result<()> {
    let platform = Platform { architecture: architecture(), os: "linux" };
    let config = Blob::new(
        CONFIG,
        &ImageConfig {
            created: EPOCH,
            platform,
            config: ContainerConfig {
                user: settings.user.as_deref(),
                env: settings.environment(),
                entrypoint: &settings.entrypoint,
                working_dir: settings.workdir.as_deref(),
            },
            rootfs: RootFs { kind: "layers", diff_ids: [&layer.blob.digest] },
            history: [History { created: EPOCH, created_by: env!("CARGO_PKG_NAME") }],
        },
    )?;
    let manifest = Blob::new(
        MANIFEST,
        &Manifest {
            schema_version: 2,
            media_type: MANIFEST,
            config: &config.descriptor,
            layers: [&layer.blob],
        },
    )?;
    let index = Index {
        schema_version: 2,
        media_type: INDEX,
        manifests: [Named {
            descriptor: &manifest.descriptor,
            platform,
            annotations: BTreeMap::from([
                ("io.containerd.image.name", reference.to_string()),
                ("org.opencontainers.image.ref.name", reference.tag().to_owned()),
            ]),
        }],
    };
    let docker = [DockerManifest {
        config: config.descriptor.path(),
        repo_tags: [reference.to_string()],
        layers: [layer.blob.path()],
    }];

    let mut builder = Builder::new(BufWriter::new(out));
    for folder in ["blobs/", "blobs/sha256/"] {
        let path = Path::new(folder);
        layer::append(&mut builder, path, EntryType::Directory, 0o755, 0, io::empty())?;
    }
    let (path, size) = (layer.blob.path(), layer.blob.size);
    layer::append(&mut builder, &path, EntryType::Regular, 0o644, size, &mut layer.file)?;
    let files = [
        (config.descriptor.path(), config.bytes),
        (manifest.descriptor.path(), manifest.bytes),
        ("index.json".into(), serde_json::to_vec(&index)?),
        ("manifest.json".into(), serde_json::to_vec(&docker)?),
        ("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
    ];
    for (path, bytes) in files {
        layer::append_file(&mut builder, &path, 0o644, &bytes)?;
    }
    builder.into_inner()?.flush()
}

/// A small document, kept in memory with its digest.
struct Blob {
    bytes: Vec<u8>,
    descriptor: Descriptor,
}

impl Blob {
    fn new(media_type: &'static str, document: &impl Serialize) -> io::Result<Self> {
        let bytes = serde_json::to_vec(document)?;
        let size = bytes.len().try_into().map_err(io::Error::other)?;
        let descriptor = Descriptor::new(media_type, digest(&Sha256::digest(&bytes)), size);
        Ok(Self { bytes, descriptor })
    }
}

/// Names a blob by type, digest and size.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: &'static str,
    digest: String,
    size: u64,
}

impl Descriptor {
    fn new(media_type: &'static str, digest: String, size: u64) -> Self {
        Self { media_type, digest, size }
    }

    /// Where the blob is in the archive.
    fn path(&self) -> PathBuf {
        PathBuf::from("blobs").join(self.digest.replace(':', "/"))
    }
}

#[derive(Serialize, Clone, Copy)]
struct Platform {
    architecture: &'static str,
    os: &'static str,
}

#[derive(Serialize)]
struct ImageConfig<'a> {
    created: &'static str,
    #[serde(flatten)]
    platform: Platform,
    config: ContainerConfig<'a>,
    rootfs: RootFs<'a>,
    history: [History; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ContainerConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    env: Vec<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    entrypoint: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    working_dir: Option<&'a str>,
}

#[derive(Serialize)]
struct RootFs<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    diff_ids: [&'a str; 1],
}

#[derive(Serialize)]
struct History {
    created: &'static str,
    created_by: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    schema_version: u8,
    media_type: &'static str,
    config: &'a Descriptor,
    layers: [&'a Descriptor; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index<'a> {
    schema_version: u8,
    media_type: &'static str,
    manifests: [Named<'a>; 1],
}

#[derive(Serialize)]
struct Named<'a> {
    #[serde(flatten)]
    descriptor: &'a Descriptor,
    platform: Platform,
    annotations: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DockerManifest {
    config: PathBuf,
    repo_tags: [String; 1],
    layers: [PathBuf; 1],
}

/// Counts and hashes what passes through.
struct Hashed<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W> Hashed<W> {
    fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), size: 0 }
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or(bytes));
        self.size += u64::try_from(written).map_err(io::Error::other)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The digest as image documents spell it.
fn digest(hash: &[u8]) -> String {
    hash.iter().fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// This machine's architecture as images spell it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_through_is_hashed_and_counted() {
        let mut hashed = Hashed::new(Vec::new());
        hashed.write_all(b"ab").unwrap();
        hashed.write_all(b"c").unwrap();
        assert_eq!((hashed.inner.as_slice(), hashed.size), (&b"abc"[..], 3));
        assert_eq!(
            digest(&hashed.hash.finalize()),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_blob_lies_under_its_digest() {
        let blob = Descriptor::new(LAYER, "sha256:00ff".to_owned(), 1);
        assert_eq!(blob.path(), Path::new("blobs/sha256/00ff"));
    }
}

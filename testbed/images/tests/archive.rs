//! Reads written archives back and checks that their parts agree.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use liqo_images::{Error, Recipe, Summary};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Archive, EntryType};

#[test]
fn docker_and_oci_documents_name_the_same_blobs() {
    let image = Image::of(&demo());
    let index = image.json("index.json");
    let named = &index["manifests"][0];
    assert_eq!(
        named["annotations"],
        json!({
            "io.containerd.image.name": "localhost/playground/demo:v1",
            "org.opencontainers.image.ref.name": "v1",
        })
    );
    let manifest = image.blob_json(named);
    let config = image.blob_json(&manifest["config"]);
    let layer = image.blob(&manifest["layers"][0]);

    assert_eq!(manifest["layers"].as_array().map(Vec::len), Some(1));
    assert_eq!(config["rootfs"]["diff_ids"], json!([digest(layer)]));
    assert_eq!(image.summary.layer, digest(layer));
    assert_eq!(
        image.json("manifest.json"),
        json!([{
            "Config": blob_path(&manifest["config"]),
            "RepoTags": ["localhost/playground/demo:v1"],
            "Layers": [blob_path(&manifest["layers"][0])],
        }])
    );
    assert_eq!(image.json("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}));
}

#[test]
fn a_container_starts_as_the_recipe_says() {
    let image = Image::of(&demo());
    let config = image.blob_json(&image.manifest()["config"]);
    assert_eq!(config["os"], "linux");
    assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/demo", "serve"]));
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["WorkingDir"], "/tmp");
    let env = config["config"]["Env"].as_array().unwrap();
    assert!(env.contains(&json!("GREETING=hello")), "{env:?}");
}

#[test]
fn the_layer_holds_the_binary_its_libraries_and_their_folders() {
    let files = Image::of(&demo()).files();
    let binary = files.get("usr/bin/demo").unwrap();
    assert_eq!((binary.mode, binary.kind), (0o755, EntryType::Regular));
    assert!(binary.contents == fs::read(SHELL).unwrap());

    for part in ["ld-linux-", "libc.so.6"] {
        let (path, library) = files.iter().find(|(path, _)| path.contains(part)).unwrap();
        // Links of the host were followed: what is here is the library itself.
        assert_eq!(library.kind, EntryType::Regular, "{path}");
        assert!(library.contents == fs::read(Path::new("/").join(path)).unwrap(), "{path}");
    }
    for path in files.keys() {
        let parents = Path::new(path).ancestors().skip(1).filter(|at| *at != Path::new(""));
        for parent in parents.map(|at| at.display().to_string()) {
            assert_eq!(files.get(&parent).map(|file| file.kind), Some(EntryType::Directory));
        }
    }
    assert_eq!(files.get("tmp").map(|file| file.mode), Some(0o1777));
    assert_eq!(files.get("usr/bin/curl").unwrap().link.as_deref(), Some("demo"));
    assert!(String::from_utf8_lossy(&files.get("etc/passwd").unwrap().contents).contains("65532"));
}

#[test]
fn nothing_in_the_layer_tells_who_wrote_it_or_when() {
    let image = Image::of(&demo());
    let mut layer = Archive::new(image.blob(&image.manifest()["layers"][0]));
    let mut paths = Vec::new();
    for entry in layer.entries().unwrap() {
        let entry = entry.unwrap();
        let header = entry.header();
        let marks = (header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap());
        assert_eq!(marks, (0, 0, 0));
        paths.push(entry.path().unwrap().into_owned());
    }
    assert!(paths.is_sorted(), "{paths:?}");
}

#[test]
fn equal_recipes_give_equal_bytes() {
    assert!(Image::of(&demo()).bytes == Image::of(&demo()).bytes);
}

#[test]
fn the_summary_tells_name_and_size() {
    let image = Image::of(&demo());
    assert_eq!(image.summary.reference, "localhost/playground/demo:v1");
    assert_eq!(image.summary.size, u64::try_from(image.bytes.len()).unwrap());
}

#[test]
fn a_failed_write_leaves_the_old_archive_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("demo.tar");
    fs::write(&target, "old").unwrap();
    let failed = demo().binary("/no/such/binary", "/usr/bin/x").write(&target);
    assert!(matches!(failed, Err(Error::Read { .. })));
    assert_eq!(fs::read(&target).unwrap(), b"old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A small dynamic executable that every machine has, often behind links.
const SHELL: &str = "/bin/sh";

fn demo() -> Recipe {
    Recipe::new("localhost/playground/demo:v1")
        .binary(SHELL, "/usr/bin/demo")
        .symlink("/usr/bin/curl", "demo")
        .directory("/tmp", 0o1777)
        .users()
        .user("65532:65532")
        .workdir("/tmp")
        .env("GREETING", "hello")
        .entrypoint(["/usr/bin/demo", "serve"])
}

struct Image {
    summary: Summary,
    bytes: Vec<u8>,
    entries: BTreeMap<String, Vec<u8>>,
}

struct File {
    kind: EntryType,
    mode: u32,
    link: Option<String>,
    contents: Vec<u8>,
}

impl Image {
    fn of(recipe: &Recipe) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("image.tar");
        let summary = recipe.write(&target).unwrap();
        let bytes = fs::read(&target).unwrap();
        let entries = unpack(&bytes).into_iter().map(|(path, file)| (path, file.contents));
        Self { summary, entries: entries.collect(), bytes }
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_slice(self.entries.get(path).unwrap()).unwrap()
    }

    fn manifest(&self) -> Value {
        self.blob_json(&self.json("index.json")["manifests"][0])
    }

    /// The blob that a descriptor names; it must have that size and digest.
    fn blob(&self, descriptor: &Value) -> &[u8] {
        let blob = self.entries.get(&blob_path(descriptor)).unwrap();
        assert_eq!(descriptor["size"], blob.len());
        assert_eq!(descriptor["digest"], digest(blob));
        blob
    }

    fn blob_json(&self, descriptor: &Value) -> Value {
        serde_json::from_slice(self.blob(descriptor)).unwrap()
    }

    fn files(&self) -> BTreeMap<String, File> {
        unpack(self.blob(&self.manifest()["layers"][0]))
    }
}

fn unpack(bytes: &[u8]) -> BTreeMap<String, File> {
    let mut archive = Archive::new(bytes);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).unwrap();
        let file = File {
            kind: entry.header().entry_type(),
            mode: entry.header().mode().unwrap(),
            link: entry.link_name().unwrap().map(|target| target.display().to_string()),
            contents,
        };
        (path.trim_end_matches('/').to_owned(), file)
    });
    entries.collect()
}

fn blob_path(descriptor: &Value) -> String {
    format!("blobs/{}", descriptor["digest"].as_str().unwrap().replace(':', "/"))
}

fn digest(bytes: &[u8]) -> String {
    let hex: Vec<_> = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", hex.concat())
}

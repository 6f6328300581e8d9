//! The images that clusters run, packed from programs of this machine.
//!
//! An archive's name carries a digest of what it was made from, so a changed program makes a new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use liqo_images::Recipe;
use sha2::{Digest as _, Sha256};

use crate::engine::hex;
use crate::node_files::PAUSE_IMAGE;
use crate::progress::Line;
use crate::static_pods;

/// An image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// Holds a pod's namespaces.
    Pause,
    /// What control plane pods are made of: nothing; their programs are mounted.
    Kube,
    /// CoreDNS.
    CoreDns,
    /// metrics-server.
    MetricsServer,
    /// The provisioner of volumes.
    LocalPath,
    /// The program that examples and tests run inside pods, with their tools.
    Demo,
    /// Liqo itself.
    Liqo,
    /// The example of a resource plugin.
    ResourcePlugin,
}

/// What a cluster needs before its first pod.
pub const BOOT: [Image; 2] = [Image::Pause, Image::Kube];
/// Every image.
pub const ALL: [Image; 8] = [
    Image::Pause,
    Image::Kube,
    Image::CoreDns,
    Image::MetricsServer,
    Image::LocalPath,
    Image::Demo,
    Image::Liqo,
    Image::ResourcePlugin,
];

/// Built together, programs share what they are made of.
const OURS: [&str; 3] = ["liqo", "liqoctl", "liqo-resource-plugin"];

/// Old archives of one image that are kept: other clones may be using them.
const KEPT: usize = 4;

/// Why an image is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program it contains could not be built.
    #[error("building {program} for its image failed:\n{output}")]
    Build {
        /// The program.
        program: String,
        /// The compiler's words.
        output: String,
    },
    /// It could not be packed.
    #[error("cannot pack the image {name}")]
    Pack {
        /// The image.
        name: &'static str,
        /// Why.
        source: liqo_images::Error,
    },
    /// The cache cannot be used.
    #[error("cannot use {path}; check that the disk has room and that it is writable")]
    Files {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Where things are taken from and put to.
pub struct Workshop<'a> {
    /// The project.
    pub home: &'a Path,
    /// The cache.
    pub cache: &'a Path,
    /// The engine's programs.
    pub engine: &'a Path,
    /// Where cargo builds.
    pub target: &'a Path,
}

/// The folder of all archives.
pub fn folder(cache: &Path) -> PathBuf {
    cache.join("images")
}

impl Image {
    /// The image that is called so.
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|image| image.name() == name)
    }

    /// What its archive's name starts with.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Kube => "kube",
            Self::CoreDns => "coredns",
            Self::MetricsServer => "metrics-server",
            Self::LocalPath => "local-path-provisioner",
            Self::Demo => "demo",
            Self::Liqo => "liqo",
            Self::ResourcePlugin => "resource-plugin",
        }
    }
}

impl Workshop<'_> {
    /// Packs the images unless they are there, and returns their archives' file names.
    pub fn ensure(&self, images: &[Image], line: &Line) -> Result<Vec<String>, Error> {
        images.iter().map(|image| self.ensure_one(*image, line)).collect()
    }

    fn ensure_one(&self, image: Image, line: &Line) -> Result<String, Error> {
        let name = image.name();
        line.say(&format!("images: {name}"));
        let program = self.program(image)?;
        let archive = format!("{name}-{}.tar", hex(&fingerprint(program.as_deref())?, 6));
        let folder = folder(self.cache);
        if folder.join(&archive).exists() {
            return Ok(archive);
        }
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let packed = recipe(image, program.as_deref().unwrap_or(Path::new("")));
        packed.write(&folder.join(&archive)).map_err(|source| Error::Pack { name, source })?;
        forget_old(&folder, name);
        Ok(archive)
    }

    /// Builds what an image carries.
    fn program(&self, image: Image) -> Result<Option<PathBuf>, Error> {
        match image {
            Image::Kube => Ok(None),
            Image::Pause => self.compile_pause().map(Some),
            Image::CoreDns | Image::MetricsServer | Image::LocalPath => {
                Ok(Some(self.engine.join(image.name())))
            }
            Image::Demo => self.cargo(&["liqo-demo"], "demo").map(Some),
            Image::Liqo | Image::ResourcePlugin => self.cargo(&OURS, image.name()).map(Some),
        }
    }

    fn compile_pause(&self) -> Result<PathBuf, Error> {
        let source = self.home.join("images/pause.c");
        let text = fs::read(&source).map_err(at(&source))?;
        let program = self.cache.join(format!("pause-{}", hex(&Sha256::digest(text), 6)));
        if !program.exists() {
            let part = program.with_extension("part");
            let mut compiler = Command::new("cc");
            compiler.args(["-Os", "-static", "-s", "-o"]).arg(&part).arg(&source);
            succeed(&mut compiler, "pause")?;
            fs::rename(&part, &program).map_err(at(&program))?;
        }
        Ok(program)
    }

    /// Builds a program; with `LIQO_PROFILE=dev` quickly, for those who change it often.
    fn cargo(&self, packages: &[&str], program: &str) -> Result<PathBuf, Error> {
        let quick = std::env::var("LIQO_PROFILE").is_ok_and(|profile| profile == "dev");
        let (profile, folder) = if quick { ("dev", "debug") } else { ("release", "release") };
        let mut cargo = Command::new("cargo");
        cargo
            .args(["build", "--quiet", "--locked", "--profile", profile])
            .args(packages.iter().flat_map(|package| ["--package", package]))
            .current_dir(self.home)
            .env("CARGO_TARGET_DIR", self.target);
        succeed(&mut cargo, program)?;
        Ok(self.target.join(folder).join(program))
    }
}

fn recipe(image: Image, program: &Path) -> Recipe {
    let one_program = |reference: &str| {
        let path = format!("/{}", image.name());
        Recipe::new(reference)
            .users()
            .directory("/tmp", 0o1777)
            .binary(program, &path)
            .entrypoint([path])
    };
    match image {
        Image::Pause => one_program(PAUSE_IMAGE),
        Image::Kube => Recipe::new(static_pods::IMAGE).users().directory("/tmp", 0o1777),
        Image::CoreDns => one_program("localhost/playground/coredns:v1.12.4"),
        Image::MetricsServer => one_program("localhost/playground/metrics-server:v0.9.0"),
        Image::LocalPath => one_program("localhost/playground/local-path-provisioner:v0.0.30"),
        Image::Demo => {
            let applets = [
                "sh", "cat", "chmod", "cp", "date", "echo", "env", "grep", "head", "hostname",
                "id", "ip", "ls", "mkdir", "nc", "nslookup", "ping", "ps", "rm", "sed", "seq",
                "sleep", "sync", "tail", "tar", "test", "touch", "true", "vi", "wc",
            ];
            let tools = Recipe::new("localhost/playground/demo:v1")
                .users()
                .directory("/tmp", 0o1777)
                .binary(program, "/usr/bin/demo")
                .symlink("/usr/bin/curl", "demo")
                .symlink("/usr/bin/dig", "demo")
                .tool("iperf3")
                .tool("busybox")
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .entrypoint(["/usr/bin/demo"]);
            applets.iter().fold(tools, |recipe, applet| {
                recipe.symlink(format!("/bin/{applet}"), busybox_path())
            })
        }
        Image::Liqo => Recipe::new("localhost/liqo/liqo:v0.8.3")
            .users()
            .directory("/tmp", 0o1777)
            .binary(program, "/usr/bin/liqo")
            .tool("nft")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .entrypoint(["/usr/bin/liqo"]),
        Image::ResourcePlugin => one_program("localhost/liqo/resource-plugin:v0.8.3"),
    }
}

/// Where a tool named `busybox` ends up: where this machine has it.
fn busybox_path() -> &'static str {
    let places = ["/usr/bin/busybox", "/bin/busybox"];
    places.into_iter().find(|place| Path::new(place).exists()).unwrap_or("/bin/busybox")
}

/// Changes whenever the program or the way of packing does.
fn fingerprint(program: Option<&Path>) -> Result<Vec<u8>, Error> {
    let mut hash = Sha256::new();
    hash.update(include_bytes!("images.rs"));
    if let Some(path) = program {
        let data = fs::metadata(path).map_err(at(path))?;
        let age = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        hash.update(path.display().to_string());
        hash.update(data.len().to_le_bytes());
        hash.update(age.unwrap_or_default().as_nanos().to_le_bytes());
    }
    Ok(hash.finalize().to_vec())
}

fn forget_old(folder: &Path, name: &str) {
    let mut archives: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let file = entry.file_name();
            // The digest has twelve letters, so `kube-…` does not match `kube-proxy-…`.
            file.to_string_lossy()
                .strip_prefix(&format!("{name}-"))
                .is_some_and(|rest| rest.len() == 16)
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    archives.sort();
    for (_, path) in archives.iter().rev().skip(KEPT) {
        let _ = fs::remove_file(path);
    }
}

fn succeed(command: &mut Command, program: &str) -> Result<(), Error> {
    let fail = |output: String| Error::Build { program: program.to_owned(), output };
    let output = command.stdin(Stdio::null()).output().map_err(|error| fail(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(fail(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::Files { path: path.to_owned(), source }
}

//! Builds the Go programs that clusters are made of, once per version of their sources.
//!
//! Each part is a Go module below `engine/`. What it builds goes to the cache under a name that is
//! the digest of the module's files, so that a change rebuilds and everything else is found there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use crate::progress::Line;

/// The version every Kubernetes component reports.
pub const KUBERNETES: &str = "v1.34.4";

/// A Go module, and the programs it builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What users call it.
    pub name: &'static str,
    folder: &'static str,
    /// Program name and Go package.
    programs: &'static [(&'static str, &'static str)],
}

/// Kubernetes itself, etcd and CoreDNS.
pub const CORE: Part = Part {
    name: "kubernetes",
    folder: "engine/kubernetes",
    programs: &[
        ("kube", "./kube"),
        ("agents", "./agents"),
        ("kubectl", "./kubectl"),
        ("etcd", "./etcd"),
        ("coredns", "./coredns"),
    ],
};
/// What `kubectl top` asks.
pub const METRICS: Part = Part {
    name: "metrics-server",
    folder: "engine/addons/metrics-server",
    programs: &[("metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server")],
};
/// What provisions volumes.
pub const STORAGE: Part = Part {
    name: "local-path-provisioner",
    folder: "engine/addons/local-path-provisioner",
    programs: &[("local-path-provisioner", "github.com/rancher/local-path-provisioner")],
};
/// What plays nodes that do not exist.
pub const KWOK: Part = Part {
    name: "kwok",
    folder: "engine/addons/kwok",
    programs: &[("kwok", "sigs.k8s.io/kwok/cmd/kwok")],
};
/// The real Helm.
pub const HELM: Part = Part {
    name: "helm",
    folder: "engine/addons/helm",
    programs: &[("helm", "helm.sh/helm/v3/cmd/helm")],
};

/// WireGuard in a process of its own.
pub const WIREGUARD: Part = Part {
    name: "wireguard-go",
    folder: "engine/addons/wireguard-go",
    programs: &[("wireguard-go", "golang.zx2c4.com/wireguard")],
};

/// Every part.
pub const ALL: [Part; 6] = [CORE, METRICS, STORAGE, KWOK, HELM, WIREGUARD];

/// The names under which a program plays a component.
const FACES: [(&str, &str); 5] = [
    ("kube-apiserver", "kube"),
    ("kube-controller-manager", "kube"),
    ("kubelet", "kube"),
    ("kube-proxy", "agents"),
    ("kube-scheduler", "agents"),
];

/// Why the programs are not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no Go compiler.
    #[error("cannot run `go`; install Go 1.26 or newer and make sure it is on the PATH")]
    NoGo(#[source] io::Error),
    /// The compiler failed.
    #[error("building {part} failed; mend the cause and run the command again:\n{output}")]
    Build {
        /// The part.
        part: &'static str,
        /// The compiler's last words.
        output: String,
    },
    /// The cache or the sources cannot be read or written.
    #[error("cannot use {path}; check that the disk has room and that it is writable")]
    Files {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The folder in which the programs of this version of the sources are, or will be.
pub fn folder(home: &Path, cache: &Path) -> Result<PathBuf, Error> {
    let mut all = Sha256::new();
    for part in ALL {
        all.update(digest(&home.join(part.folder))?);
    }
    Ok(cache.join("engine").join(hex(&all.finalize(), 6)))
}

/// Builds the given parts unless they are there, and returns the folder with the programs.
pub fn ensure(home: &Path, cache: &Path, parts: &[Part], line: &Line) -> Result<PathBuf, Error> {
    let target = folder(home, cache)?;
    if parts.iter().all(|part| part.is_in(&target)) {
        return Ok(target);
    }
    fs::create_dir_all(&target).map_err(at(&target))?;
    let lock = cache.join("engine/lock");
    let file = File::create(&lock).map_err(at(&lock))?;
    file.lock().map_err(at(&lock))?;
    for part in parts.iter().filter(|part| !part.is_in(&target)) {
        let key = hex(&digest(&home.join(part.folder))?, 6);
        let built = cache.join("engine/parts").join(format!("{}-{key}", part.name));
        if !part.is_in(&built) {
            part.build(home, &built, line)?;
        }
        // The faces come first: where the program is, they are.
        if *part == CORE {
            for (face, program) in FACES {
                let path = target.join(face);
                let _ = fs::remove_file(&path);
                std::os::unix::fs::symlink(program, &path).map_err(at(&path))?;
            }
        }
        for (program, _) in part.programs {
            link(&built.join(program), &target.join(program)).map_err(at(&target))?;
        }
    }
    Ok(target)
}

impl Part {
    fn is_in(&self, folder: &Path) -> bool {
        self.programs.iter().all(|(program, _)| folder.join(program).exists())
    }

    fn build(&self, home: &Path, target: &Path, line: &Line) -> Result<(), Error> {
        let module = home.join(self.folder);
        let total = packages(&module, self)?;
        let part = target.with_extension("part");
        fs::create_dir_all(&part).map_err(at(&part))?;
        for (program, package) in self.programs {
            let mut child = go(&module)
                .args(["build", "-v", "-trimpath", "-tags=providerless"])
                .arg(format!("-ldflags={}", linker_flags()))
                .arg("-o")
                .arg(part.join(program))
                .arg(package)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(Error::NoGo)?;
            let mut tail: Vec<String> = vec![];
            let mut compiled = 0_usize;
            let words = child.stderr.take().map(BufReader::new);
            for text in words.into_iter().flat_map(io::BufRead::lines).map_while(Result::ok) {
                compiled += 1;
                line.say(&format!(
                    "engine: {} {program}: {compiled} of at most {total} packages",
                    self.name
                ));
                tail.push(text);
                if tail.len() > 20 {
                    tail.remove(0);
                }
            }
            if !child.wait().map_err(Error::NoGo)?.success() {
                let _ = fs::remove_dir_all(&part);
                return Err(Error::Build { part: self.name, output: tail.join("\n") });
            }
        }
        let _ = fs::remove_dir_all(target);
        fs::rename(&part, target).map_err(at(target))
    }
}

fn packages(module: &Path, part: &Part) -> Result<usize, Error> {
    let mut command = go(module);
    command.args(["list", "-deps", "-tags=providerless"]);
    command.args(part.programs.iter().map(|(_, package)| package));
    let output = command.output().map_err(Error::NoGo)?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Build { part: part.name, output });
    }
    Ok(output.stdout.lines().count())
}

fn go(module: &Path) -> Command {
    let mut command = Command::new("go");
    // Static, so that an image needs nothing but the program.
    command
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=readonly -buildvcs=false");
    command
}

fn linker_flags() -> String {
    let variable =
        |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    let mut numbers = KUBERNETES.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or(""), numbers.next().unwrap_or(""));
    let variables = [("gitVersion", KUBERNETES), ("gitMajor", major), ("gitMinor", minor)];
    let words = variables.map(|(name, value)| variable(name, value)).join(" ");
    format!("-s -w {words}")
}

fn digest(folder: &Path) -> Result<Vec<u8>, Error> {
    let mut files = BTreeMap::new();
    collect(folder, folder, &mut files)?;
    let mut hash = Sha256::new();
    hash.update(linker_flags());
    for (path, bytes) in files {
        hash.update(path);
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    }
    Ok(hash.finalize().to_vec())
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.insert(name, fs::read(&path).map_err(at(&path))?);
        }
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    let _ = fs::remove_file(to);
    fs::hard_link(from, to)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::Files { path: path.to_owned(), source }
}

/// The first `bytes` bytes of a digest, as text.
pub fn hex(digest: &[u8], bytes: usize) -> String {
    use std::fmt::Write as _;
    digest.iter().take(bytes).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_to_the_sources_changes_the_folder() {
        let home = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for part in ALL {
            put(&format!("{}/go.mod", part.folder), part.name);
        }
        let cache = Path::new("/cache");
        let before = folder(home.path(), cache).unwrap();
        assert_eq!(folder(home.path(), cache).unwrap(), before);
        put("engine/kubernetes/kube/main.go", "package main");
        assert_ne!(folder(home.path(), cache).unwrap(), before);
    }

    #[test]
    fn a_build_that_fails_says_what_the_compiler_said_and_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let module = home.path().join(CORE.folder);
        for (program, _) in CORE.programs {
            fs::create_dir_all(module.join(program)).unwrap();
            fs::write(
                module.join(program).join("main.go"),
                "package main\n\nfunc main() { nonsense() }\n",
            )
            .unwrap();
        }
        fs::write(module.join("go.mod"), "module example\n\ngo 1.24\n").unwrap();
        for part in ALL.iter().skip(1) {
            fs::create_dir_all(home.path().join(part.folder)).unwrap();
        }
        let cache = home.path().join("cache");
        let error = ensure(home.path(), &cache, &[CORE], &Line::silent()).unwrap_err().to_string();
        assert!(error.contains("building kubernetes failed"), "{error}");
        assert!(error.contains("undefined: nonsense"), "{error}");
        assert_eq!(fs::read_dir(cache.join("engine/parts")).unwrap().count(), 0);
    }

    #[test]
    fn the_server_reports_the_version_it_was_made_from() {
        let flags = linker_flags();
        assert!(flags.contains("gitVersion=v1.34.4") && flags.contains("gitMinor=34"), "{flags}");
    }
}

//! The chart: the built-in one, or one in a folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use liqo_chart::Chart;

use super::flags::Flags;
use crate::failure::Failure;
use crate::version::CLIENT;

/// Where repositories of Liqo keep the chart.
const CHART_FOLDERS: [&str; 2] = ["charts/liqo", "deployments/liqo"];

/// The chart that flags ask for.
pub fn load(flags: &Flags) -> Result<Chart, Failure> {
    if let Some(folder) = &flags.local_chart_path {
        return from_folder(folder);
    }
    if let (Some(url), Some(version)) = (&flags.repo_url, &flags.version) {
        return from_repository(url, version);
    }
    if let Some(version) = flags.version.as_deref().filter(|version| is_other(version)) {
        let text = format!("this is liqoctl {CLIENT}, which cannot install {version}");
        return Err(Failure::text(text).hint(format!(
            "Get liqoctl {version}, or its chart with --repo-url or --local-chart-path."
        )));
    }
    Chart::embedded().map_err(|error| Failure::new("cannot use the built-in chart", error))
}

fn from_folder(folder: &Path) -> Result<Chart, Failure> {
    let mut files = vec![];
    read(folder, folder, &mut files).map_err(|error| {
        Failure::new(format!("cannot read the chart {}", folder.display()), error)
    })?;
    Chart::new(files).map_err(|error| Failure::new("cannot use the chart", error))
}

/// Fetches one commit, and takes the chart out of it.
fn from_repository(url: &str, version: &str) -> Result<Chart, Failure> {
    let folder =
        tempfile::tempdir().map_err(|error| Failure::new("cannot make a folder", error))?;
    let steps: [&[&str]; 3] = [
        &["init", "--quiet"],
        &["fetch", "--quiet", "--depth=1", "--", url, version],
        &["checkout", "--quiet", "FETCH_HEAD"],
    ];
    for step in steps {
        let run = Command::new("git").arg("-C").arg(folder.path()).args(step).output();
        let run = run.map_err(|error| {
            let failure = Failure::new("cannot run git, which --repo-url needs", error);
            failure.hint("Install git, or give the chart with --local-chart-path.")
        })?;
        if !run.status.success() {
            let words = String::from_utf8_lossy(&run.stderr).trim().to_owned();
            return Err(Failure::text(format!("cannot get {version} of {url}: {words}")));
        }
    }
    let place = CHART_FOLDERS.map(|place| folder.path().join(place));
    match place.iter().find(|place| place.join("Chart.yaml").exists()) {
        Some(place) => from_folder(place),
        None => Err(Failure::text(format!("{version} of {url} has no chart of Liqo"))),
    }
}

/// Whether a version is that of a release other than this one.
fn is_other(version: &str) -> bool {
    let numbers = version.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    let is_release = numbers.split('.').count() == 3
        && numbers.split('.').all(|part| part.parse::<u32>().is_ok());
    is_release && version.trim_start_matches('v') != CLIENT.trim_start_matches('v')
}

fn read(
    root: &Path,
    folder: &Path,
    files: &mut Vec<(String, String)>,
) -> Result<(), std::io::Error> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, files)?;
        } else if let (Ok(name), Ok(text)) = (path.strip_prefix(root), fs::read_to_string(&path)) {
            // What is no text is no part of a chart either.
            files.push((name.to_string_lossy().replace('\\', "/"), text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_taken_out_of_a_commit() {
        let folder = tempfile::tempdir().unwrap();
        let chart = folder.path().join("deployments/liqo");
        fs::create_dir_all(&chart).unwrap();
        let text = "apiVersion: v2\nname: liqo\nversion: 9.9.9\n";
        fs::write(chart.join("Chart.yaml"), text).unwrap();
        let git = |words: &[&str]| {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
            let mut command = Command::new("git");
            let run = command.arg("-C").arg(folder.path()).args(identity).args(words).output();
            assert!(run.unwrap().status.success(), "{words:?}");
        };
        git(&["init", "--quiet", "--initial-branch=main"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message=a"]);
        let url = format!("file://{}", folder.path().display());

        assert_eq!(from_repository(&url, "main").unwrap().metadata.version, "9.9.9");
        let error = format!("{:?}", from_repository(&url, "nowhere").unwrap_err());
        assert!(error.contains("cannot get nowhere of file://"), "{error}");
    }

    #[test]
    fn only_releases_can_be_other_ones() {
        assert!(is_other("v0.9.0") && is_other("0.8.2") && is_other("v0.9.0-rc.1"));
        assert!(!is_other(CLIENT) && !is_other(&CLIENT[1..]));
        assert!(!is_other("2cb4110ac5e64a52851dd0e0d86c9174") && !is_other("dev"));
    }
}

//! The chart: the built-in one, or one in a folder.

use std::fs;
use std::path::Path;

use liqo_chart::Chart;

use super::flags::Flags;
use crate::failure::Failure;
use crate::version::CLIENT;

/// The chart that flags ask for.
pub fn load(flags: &Flags) -> Result<Chart, Failure> {
    if let Some(folder) = &flags.local_chart_path {
        let mut files = vec![];
        read(folder, folder, &mut files).map_err(|error| {
            Failure::new(format!("cannot read the chart {}", folder.display()), error)
        })?;
        return Chart::new(files).map_err(|error| Failure::new("cannot use the chart", error));
    }
    if let Some(version) = flags.version.as_deref().filter(|version| is_other(version)) {
        let text = format!("this is liqoctl {CLIENT}, which cannot install {version}");
        return Err(Failure::text(text)
            .hint(format!("Get liqoctl {version}, or give its chart with --local-chart-path.")));
    }
    Chart::embedded().map_err(|error| Failure::new("cannot use the built-in chart", error))
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
    fn only_releases_can_be_other_ones() {
        assert!(is_other("v0.9.0") && is_other("0.8.2") && is_other("v0.9.0-rc.1"));
        assert!(!is_other(CLIENT) && !is_other(&CLIENT[1..]));
        assert!(!is_other("2cb4110ac5e64a52851dd0e0d86c9174") && !is_other("dev"));
    }
}

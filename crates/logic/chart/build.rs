//! Lists the files of the chart, so that they are compiled in.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let package = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let chart = package.join("../../../charts/liqo").canonicalize()?;
    let mut files = vec![];
    collect(&chart, &mut files)?;
    files.sort();
    let mut list = String::from("[\n");
    for file in files {
        let name = file.strip_prefix(&chart)?.to_string_lossy().replace('\\', "/");
        writeln!(list, "    ({name:?}, include_str!({:?})),", file.to_string_lossy())?;
    }
    list.push_str("]\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("files.rs"), list)?;
    println!("cargo:rerun-if-changed={}", chart.display());
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

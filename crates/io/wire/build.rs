//! Makes clients and servers out of the descriptions in `proto`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

const FOLDER: &str = "../../../proto";

/// The descriptions; none has a package, so what comes of each has a folder of its own.
const DESCRIPTIONS: [&str; 2] = ["ipam", "resource_reader"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for name in DESCRIPTIONS {
        let folder = out.join(name);
        fs::create_dir_all(&folder)?;
        let described = protox::compile([format!("{name}.proto")], [FOLDER])?;
        tonic_prost_build::configure().out_dir(folder).compile_fds(described)?;
    }
    Ok(())
}

//! Makes clients and servers out of the descriptions in `proto`.

use std::error::Error;

const FOLDER: &str = "../../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let described = protox::compile(["resource_reader.proto"], [FOLDER])?;
    tonic_prost_build::configure().compile_fds(described)?;
    Ok(())
}

//! How the program is linked.

fn main() {
    // It may be loaded anywhere, which takes a table of millions of bytes in the older format.
    println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    println!("cargo:rerun-if-changed=build.rs");
}

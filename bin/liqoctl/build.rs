//! How the program is linked.

fn main() {
    // It may be loaded anywhere, which takes a table of millions of bytes in the older format.
    println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    // Functions that came out the same are kept once: generic ones often do. Nobody compares them.
    println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    println!("cargo:rerun-if-changed=build.rs");
}

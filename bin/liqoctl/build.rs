//! How the program is linked.

fn main() {
    // Functions that came out the same are kept once: generic ones often do. Nobody compares them.
    println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    println!("cargo:rerun-if-changed=build.rs");
}

//! The command line of the playground.

fn main() {}

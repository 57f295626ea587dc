//! The `paint` command line.

fn main() {}

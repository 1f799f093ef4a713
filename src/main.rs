//! The command `jobgate`.

fn main() {}

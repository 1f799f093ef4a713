//! Manifests, and what fixes make of them.

#![no_main]

#[path = "../laws/mod.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::yaml_edit::check(input));

//! Operations on objects, and the pointers in them.

#![no_main]

#[path = "../laws/mod.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::patch::check(input));

//! Bodies that are posted to the webhook.

#![no_main]

#[path = "../laws/mod.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::review::check(input));

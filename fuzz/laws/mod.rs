//! What must hold whatever is read: one law a fuzz target, as a function of the input's bytes that panics
//! where it is broken.
//!
//! The fuzz targets run these over what libFuzzer makes up, `tests/integration/fuzz_seeds.rs` over what it starts from.

#![allow(dead_code, unreachable_pub, reason = "each fuzz target uses one law")]

mod draws;

pub mod cron;
pub mod patch;
pub mod policy;
pub mod quantity;
pub mod review;
pub mod script;
pub mod yaml_edit;

/// Returns the two sides of the last zero byte: what is read, and the bytes that say what is done with it.
fn halves(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().rposition(|byte| *byte == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &[]),
    }
}

//! What the test programs share.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]

pub mod deploy;
pub mod evanphx;
#[cfg(feature = "serve")]
pub mod fake;
pub mod fixing;
pub mod fixture;
pub mod generate;
pub mod place;
pub mod programs;
pub mod random;
pub mod refusals;
pub mod shared;

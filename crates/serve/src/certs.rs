//! Certificates that the webhook manages itself: `jobgate serve --self-managed-certs`.
//!
//! ```text
//! Secret ──read──> state ──┐                                ┌─> Secret (compare and swap)
//! configurations ──────────┼──> plan (pure) ──> driver ─────┼─> leaf, in memory ──> Identity (hot swap)
//! leaf, soak, clock ───────┘                                └─> caBundle of both configurations (server-side apply)
//! ```
//!
//! The Secret is the only source of truth: every replica reads it, and writes it only if it has not changed
//! since, so there is no leader. The authority is in the Secret; the served certificate of each replica and
//! its key are only in its memory. The Secret is not mounted, because a mount can be up to two minutes old,
//! longer than a `caBundle` takes to be in force.
//!
//! # Permissions
//!
//! Each for one name only; the watches select the object by `fieldSelector=metadata.name=…`, which
//! `resourceNames` allows.
//!
//! | in | resource | verbs |
//! |---|---|---|
//! | Role in the namespace | `secrets`, resourceNames `--secret-name` | get, watch, update |
//! | ClusterRole | `mutatingwebhookconfigurations`, resourceNames `--mutating-configuration` | get, watch, patch |
//! | ClusterRole | `validatingwebhookconfigurations`, resourceNames `--validating-configuration` | get, watch, patch |
//!
//! The Secret and the configurations are never created or deleted: the manifests have an empty Secret, and
//! configurations without `caBundle`.
//!
//! # Clocks
//!
//! Certificates are dated and checked by the API server's clock, from the `Date` of its responses, because it
//! verifies them by that clock; a machine whose own clock is wrong does no harm. Everything is read again
//! every ten seconds, so a suspended machine catches up at once.

pub mod authority;
pub(crate) mod driver;
pub(crate) mod plan;
pub(crate) mod publish;
#[cfg(test)]
mod samples;
pub(crate) mod state;

pub use authority::{Distrust, Names};
pub use driver::{Managed, Settings};
pub(crate) use plan::Lifetimes;

//! The API server's validation, with its messages.
//!
//! Follows the order of `pkg/apis/batch/validation` and `pkg/apis/core/validation` (1.36). Objects have
//! [defaults](super::defaults); fields of a wrong type count as unset, since the schema check reports them.

mod cause;
mod container;
mod cron_job;
mod custom;
mod env;
mod job;
mod job_policies;
mod key_set;
mod metadata;
mod mounts;
mod object_part;
mod operator;
mod pod;
mod pod_annotations;
mod pods;
mod probes;
mod resources;
mod runtime_env;
mod scheduling;
mod security;
mod selector;
mod system;
mod update;
mod volcano;
mod volume;

use cause::Causes;
pub(crate) use cause::{Cause, Reason};
use cron_job::cron_job;
pub(super) use job::NOT_INDEXED;
use job::job;
pub(super) use job_policies::NO_CONTAINER;
use object_part::ObjectPart;
pub(super) use operator::check_of as operator_check;
pub(crate) use operator::refusals as operator_refusals;
pub(crate) use pods::MOST_VALUES;
pub(super) use pods::pods_refused;
pub(super) use runtime_env::wrong as wrong_runtime_env;
pub use update::validate_update;
pub(super) use volcano::NO_PODS;

use super::stored_object::Stored;
use crate::kinds::Api;

/// Returns why the API server rejects a new object; nothing if it accepts it or the kind or version is
/// unknown.
///
/// `object` comes from [`stored`](super::defaults::stored). The schema of a custom resource is checked
/// elsewhere.
#[must_use]
pub fn validate(object: &Stored<'_>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let kind = object.kind();
    let object = ObjectPart::root(object);
    let Some(kind) = kind else { return Vec::new() };
    match kind.api {
        Api::Job => {
            job(&object, &mut causes);
            job::generated_by_the_server(&object, &mut causes);
        }
        Api::CronJob => cron_job(&object, None, &mut causes),
        Api::Custom { .. } => {
            metadata::of_custom_resource(&object.get("metadata"), &mut causes);
            custom::check(kind, &object, &mut causes);
        }
    }
    causes.into_vec()
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]
mod tests;

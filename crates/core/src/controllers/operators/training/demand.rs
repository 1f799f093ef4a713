//! What a job waits for is what it asks for.

use super::super::super::managers;
use super::super::demand::{Asked, AskedRole, Numbers, other_manager};
use super::kind::Kind;
use super::spec::TrainingSpec;
use super::subject::DEADLINE;
use crate::text::value::Value;

/// Returns what a job asks for.
pub(in super::super) fn asked(kind: &str, manifest: &Value) -> Option<Asked> {
    let spec = TrainingSpec::parse(Kind::find(kind)?, manifest);
    let policy = manifest.pointer("/spec/runPolicy").unwrap_or(&Value::Null);
    let role = |role: &super::spec::Role<'_>| AskedRole {
        name: role.name.to_owned(),
        count: Some(role.count()),
        most: None,
        is_final: false,
        numbers: Numbers::Index,
        template: Some(spec.pod_template(role)),
    };
    Some(Asked {
        operator: "training-operator v1.9.4",
        is_suspended: spec.suspend,
        suspend: &["runPolicy", "suspend"],
        manager: other_manager(policy, managers::TRAINING).filter(|_| spec.is_managed_by_other),
        ttl: spec.ttl,
        deadline: spec.deadline,
        deadline_at: DEADLINE,
        is_deadline_idle: true,
        pods: spec.roles.iter().map(role).collect(),
        ..Asked::default()
    })
}

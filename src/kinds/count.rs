//! How many pods of a template may run at once.

use super::{Field, Part};
use crate::text::pointer::Pointer;

/// The number of pods that one template may have running at once, within one run.
#[derive(Clone, Debug)]
pub struct PodCount {
    /// The number; nothing if a placeholder or wrong type hides it.
    pub most: Option<i64>,
    /// The field that sets it; nothing for a default.
    pub said_by: Option<Pointer>,
}

impl PodCount {
    /// Returns the count of a batch/v1 Job spec: `parallelism`, but never more than `completions`
    /// (kubernetes.md §5.2).
    #[must_use]
    pub fn of_job(spec: &Part<'_>) -> Self {
        let (parallelism, completions) = (spec.get("parallelism"), spec.get("completions"));
        let Some(most) = parallelism.int().or_default(1) else {
            return Self { most: None, said_by: Some(parallelism.pointer) };
        };
        let said_by = parallelism.is_set().then_some(parallelism.pointer);
        match completions.int() {
            Field::Unset => Self { most: Some(most), said_by },
            Field::Set(limit) if limit < most => {
                Self { most: Some(limit), said_by: Some(completions.pointer) }
            }
            Field::Set(_) => Self { most: Some(most), said_by },
            Field::Placeholder(_) | Field::Wrong if most <= 1 => Self { most: Some(most), said_by },
            Field::Placeholder(_) | Field::Wrong => Self { most: None, said_by: Some(completions.pointer) },
        }
    }

    /// Returns the count of one replica type: `replicas`, 1 where unset.
    #[must_use]
    pub fn of_replicas(replica: &Part<'_>) -> Self {
        let replicas = replica.get("replicas");
        let most = replicas.int().or_default(1);
        Self { most, said_by: replicas.is_set().then_some(replicas.pointer) }
    }

    /// Returns the larger of this count and what another field allows.
    #[must_use]
    pub fn or_more(self, field: &Part<'_>) -> Self {
        match field.int() {
            Field::Unset => self,
            Field::Set(limit) if self.most.is_some_and(|most| most >= limit) => self,
            Field::Set(limit) => Self { most: Some(limit), said_by: Some(field.pointer.clone()) },
            Field::Placeholder(_) | Field::Wrong => Self { most: None, said_by: Some(field.pointer.clone()) },
        }
    }
}

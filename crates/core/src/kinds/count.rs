//! How many pods of a template may run at once.

use crate::kinds::field::{Field, Part};
use crate::kinds::pod::PodTemplate;
use crate::kinds::pods::{Count, Elastic, Entry, Times};
use crate::text::pointer::Pointer;

/// The number of pods that one template may have running at once, within one run.
#[derive(Clone, Debug)]
pub struct PodCount {
    /// The number; nothing if a placeholder or wrong type hides it.
    pub most: Option<i64>,
    /// The number that certainly runs at once, without pods that an autoscaler may add or remove.
    pub least: i64,
    /// The field that sets it; nothing for a default.
    pub(crate) said_by: Option<Pointer>,
}

impl Count {
    /// Returns the role that may scale.
    #[must_use]
    pub(crate) fn elastic(self) -> Option<Elastic> {
        match self {
            Self::Replicas { elastic, .. } => elastic,
            _ => None,
        }
    }
}

impl PodTemplate<'_> {
    /// Returns how its number may change, if it is that of the role that may scale.
    #[must_use]
    pub(crate) fn elastic(&self) -> Option<Elastic> {
        self.form.count.elastic().filter(|elastic| self.role() == Some(elastic.role))
    }

    /// Returns how many of its pods run together. Jobs that are made as work arrives run apart.
    #[must_use]
    pub(crate) fn together(&self) -> PodCount {
        match self.form.count {
            Count::Jobs(Times::Field(..)) => PodCount::from_job(&self.around),
            _ => self.count.clone(),
        }
    }

    /// Returns the same as the author has written it, without later changes by an autoscaler; nothing if another
    /// object or a scheduler decides.
    #[must_use]
    pub(crate) fn written(&self) -> Option<PodCount> {
        match self.form.count {
            Count::Jobs(Times::OfOthers) | Count::Range | Count::RayWorkers { .. } => None,
            Count::Replicas { unset, elastic: Some(elastic) } if self.elastic().is_some() => {
                Some(PodCount::from_field(&self.around.get("replicas"), unset(elastic.role)))
            }
            Count::Jobs(_) | Count::Replicas { .. } | Count::One => Some(self.together()),
        }
    }
}

impl PodCount {
    /// Returns the count of a batch/v1 Job spec: `parallelism`, but never more than `completions`
    /// (docs/internals/pods.md#pods-that-run-at-once).
    #[must_use]
    pub(crate) fn from_job(spec: &Part<'_>) -> Self {
        let (parallelism, completions) = (spec.get("parallelism"), spec.get("completions"));
        let Some(most) = parallelism.int().or_default(1) else {
            return Self::unknown(&parallelism);
        };
        let said_by = parallelism.is_set().then_some(parallelism.pointer);
        match completions.int() {
            Field::Set(limit) if limit < most => Self::certain(limit, Some(completions.pointer)),
            Field::Placeholder(_) | Field::Wrong if most > 1 => Self::unknown(&completions),
            _ => Self::certain(most, said_by),
        }
    }

    /// Returns the count of a template.
    pub(super) fn new(count: Count, object: &Part<'_>, around: &Part<'_>, entry: Option<&Entry<'_>>) -> Self {
        match count {
            Count::Jobs(times) => {
                let one = Self::from_job(around);
                match (times, entry) {
                    (Times::OfOthers, _) => Self { most: None, least: 0, said_by: None },
                    (Times::Replicas, Some(entry)) => one.times(&entry.part.get("replicas"), 1),
                    (Times::Field(path, default), _) => one.times(&object.at(path), default),
                    (Times::Once | Times::Replicas, _) => one,
                }
            }
            Count::Replicas { unset, elastic } => {
                let role = entry.and_then(|entry| entry.name);
                let count = Self::from_field(&around.get("replicas"), unset(role.unwrap_or_default()));
                match elastic.filter(|elastic| role == Some(elastic.role)) {
                    Some(elastic) => {
                        count.or_more(&object.at(elastic.most)).or_fewer(&object.at(elastic.least))
                    }
                    None => count,
                }
            }
            Count::Range => Self::from_field(&around.get("replicas"), 0).or_more(&around.get("maxReplicas")),
            Count::RayWorkers { autoscales } => Self::from_ray_workers(around, &object.at(autoscales)),
            Count::One => Self::certain(1, None),
        }
    }

    /// Returns a count that is known.
    #[must_use]
    pub(crate) fn certain(number: i64, said_by: Option<Pointer>) -> Self {
        Self { most: Some(number), least: number.max(0), said_by }
    }

    fn unknown(field: &Part<'_>) -> Self {
        Self { most: None, least: 0, said_by: Some(field.pointer.clone()) }
    }

    /// Returns the count in a field, or a default.
    #[must_use]
    pub(crate) fn from_field(field: &Part<'_>, unset: i64) -> Self {
        match field.int().or_default(unset) {
            Some(number) => Self::certain(number, field.is_set().then(|| field.pointer.clone())),
            None => Self::unknown(field),
        }
    }

    /// Returns the count of a group of Ray workers (docs/internals/batch-kinds.md#rayjob).
    fn from_ray_workers(group: &Part<'_>, autoscales: &Part<'_>) -> Self {
        let bound = |field, unset| group.get(field).int().or_default(unset);
        let (least, most) = (bound("minReplicas", 0), bound("maxReplicas", i64::from(i32::MAX)));
        let set = Self::from_field(&group.get("replicas"), 0);
        let number = set.most.zip(least).zip(most).map(|((number, least), most)| number.max(least).min(most));
        let count = match (autoscales.bool(), number) {
            (Field::Set(true), _) => {
                let least = least.unwrap_or(0).max(0);
                Self { least, ..Self::from_field(&group.get("maxReplicas"), i64::from(i32::MAX)) }
            }
            (_, Some(number)) => Self::certain(number, set.said_by),
            (_, None) => Self::unknown(&group.get("replicas")),
        };
        count.times(&group.get("numOfHosts"), 1)
    }

    /// Multiplies the count by the number in a field, or by `unset`.
    #[must_use]
    pub(crate) fn times(self, field: &Part<'_>, unset: i64) -> Self {
        let times = field.int().or_default(unset).map(|times| times.max(0));
        let most = self.most.zip(times).map(|(most, times)| most.saturating_mul(times));
        let least = self.least.saturating_mul(times.unwrap_or(0));
        let decides = field.is_set() && (times != Some(1) || self.said_by.is_none());
        Self { most, least, said_by: if decides { Some(field.pointer.clone()) } else { self.said_by } }
    }

    /// Formats a number of pods. Ray writes the largest integer where there is no limit.
    #[must_use]
    pub(crate) fn words(pods: i64) -> String {
        if pods >= i64::from(i32::MAX) {
            "any number of pods".to_owned()
        } else {
            format!("up to {pods} pods")
        }
    }

    /// Raises the maximum to the number in another field, if that is larger.
    #[must_use]
    pub(crate) fn or_more(self, field: &Part<'_>) -> Self {
        match field.int() {
            Field::Unset => self,
            Field::Set(limit) if self.most.is_some_and(|most| most >= limit) => self,
            Field::Set(limit) => Self { most: Some(limit), said_by: Some(field.pointer.clone()), ..self },
            Field::Placeholder(_) | Field::Wrong => {
                Self { most: None, said_by: Some(field.pointer.clone()), ..self }
            }
        }
    }

    /// Lowers the minimum to the number in another field, if that is smaller.
    fn or_fewer(self, field: &Part<'_>) -> Self {
        let least = match field.int() {
            Field::Unset => self.least,
            Field::Set(limit) => self.least.min(limit.max(0)),
            Field::Placeholder(_) | Field::Wrong => 0,
        };
        Self { least, ..self }
    }
}

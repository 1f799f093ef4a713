//! What a rule may ask the model: what would happen to the object, and what if it were written otherwise.

use super::Cx;
use crate::controllers::incident::Incident;
use crate::judge::commands::CommandLine;
use crate::judge::forecast::eviction::{Evicted, evicted};
use crate::judge::forecast::objects::{LeftBehind, Question, small_size};
use crate::judge::forecast::{Forecast, forecast};
use crate::judge::ranks::WorkloadReading;
use crate::judge::simulation::name_of;
use crate::kinds::{Part, PodTemplate, Workload};
use crate::text::meter;
use crate::text::patch::{self, Op};
use crate::text::value::Value;

impl<'a> Cx<'a> {
    /// Returns what would happen to the Job around a pod template, by its index; nothing if it has no Job, or no short answer.
    pub(in crate::judge) fn forecast(&self, pod: usize, incident: Incident) -> Option<Forecast> {
        let lines = &self.commands(pod).containers;
        forecast(&self.workload.pods[pod], lines, self.assumptions, incident, &self.forecast_work)
    }

    /// Returns what [`Self::forecast`] would say if some operations had been applied to the object: those of a fix, or of what a
    /// help advises. A rule is silent where both say the same.
    pub(in crate::judge) fn forecast_after(
        &self,
        pod: usize,
        incident: Incident,
        ops: &[Op],
    ) -> Option<Forecast> {
        let fixed = self.after(ops)?;
        let workload = self.workload_in(&fixed)?;
        // They may change its commands.
        let reading = WorkloadReading::from_workload(&workload);
        let lines = workload.pods.get(pod).map(|_| &reading.commands(pod).containers)?;
        forecast(workload.pods.get(pod)?, lines, self.assumptions, incident, &self.forecast_work)
    }

    /// Does the same for [`Self::forecast_object`].
    pub(in crate::judge) fn forecast_object_after(
        &self,
        pod: usize,
        incident: Incident,
        code: Option<i64>,
        ops: &[Op],
    ) -> Option<Forecast> {
        let fixed = self.after(ops)?;
        let workload = self.workload_in(&fixed)?;
        let reading = WorkloadReading::from_workload(&workload);
        let name = name_of(workload.pods.get(pod)?);
        let question = Question { workload: &workload, reading: &reading, ..self.question() };
        question.forecast(incident, name, code)
    }

    /// Applies operations to a copy of the object, if that is small and there is work left for a question.
    fn after(&self, ops: &[Op]) -> Option<Value> {
        if self.forecast_work.get() == 0 {
            return None;
        }
        meter::spend(small_size(self.request.object)? as u64);
        patch::apply(self.request.object, ops).ok()
    }

    /// Returns the workload in another state of the whole object.
    fn workload_in<'v>(&self, whole: &'v Value) -> Option<Workload<'v>> {
        let pointer = self.workload.object.pointer.clone();
        let value = pointer.find(whole);
        Workload::from_part(Part { pointer, value })
    }

    /// Returns what would happen to the object if one of the pods of a template met an incident, by the template's index; nothing
    /// if its operator is not modelled, or there is no short answer. `code` is that of its program on SIGTERM, if that is known.
    pub(in crate::judge) fn forecast_object(
        &self,
        pod: usize,
        incident: Incident,
        code: Option<i64>,
    ) -> Option<Forecast> {
        self.question().forecast(incident, name_of(&self.workload.pods[pod]), code)
    }

    /// Returns what comes of the object if nothing happens to it, and all its pods succeed.
    pub(in crate::judge) fn forecast_undisturbed(&self) -> Option<Forecast> {
        self.question().undisturbed()
    }

    /// Does the same after some operations.
    pub(in crate::judge) fn forecast_undisturbed_after(&self, ops: &[Op]) -> Option<Forecast> {
        let fixed = self.after(ops)?;
        let workload = self.workload_in(&fixed)?;
        let reading = WorkloadReading::from_workload(&workload);
        Question { workload: &workload, reading: &reading, ..self.question() }.undisturbed()
    }

    /// Returns what Kueue does, after an incident, to the Job around a pod template that waits in a queue, by the template's index;
    /// nothing if it is in none, or there is no short answer. Some operations may have been applied to the object before.
    pub(in crate::judge) fn evicted(&self, pod: usize, incident: Incident, ops: &[Op]) -> Option<Evicted> {
        let ask = |object: &Value, pod: &PodTemplate<'_>, lines: &[CommandLine<'_>]| {
            evicted(object, pod, lines, self.assumptions, incident, &self.forecast_work)
        };
        let lines = &self.commands(pod).containers;
        // Kueue queues a wrapper, not what is inside.
        if self.workload.inside.is_some() {
            return None;
        }
        if ops.is_empty() {
            return ask(self.request.object, &self.workload.pods[pod], lines);
        }
        let changed = self.after(ops)?;
        ask(&changed, self.workload_in(&changed)?.pods.get(pod)?, lines)
    }

    /// Returns the pods that run on after a failure, and that nothing stops; nothing where there is no short answer, or only what
    /// is filled in or denied counts.
    pub(in crate::judge) fn left_behind(&self) -> Option<LeftBehind> {
        if self.is_binding { None } else { self.question().left_behind() }
    }

    fn question(&self) -> Question<'_, 'a> {
        Question {
            workload: self.workload,
            reading: self.reading,
            defaults: self.assumptions,
            left_of_rule: &self.forecast_work,
        }
    }
}

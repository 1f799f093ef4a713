//! `batch` `CronJob`: everything of a Job stands under `spec.jobTemplate`.

use super::{Adapter, Kind, Part, PodCount, PodTemplate, Workload};
use crate::text::value::Value;

pub(super) static ADAPTER: Adapter = Adapter { kind: Kind::CronJob, group: "batch", version: "v1", name: "CronJob", resource: "cronjobs", view };

fn view(object: &Value) -> Workload<'_> {
    let object = Part::root(object);
    let cron = object.get("spec");
    let spec = cron.at(&["jobTemplate", "spec"]);
    let pods = vec![PodTemplate::new(spec.get("template"), None, PodCount::of_job(&spec))];
    Workload { kind: Kind::CronJob, limits: spec.clone(), job_spec: Some(spec), cron: Some(cron), pods, object }
}

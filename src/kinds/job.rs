//! `batch` `Job`.

use super::{Adapter, Kind, Part, PodCount, PodTemplate, Workload};
use crate::text::value::Value;

pub(super) static ADAPTER: Adapter = Adapter { kind: Kind::Job, group: "batch", version: "v1", name: "Job", resource: "jobs", view };

fn view(object: &Value) -> Workload<'_> {
    let object = Part::root(object);
    let spec = object.get("spec");
    let pods = vec![PodTemplate::new(spec.get("template"), None, PodCount::of_job(&spec))];
    Workload { kind: Kind::Job, limits: spec.clone(), job_spec: Some(spec), cron: None, pods, object }
}

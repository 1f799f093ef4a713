//! What a RayJob asks for, as its controller reads it: with the defaults of its CRD.

use crate::text::value::Value;

/// Who submits the program (`submissionMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubmissionMode {
    /// `K8sJobMode`: a Job.
    Job,
    /// `HTTPMode`: the operator.
    Http,
    /// `SidecarMode`: a container beside the head.
    Sidecar,
    /// `InteractiveMode`: a person.
    Interactive,
}

/// The fields of `spec` of a RayJob that its controller looks at, with the defaults of its CRD.
#[derive(Clone, Debug)]
pub(super) struct JobSpec {
    /// `submissionMode`.
    pub(super) mode: SubmissionMode,
    /// `suspend`.
    pub(super) suspend: bool,
    /// `shutdownAfterJobFinishes`.
    pub(super) shutdown: bool,
    /// `ttlSecondsAfterFinished`.
    pub(super) ttl: i64,
    /// `backoffLimit`.
    pub(super) backoff_limit: i64,
    /// `activeDeadlineSeconds`.
    pub(super) active_deadline: Option<i64>,
    /// `preRunningDeadlineSeconds`.
    pub(super) pre_running_deadline: Option<i64>,
    /// The name in `clusterSelector`; nothing where there is no selector.
    pub(super) selector: Option<String>,
    /// `jobId`.
    pub(super) id: Option<String>,
}

impl JobSpec {
    /// Reads `spec` of a RayJob.
    pub(super) fn parse(spec: &Value) -> Self {
        let integer = |key: &str| spec.get(key).and_then(Value::as_i64);
        let flag = |key: &str| spec.get(key).and_then(Value::as_bool).unwrap_or(false);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let selector = spec.get("clusterSelector").and_then(Value::as_object).filter(|map| !map.is_empty());
        Self {
            mode: match spec.get("submissionMode").and_then(Value::as_str) {
                Some("HTTPMode") => SubmissionMode::Http,
                Some("SidecarMode") => SubmissionMode::Sidecar,
                Some("InteractiveMode") => SubmissionMode::Interactive,
                _ => SubmissionMode::Job,
            },
            suspend: flag("suspend"),
            shutdown: flag("shutdownAfterJobFinishes"),
            ttl: integer("ttlSecondsAfterFinished").unwrap_or(0),
            backoff_limit: integer("backoffLimit").unwrap_or(0),
            active_deadline: integer("activeDeadlineSeconds"),
            pre_running_deadline: integer("preRunningDeadlineSeconds"),
            selector: selector.map(|map| map.get("ray.io/cluster").and_then(text).unwrap_or_default()),
            id: spec.get("jobId").and_then(text).filter(|id| !id.is_empty()),
        }
    }
}

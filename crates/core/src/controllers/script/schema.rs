//! The JSON Schema of scripts, for editors.

use super::VERSION;
use crate::text::value::{Value, json};

/// Returns the JSON Schema of scripts.
#[must_use]
pub fn schema() -> Value {
    let range = json!({
        "description": "A number, or a list of the first and the last; a last of null is no end",
        "oneOf": [
            {"type": "integer", "minimum": 0},
            {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": ["integer", "null"], "minimum": 0}},
        ],
    });
    let program = json!({
        "description": "What programs do that are submitted to Ray clusters, by their numbers in order of submission",
        "type": "object",
        "required": ["program"],
        "additionalProperties": false,
        "properties": {
            "program": range.clone(), "pending": seconds(), "run": never(), "end": {"enum": ["SUCCEEDED", "FAILED"]},
            "message": {"type": "string"},
        },
    });
    let pod_group = json!({
        "description": "When a scheduler takes PodGroups; the first that names one counts",
        "type": "object",
        "required": ["podgroup"],
        "additionalProperties": false,
        "properties": {
            "podgroup": range.clone(),
            "inqueue": {"description": "From its creation until it is Inqueue; null is never",
                "type": ["number", "null"], "minimum": 0},
        },
    });
    let items = json!({"type": "array", "items": {"anyOf": [plan(&range), pod_group, program, event()]}});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A script of jobgate simulate",
        "oneOf": [
            items.clone(),
            {
                "type": "object",
                "required": ["version", "script"],
                "additionalProperties": false,
                "properties": {"version": {"const": VERSION}, "script": items},
            },
        ],
    })
}

/// Returns the schema of a time.
fn seconds() -> Value {
    json!({"type": "number", "minimum": 0})
}

/// Returns the schema of a time, or of no end of it.
fn never() -> Value {
    json!({"type": ["number", "null"], "minimum": 0})
}

fn integer() -> Value {
    json!({"type": "integer"})
}

/// Returns the schema of what becomes of pods.
fn plan(range: &Value) -> Value {
    let codes = json!({
        "description": "An exit code, or one for each container by name",
        "oneOf": [{"type": "integer"}, {"type": "object", "additionalProperties": {"type": "integer"}}],
    });
    let disrupt = json!({
        "type": "object",
        "required": ["cause"],
        "additionalProperties": false,
        "properties": {
            "after": seconds(),
            "cause": {"enum": ["evict", "preempt", "taint", "delete", "force", "kubelet", "lost"]},
            "gc": never(),
        },
    });
    let term = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {"after": never(), "code": integer()},
    });
    let submission = json!({
        "follow": {"description": "Whether it ends with the program that it submits", "type": "boolean"},
        "submit": {"description": "From its start until it submits; null is never", "type": ["number", "null"], "minimum": 0},
        "on_loss": {"description": "Its exit code when the dashboard goes away", "type": "integer"},
        "run": never(),
        "exit": integer(),
    });
    let submitter = json!({
        "description": "What the container beside the head of a Ray cluster does that submits a program",
        "type": "object",
        "additionalProperties": false,
        "properties": submission.clone(),
    });
    json!({
        "description": "What becomes of pods; the first plan that names a pod is its plan",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "role": {"description": "What the pods are to the object that made them", "type": "string"},
            "set": range.clone(), "index": range.clone(), "attempt": range.clone(), "job": range.clone(),
            "start": never(), "unscheduled": {"type": "boolean"}, "run": never(), "exit": codes.clone(), "init": codes,
            "sidecar": integer(), "oom": {"type": "boolean"}, "restarts": {"type": ["integer", "null"], "minimum": 0},
            "every": seconds(), "crashLoop": {"type": "boolean"}, "reject": {"type": "boolean"},
            "silent": never(), "disrupt": disrupt, "term": term,
            "follow": submission["follow"].clone(), "submit": submission["submit"].clone(),
            "on_loss": submission["on_loss"].clone(), "submitter": submitter,
        },
    })
}

/// Returns the schema of what happens at a time.
fn event() -> Value {
    json!({
        "description": "Something that happens at a time",
        "type": "object",
        "required": ["at"],
        "properties": {
            "at": seconds(),
            "on": {"description": "The object: KIND/NAME, Pod/ROLE/INDEX, or CQ or WL for its ClusterQueue or Workload",
                "type": "string"},
            "patch": {"description": "A merge patch of the spec", "type": "object"},
            "path": {"description": "The object, by its path in the API: .../limitranges/NAME", "type": "string"},
            "merge": {"description": "A merge patch of the object", "type": "object"},
            "create": {"description": "An object that is made", "type": "object"},
            "status": {
                "description": "What a scheduler writes of a PodGroup",
                "type": "object",
                "properties": {"phase": {"enum": ["Pending", "Inqueue", "Running", "Unknown", "Completed"]}},
            },
            "command": {"description": "The action of a Command to a Volcano Job", "type": "string"},
            "delete": {"enum": ["Background", "Foreground", "Orphan"]},
            "refusePods": {"type": "boolean"},
            "dashboard": {
                "description": "What happens to the dashboards of Ray clusters",
                "enum": ["down", "up", "forget", "stop"],
            },
            "controller": {
                "description": "`stop` or `start`, or one of these or `restart` and the name of an operator",
                "type": "string", "pattern": "^((stop|start|restart)(-.+)?|kuberay)$",
            },
            "which": {"enum": ["job", "cron", "operator"]},
            "job": integer(),
        },
    })
}

//! Findings that are not a rule's: about the input itself, and about Jobgate's annotations and exemptions.
//!
//! Their ids are in reports and `jobgate explain`, like those of rules; a policy cannot set them.

use std::borrow::Cow;

use crate::judge::finding::{self, Finding, Level};
use crate::judge::rule_id::RuleId;
use crate::text::pointer::Pointer;

/// One check of the input: its id, one line, and its page.
#[derive(Debug)]
pub struct Check {
    /// Kebab-case id, distinct from every rule's.
    pub id: &'static str,
    /// The problem that its findings report, in a few words.
    pub problem: &'static str,
    /// One line: what must hold.
    pub summary: &'static str,
    /// The manual page, in Markdown.
    pub page: &'static str,
}

/// The object is not YAML or JSON as kubectl reads it.
pub const SYNTAX: &str = "syntax";
/// The file is an unrendered template.
pub const UNRENDERED_TEMPLATE: &str = "unrendered-template";
/// A mapping has a key twice.
pub const DUPLICATE_KEY: &str = "duplicate-key";
/// A field has a value of the wrong type.
pub const FIELD_TYPE: &str = "field-type";
/// An object is nearly of a kind that Jobgate judges, but not quite.
pub const KNOWN_KIND: &str = "known-kind";
/// A field has a placeholder instead of a value.
pub const PLACEHOLDER: &str = "placeholder";
/// The API server that was asked refuses the pods of a template.
pub const POD_REFUSED: &str = "pod-refused";
/// An exemption of the policy has ended.
pub(crate) const ENDED_EXEMPTION: &str = "ended-exemption";
/// A Jobgate annotation names a rule on which it has no effect.
pub(crate) const ANNOTATION_WITHOUT_EFFECT: &str = "annotation-without-effect";
/// A Jobgate annotation names an unknown rule.
pub(crate) const UNKNOWN_RULE: &str = "unknown-rule";

/// The API server would reject the object.
pub const API_SERVER: &str = "api-server";
/// A mapping has a field that the API does not know.
pub const UNKNOWN_FIELD: &str = "unknown-field";
/// AppWrapper's webhook would reject the object.
pub const APP_WRAPPER_OPERATOR: &str = "appwrapper-operator";
/// The controller of KubeRay would reject the object.
pub const RAY_OPERATOR: &str = "ray-operator";
/// The training operator's webhook would reject the object.
pub const TRAINING_OPERATOR: &str = "training-operator";
/// Volcano's webhook would reject the object, or its controller make no pods.
pub const VOLCANO_OPERATOR: &str = "volcano-operator";
/// A script or command line is beyond what Jobgate reads.
pub(crate) const SCRIPT_WITHIN_BOUNDS: &str = "script-within-bounds";
/// The schedule of a `CronJob` matches no date.
pub(crate) const SCHEDULE_NEVER_FIRES: &str = "schedule-never-fires";

/// All checks, sorted by id.
pub static CHECKS: &[Check] = &[
    Check {
        id: ANNOTATION_WITHOUT_EFFECT,
        problem: "Annotation of Jobgate without effect",
        summary: "Jobgate's annotations have an effect",
        page: "An annotation names a rule but has no effect on it under this policy. `jobgate.dev/ignore` \
               suppresses denials only if the policy sets `optOut: denials`, and nothing with `optOut: \
               none`: fix the finding, or ask for an exemption in the policy. `jobgate.dev/keep` prevents a \
               fill, so it has no effect on a rule that denies or warns instead, never fills, or does not \
               apply to this kind. Neither has an effect as a label, on a pod template, or on the \
               `jobTemplate` of a CronJob: write it in the object's own `metadata.annotations`. An \
               annotation for a rule that the policy ignores is not reported, nor is an `ignore` with \
               nothing to suppress.",
    },
    Check {
        id: API_SERVER,
        problem: "Rejected by the API server",
        summary: "The API server accepts the object",
        page: "The API server refuses this object, whatever Jobgate answers: it validates objects after \
               defaults and mutating webhooks. The message is the server's. Fields that the author left out \
               are checked with the server's defaults. A Job that was copied from a cluster (`kubectl get \
               -o yaml`) is reported once, with the fields to remove; `--unsafe-fixes` removes them. What \
               it refuses of the pods of a custom resource is a finding of a rule.",
    },
    Check {
        id: APP_WRAPPER_OPERATOR,
        problem: "Rejected by AppWrapper",
        summary: "AppWrapper accepts the object",
        page: "The API server accepts this object, but the webhook of AppWrapper rejects it: what is inside may \
               not be an AppWrapper itself, and may not name another namespace than that of the AppWrapper.",
    },
    Check {
        id: DUPLICATE_KEY,
        problem: "Duplicate key",
        summary: "No mapping has a duplicate key",
        page: "kubectl uses the last of two equal keys and silently ignores the first, so one of the two \
               values never reaches the cluster. Remove one of them.",
    },
    Check {
        id: ENDED_EXEMPTION,
        problem: "Exemption that has ended",
        summary: "No object depends on an exemption that has ended",
        page: "An exemption of the policy would suppress a finding, but its `until` date has passed, so the \
               finding is reported again. Fix the object, or extend the exemption in the policy.",
    },
    Check {
        id: FIELD_TYPE,
        problem: "Field of the wrong type",
        summary: "Fields have the type that the API requires",
        page: "The API server refuses an object if a field has another type than in its schema \
               (`activeDeadlineSeconds: \"3600\"` is a string, not an integer). Rules skip such a field; \
               write a value of the right type. A quantity without a value (`nvidia.com/gpu:`) is a \
               warning: the server reads it as 0 in a Job and drops it in a PyTorchJob, so the pods get \
               none.",
    },
    Check {
        id: KNOWN_KIND,
        problem: "Wrong kind or apiVersion",
        summary: "Batch kinds have the `kind` and `apiVersion` of the API server",
        page: "The object looks like a Job, CronJob, PyTorchJob or another batch kind, but its `kind` is \
               missing or misspelled (case, plural, typo), its `apiVersion` names a group without this \
               kind, or its version is not served. The API server rejects such an object, so it is an \
               error; in a patch of a kustomization, which may leave things out, it is a note. So are a \
               deprecated version, a retired kind, and a version of an operator's kind that Jobgate does \
               not know: a later release may have it. Jobgate did not check the object, unless it is a Job \
               or CronJob of an unknown version: its fields are then read as those of `batch/v1`. A CronJob \
               of an older version has the same fields, and `--unsafe-fixes` writes `batch/v1`; an older \
               PyTorchJob has other fields.",
    },
    Check {
        id: PLACEHOLDER,
        problem: "Placeholder instead of a value",
        summary: "Fields have values, not placeholders",
        page: "The field has a placeholder such as `$NUM_NODES`, `<PROJECT>`, `{{ .Values.x }}` or \
               `YOUR_IMAGE` instead of a value. It is reported if a rule reads the field, if it is an \
               image, or if the API server rejects it. `[[size]]` and `__MONTH__` are placeholders, too. A word in capitals with a `_` (`NUM_NODES`) counts \
               as a placeholder only where it cannot be a value, as in a number, a name, or the name of a \
               claim. Rules that need the value are skipped, and the API server's answer is unknown, so the \
               object is also reported as not judged, unless only an image is a placeholder. All \
               placeholders of an object are one finding, which lists some. Replace it with a value, or lint the rendered \
               template: `envsubst < job.yaml | jobgate lint -`.",
    },
    Check {
        id: POD_REFUSED,
        problem: "Pods that a cluster refuses",
        summary: "The cluster accepts the pods of the template",
        page: "The API server stores the object and refuses its pods, so that its controller tries to make them \
               again and again. `jobgate dry-run --cluster --try-pods` sent a pod of the template, as a dry run \
               that stores nothing. The message is the server's: its validation, a webhook for pods, a quota, a \
               LimitRange or the Pod Security Standard of the namespace refused it. An exceeded quota is a \
               warning, since other pods may end. The pod lacks the labels and the environment that the \
               controller adds, and was sent with the rights of the caller, not those of the controller.",
    },
    Check {
        id: RAY_OPERATOR,
        problem: "Rejected by KubeRay",
        summary: "KubeRay accepts the RayJob",
        page: "The API server accepts this object, but the controller of KubeRay rejects it: it writes \
               `ValidationFailed` into the status and runs nothing. Most often, \
               `ttlSecondsAfterFinished` is set without `shutdownAfterJobFinishes: true`. A `runtimeEnvYAML` is \
               text that must be a YAML mapping: the finding is at the place in it that is not.",
    },
    Check {
        id: SCHEDULE_NEVER_FIRES,
        problem: "Schedule that never fires",
        summary: "Every schedule matches a date",
        page: "The API server accepts the schedule, but it matches no date (`0 0 31 2 *`): the CronJob \
               never runs, and only an event of the controller says so. Day of month and month must match \
               the same date; if day of week is set as well, either day is enough. A CronJob with `suspend: \
               true` is not reported.",
    },
    Check {
        id: SCRIPT_WITHIN_BOUNDS,
        problem: "Script that was not judged in full",
        summary: "Scripts and command lines are within what Jobgate reads",
        page: "A script or command line is larger than what Jobgate reads, so some of what it does was not \
               judged. A script is read to its end however long it is, but Jobgate keeps at most 64 KiB of \
               words of one command, 64 levels of compound commands and substitutions in one another, 1,024 \
               variables of one script, 4 MiB of commands of one object (more than ten thousand), and 1 MiB \
               of text by which variables make commands longer. What is within these bounds is judged, and so \
               is everything else in the object. Move the script into the image or a ConfigMap, or the long \
               argument into a file.",
    },
    Check {
        id: SYNTAX,
        problem: "Not valid YAML or JSON",
        summary: "Files are valid YAML or JSON for kubectl",
        page: "kubectl refuses this document, or it exceeds one of Jobgate's limits. If it cannot be read, \
               none of its objects were checked; other documents and files still were. A file that was \
               found in a directory and names no batch kind is not reported, but listed as not judged.",
    },
    Check {
        id: TRAINING_OPERATOR,
        problem: "Rejected by the training operator",
        summary: "The training operator accepts the PyTorchJob",
        page: "The API server accepts this object, but the webhook of the Kubeflow training operator (1.8 \
               and later) rejects it: replica types are `Master` and `Worker`, `Master.replicas` is set to \
               1, and one container is named `pytorch`. Older versions mark such a job as failed, or run \
               it. `--fix` writes `Master.replicas: 1` where it is not set.",
    },
    Check {
        id: UNKNOWN_FIELD,
        problem: "Unknown field",
        summary: "The API knows every field at its place",
        page: "The API does not know a field at this place and drops it silently, so it has no effect: a \
               deadline at the wrong level is no deadline. kubectl requests strict validation by default, \
               and the object is then rejected; controllers, GitOps tools and older clients do not request \
               it. A field of a custom resource that is like no known one is a warning, which names the \
               release of the operator whose schema Jobgate has: the one in the cluster may have the field.",
    },
    Check {
        id: UNKNOWN_RULE,
        problem: "Annotation that names no rule",
        summary: "Jobgate's annotations name existing rules",
        page: "`jobgate.dev/keep` or `jobgate.dev/ignore` names a rule that does not exist, or an \
               annotation has another name that starts with `jobgate.dev/`. It has no effect. `jobgate \
               explain` lists the rules.",
    },
    Check {
        id: UNRENDERED_TEMPLATE,
        problem: "Template that is not rendered",
        summary: "Files are manifests, not templates",
        page: "The file is a template (Helm, Jinja) and no YAML until it is rendered, so nothing in it was \
               checked. Lint the rendered manifests: `helm template … | jobgate lint -`. A template that was \
               found in a directory and names no batch kind is not reported, but listed as not judged.",
    },
    Check {
        id: VOLCANO_OPERATOR,
        problem: "Rejected by Volcano",
        summary: "Volcano accepts the job",
        page: "The API server accepts this object, but the webhook of Volcano (1.15) rejects it: `minAvailable` is \
               more than there are pods, a policy has no event or one that is for the controller alone, `*` is \
               beside other events, two tasks have one name, a task waits for itself, or the plugin `mpi` lacks \
               its master. A job whose plugin `ray` lacks its head task is accepted, and no pod of it is made.",
    },
];

/// Returns a check by id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}

/// Returns a finding of a check at a value, with all optional fields unset.
pub fn finding(
    rule: impl Into<RuleId>,
    level: Level,
    pointer: Pointer,
    message: impl Into<Cow<'static, str>>,
    help: impl Into<Cow<'static, str>>,
) -> Finding {
    let path = pointer.clone();
    let (message, help) = (message.into(), help.into());
    Finding {
        rule: rule.into(),
        level,
        pointer,
        part: finding::Part::Value,
        message,
        help,
        path,
        labels: Vec::new(),
        fix: None,
        fills: false,
        items: None,
        incident: None,
        loss: None,
    }
}

/// Reports that a script or command line of a container, and of `others` more containers, was not judged in
/// full.
pub(crate) fn beyond_bounds(container: &Pointer, what: &str, others: usize) -> Finding {
    let others = match others {
        0 => String::new(),
        1 => "; the same goes for 1 other container".to_owned(),
        many => format!("; the same goes for {many} other containers"),
    };
    let help = "move the script into the image or a ConfigMap, or the long argument into a file";
    finding(SCRIPT_WITHIN_BOUNDS, Level::Warn, container.clone(), format!("{what}{others}"), help)
}

/// Returns a finding about a whole document.
pub fn of_document(
    rule: &'static str,
    level: Level,
    message: impl Into<Cow<'static, str>>,
    help: impl Into<Cow<'static, str>>,
) -> Finding {
    finding(rule, level, Pointer::root(), message, help)
}

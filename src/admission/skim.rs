//! Reads an object without the parts that judging it has no use for.
//!
//! Most of a Job's text is its containers' environment, command lines, probes and mounts, and what the API server notes of who owns which field.
//! To build all of that in memory costs several times as much as judging what is left. No rule looks at it, but for one: whether a claim that only
//! one node can mount holds checkpoints is read off mounts, flags and variables. So [`crate::admission`] skims a new object first, and reads it
//! whole only where the facts make that rule ask.
//!
//! What is kept is a list of names, a few hundred bytes of an 8 KiB Job. A rule that looks at another field has to list it here; where that is
//! forgotten, the fixtures and the property test, which read each object both ways, say so. A patch means the same to what is left: rules add beside
//! what they see.

use crate::kinds::Kind;
use crate::text::value::Select;

/// What of a value is read. It speaks of mappings and lists; a value of another type is read as it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    /// All of it.
    Whole,
    /// These fields, each as far as is said here, and no others.
    Only(&'static [(&'static str, Self)]),
    /// Of every item of a list, or entry of a mapping, as much as this.
    Each(&'static Self),
    /// Nothing.
    Nothing,
}

const CONTAINERS: Keep = Keep::Each(&Keep::Only(&[
    ("image", Keep::Whole),
    ("name", Keep::Whole),
    ("resources", Keep::Only(&[("limits", Keep::Whole), ("requests", Keep::Whole)])),
]));

/// Which labels are asked for of a node, and how; not their values.
const NODES: Keep = Keep::Only(&[(
    "nodeSelectorTerms",
    Keep::Each(&Keep::Only(&[("matchExpressions", Keep::Each(&Keep::Only(&[("key", Keep::Whole), ("operator", Keep::Whole)])))])),
)]);

/// Where an annotation of Jobgate's is misplaced.
const MARKS: Keep = Keep::Only(&[("annotations", Keep::Whole), ("labels", Keep::Whole)]);

const TEMPLATE: Keep = Keep::Only(&[
    ("metadata", MARKS),
    (
        "spec",
        Keep::Only(&[
            ("activeDeadlineSeconds", Keep::Whole),
            ("affinity", Keep::Only(&[("nodeAffinity", Keep::Only(&[("requiredDuringSchedulingIgnoredDuringExecution", NODES)]))])),
            ("containers", CONTAINERS),
            ("ephemeralContainers", CONTAINERS),
            ("initContainers", CONTAINERS),
            ("nodeSelector", Keep::Whole),
            ("restartPolicy", Keep::Whole),
            ("tolerations", Keep::Whole),
            ("volumes", Keep::Each(&Keep::Only(&[("name", Keep::Whole), ("persistentVolumeClaim", Keep::Whole)]))),
        ]),
    ),
]);

/// Of a template's managed fields it counts whether the list of tolerations is among what somebody owns.
const OWNED_TEMPLATE: Keep = Keep::Only(&[("f:spec", Keep::Only(&[("f:tolerations", Keep::Whole)]))]);

/// The managed fields of a built-in kind's spec, as far as rules ask for them.
const OWNED_SPEC: Keep = Keep::Only(&[
    ("f:jobTemplate", Keep::Only(&[("f:spec", Keep::Only(&[("f:template", OWNED_TEMPLATE)]))])),
    ("f:podReplacementPolicy", Keep::Whole),
    ("f:template", OWNED_TEMPLATE),
]);

/// Of the managed fields it counts who applies (`manager`, `operation`, `subresource`), whether that is any of the spec, and whether
/// `podReplacementPolicy` is among it.
const METADATA: Keep = Keep::Only(&[
    ("annotations", Keep::Whole),
    ("deletionTimestamp", Keep::Whole),
    ("generateName", Keep::Whole),
    ("labels", Keep::Whole),
    (
        "managedFields",
        Keep::Each(&Keep::Only(&[
            ("manager", Keep::Whole),
            ("operation", Keep::Whole),
            ("subresource", Keep::Whole),
            ("fieldsV1", Keep::Only(&[("f:spec", OWNED_SPEC)])),
        ])),
    ),
    ("name", Keep::Whole),
    ("namespace", Keep::Whole),
    ("ownerReferences", Keep::Whole),
]);

const JOB_SPEC: Keep = Keep::Only(&[
    ("activeDeadlineSeconds", Keep::Whole),
    ("backoffLimitPerIndex", Keep::Whole),
    ("completions", Keep::Whole),
    ("manualSelector", Keep::Whole),
    ("parallelism", Keep::Whole),
    ("podFailurePolicy", Keep::Whole),
    ("podReplacementPolicy", Keep::Whole),
    ("template", TEMPLATE),
    ("ttlSecondsAfterFinished", Keep::Whole),
]);

const CRON_JOB_SPEC: Keep = Keep::Only(&[
    ("concurrencyPolicy", Keep::Whole),
    ("jobTemplate", Keep::Only(&[("metadata", MARKS), ("spec", JOB_SPEC)])),
    ("schedule", Keep::Whole),
]);

const PY_TORCH_JOB_SPEC: Keep = Keep::Only(&[
    ("elasticPolicy", Keep::Whole),
    ("pytorchReplicaSpecs", Keep::Each(&Keep::Only(&[("replicas", Keep::Whole), ("restartPolicy", Keep::Whole), ("template", TEMPLATE)]))),
    ("runPolicy", Keep::Whole),
]);

/// Whether it has begun or ended.
const STATUS: Keep = Keep::Only(&[("completionTime", Keep::Whole), ("conditions", Keep::Each(&Keep::Nothing)), ("startTime", Keep::Whole)]);

const OBJECT_OF_JOB: Keep =
    Keep::Only(&[("apiVersion", Keep::Whole), ("kind", Keep::Whole), ("metadata", METADATA), ("spec", JOB_SPEC), ("status", STATUS)]);
const OBJECT_OF_CRON_JOB: Keep = Keep::Only(&[("apiVersion", Keep::Whole), ("kind", Keep::Whole), ("metadata", METADATA), ("spec", CRON_JOB_SPEC)]);
const OBJECT_OF_PY_TORCH_JOB: Keep =
    Keep::Only(&[("apiVersion", Keep::Whole), ("kind", Keep::Whole), ("metadata", METADATA), ("spec", PY_TORCH_JOB_SPEC), ("status", STATUS)]);

/// Returns what is kept of an object of a kind: as much as judging it takes while nothing is known of its claims.
pub(super) fn of_kind(kind: Kind) -> Keep {
    match kind {
        Kind::Job => OBJECT_OF_JOB,
        Kind::CronJob => OBJECT_OF_CRON_JOB,
        Kind::PyTorchJob => OBJECT_OF_PY_TORCH_JOB,
    }
}

impl Select for Keep {
    fn field(self, name: &str) -> Option<Self> {
        let keep = match self {
            Self::Whole => self,
            Self::Only(fields) => fields.iter().find(|(field, _)| *field == name)?.1,
            Self::Each(keep) => *keep,
            Self::Nothing => return None,
        };
        (!matches!(keep, Self::Nothing)).then_some(keep)
    }

    /// Of a list where a mapping is expected everything is kept: a rule may say so.
    fn item(self) -> Self {
        match self {
            Self::Each(keep) => *keep,
            _ => Self::Whole,
        }
    }
}

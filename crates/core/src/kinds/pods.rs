//! Where the pods of a kind are, how many there are, and when they end: the parts of [`Pods`].

use crate::kinds::field::{Part, Path, may_be_read};
use crate::text::meter;
use crate::text::value::Map;

/// Any item of a list or entry of a mapping, in the path of [`Pods`].
pub const EACH: &str = "*";

/// A place where a kind has pod templates.
#[derive(Clone, Copy, Debug)]
pub struct Pods {
    /// The mapping around the template; [`EACH`] stands for any item or entry.
    pub at: Path,
    /// The template in it.
    pub template: Template,
    /// How many pods of it run at once.
    pub count: Count,
    /// Which `restartPolicy` they have.
    pub restart: Restart,
}

/// Where the parts of a pod template are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// The mapping with its `metadata`, from the mapping around the template; empty if it is that mapping, which
    /// then has pods only if it has containers.
    pub at: Path,
    /// The pod spec, from there.
    pub spec: Path,
    /// The mapping of the object with the fields that its pods share: where a pod spec lacks a field, that one
    /// counts.
    pub shared: Option<Path>,
    /// The fields of the pod spec that have containers, in the order in which these start.
    pub containers: &'static [ContainerField],
}

/// A field of a pod spec that has containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerField {
    /// Its name.
    pub name: &'static str,
    /// When its containers run.
    pub slot: ContainerSlot,
    /// Whether it is a list of containers; else it is one.
    pub is_list: bool,
}

/// When a container of a pod runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerSlot {
    /// Before the others, or beside them as a sidecar.
    Init,
    /// As long as the pod.
    Main,
    /// When somebody adds it: not allowed in templates, but possible in custom resources.
    Ephemeral,
}

/// The form that Kubernetes has, under the name `template`.
pub const TEMPLATE: Template = Template {
    at: &["template"],
    spec: &["spec"],
    shared: None,
    containers: &[
        ContainerField { name: "initContainers", slot: ContainerSlot::Init, is_list: true },
        ContainerField { name: "containers", slot: ContainerSlot::Main, is_list: true },
        ContainerField { name: "ephemeralContainers", slot: ContainerSlot::Ephemeral, is_list: true },
    ],
};

/// How many pods of a template run at once.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// The mapping around the template is a batch/v1 Job spec, and there may be several Jobs.
    Jobs(Times),
    /// `replicas` beside the template.
    Replicas {
        /// The default for a role.
        unset: fn(&str) -> i64,
        /// A role that may scale.
        elastic: Option<Elastic>,
    },
    /// `replicas` beside the template, up to `maxReplicas`.
    Range,
    /// `replicas`, `minReplicas` and `maxReplicas` of a group of Ray workers, each of `numOfHosts` pods.
    RayWorkers {
        /// The field that lets Ray add workers up to `maxReplicas`.
        autoscales: Path,
    },
    /// One, if the object has the template.
    One,
}

/// A role whose number of pods may change without an admission review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// The role.
    pub(crate) role: &'static str,
    /// The field with its minimum of pods.
    pub least: Path,
    /// The field with its maximum of pods.
    pub most: Path,
}

/// How many Jobs are made from a Job spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// One at a time, or as many as a schedule starts.
    Once,
    /// `replicas` of the item around the Job.
    Replicas,
    /// As many as the object that refers to this one sets; it also sets the number of pods.
    OfOthers,
    /// A field of the object, and its default.
    Field(Path, i64),
}

/// Which `restartPolicy` pods have.
#[derive(Clone, Copy, Debug)]
pub enum Restart {
    /// The one in the template.
    OfTemplate {
        /// What to write.
        help: &'static str,
        /// What an unset field means.
        unset: Unset,
        /// The effect of `Always`, which follows "a finished pod would run again" in messages.
        always: &'static str,
        /// Tells whether the end of a template's pods ends the run, given the mapping around the template;
        /// `Always` is then only a warning in other templates.
        ends_run: Option<fn(&Part<'_>) -> bool>,
    },
    /// The one beside the template, which overrides the template's.
    Beside {
        /// The words with which pods end.
        words: &'static [&'static str],
        /// The effect of any other word; nothing if only `Always` is wrong.
        ignored: Option<&'static str>,
        /// The defaults by role; other roles have the default of the operator's retries.
        unset: &'static [(&'static str, &'static str)],
    },
    /// These pods are not meant to end by themselves.
    Free,
}

/// What an unset `restartPolicy` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// `Always`, the default of pods.
    Always,
    /// This word, which the operator writes.
    Is(&'static str),
}

/// An item of a list or entry of a mapping above a pod template.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The entry's key, or the item's name.
    pub name: Option<&'a str>,
    /// The item or entry.
    pub(crate) part: Part<'a>,
}

/// Calls a function with each place of a path, in which [`EACH`] stands for any item or entry.
pub fn each_at<'a>(object: &Part<'a>, path: &[&'static str], found: &mut dyn FnMut(Part<'a>)) {
    each(object.clone(), path, None, &mut |visit| match visit {
        Visit::Place(part, _) => {
            found(part);
            true
        }
        Visit::Empty(..) => false,
    });
}

/// What a walk along a path finds.
pub(super) enum Visit<'a, 'p> {
    /// A place at the end of the path, and the last item or entry above it.
    Place(Part<'a>, Option<Entry<'a>>),
    /// An empty item of a list, of which there may be hundreds of thousands. The visitor returns `true` to skip
    /// it.
    Empty(&'p Part<'a>, usize),
}

fn each<'a>(
    part: Part<'a>,
    path: &[&'static str],
    entry: Option<Entry<'a>>,
    visit: &mut dyn FnMut(Visit<'a, '_>) -> bool,
) {
    let Some(at) = path.iter().position(|key| *key == EACH) else {
        visit(Visit::Place(part.at(path), entry));
        return;
    };
    let (around, below) = (part.at(&path[..at]), &path[at + 1..]);
    for (name, part) in around.fields() {
        each(part.clone(), below, Some(Entry { name: Some(name), part }), visit);
    }
    let to_next = below.split(|key| *key == EACH).next().filter(|path| path.len() < below.len());
    for (index, value) in around.values().iter().enumerate() {
        meter::spend(1);
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        let leads_on = || {
            let next = to_next.map(|path| path.iter().try_fold(value, |value, key| value.get(key)));
            next.is_none_or(|next| next.is_some_and(|next| next.is_array() || next.is_object()))
        };
        if !may_be_read(value) || !leads_on() || is_empty && visit(Visit::Empty(&around, index)) {
            continue;
        }
        let part = Part { pointer: &around.pointer / index, value: Some(value) };
        let name = ["name", "groupName"].iter().find_map(|key| value.get(key)?.as_str());
        each(part.clone(), below, Some(Entry { name, part }), visit);
    }
}

impl Template {
    /// Tells whether it has the form of Kubernetes, under any name.
    #[must_use]
    pub(crate) fn is_of_kubernetes(&self) -> bool {
        Self { at: TEMPLATE.at, ..*self } == TEMPLATE
    }
}

impl Pods {
    /// Returns the path of the pod specs in the object.
    #[must_use]
    pub fn spec_path(&self) -> Vec<&'static str> {
        [self.at, self.template.at, self.template.spec].concat()
    }

    /// Tells whether the mapping around the template is a batch/v1 Job spec.
    #[must_use]
    pub fn is_job(&self) -> bool {
        matches!(self.count, Count::Jobs(_))
    }

    /// Calls a function with the mapping around each template of an object, and the last item or entry above
    /// it.
    pub(super) fn each<'a>(&self, object: &Part<'a>, visit: &mut dyn FnMut(Visit<'a, '_>) -> bool) {
        each(object.clone(), self.at, None, visit);
    }

    /// Tells whether there is a template in the mapping around one.
    pub(super) fn is_in(&self, around: &Part<'_>) -> bool {
        let has = |field: &ContainerField| around.get(field.name).is_set();
        match self.template.at {
            [] => self.template.containers.iter().any(has),
            at => !matches!(self.count, Count::One) || around.at(at).is_set(),
        }
    }

    /// Tells whether the templates are below a list, which an apply replaces as a whole.
    #[must_use]
    pub fn is_in_list(&self) -> bool {
        self.at.contains(&EACH) && self.roles().is_none()
    }

    /// Returns the mapping of roles that the templates are in.
    #[must_use]
    pub(crate) fn roles(&self) -> Option<Path> {
        match (self.restart, self.at.split_last()) {
            (Restart::Beside { .. }, Some((&EACH, roles))) => Some(roles),
            _ => None,
        }
    }
}

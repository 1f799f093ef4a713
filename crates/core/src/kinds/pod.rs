//! Pod templates, with their containers and claims.

use super::accelerator;
use crate::kinds::count::PodCount;
use crate::kinds::field::{Field, Part};
use crate::kinds::pods::{ContainerField, ContainerSlot, Entry, Pods};
use crate::text::meter;
use crate::text::patch::Op;
use crate::text::pointer::Pointer;
use crate::text::value::{Map, Value};

/// A pod template.
#[derive(Clone, Debug)]
pub struct PodTemplate<'a> {
    /// The index of its run.
    pub(crate) run: usize,
    /// The mapping with its `metadata`.
    pub template: Part<'a>,
    /// The pod spec.
    pub spec: PodSpec<'a>,
    /// Its form, from the definition of the kind.
    pub form: &'static Pods,
    /// The mapping around the template.
    pub(crate) around: Part<'a>,
    /// The item or entry above it, such as a replica type.
    pub(crate) entry: Option<Entry<'a>>,
    /// How many of its pods may run at once in a run.
    pub count: PodCount,
    containers: Vec<Container<'a>>,
}

/// The fields of a pod. Rules read all of them here, whatever the form of the template.
#[derive(Clone, Debug)]
pub struct PodSpec<'a> {
    /// The mapping of this template alone, with the containers.
    pub(crate) own: Part<'a>,
    /// The mapping with the fields that pods share, if the kind has one.
    shared: Option<Part<'a>>,
}

impl<'a> PodSpec<'a> {
    /// Returns the pod spec in a mapping that has all of it.
    #[must_use]
    pub(crate) fn whole(own: Part<'a>) -> Self {
        Self { own, shared: None }
    }

    /// Returns a field: that of the template, or the shared one if only that is set.
    #[must_use]
    pub fn get(&self, key: &'static str) -> Part<'a> {
        match &self.shared {
            Some(shared) if self.shares(key) => shared.get(key),
            _ => self.own.get(key),
        }
    }

    /// Tells whether a field is the shared one.
    #[must_use]
    pub(crate) fn shares(&self, key: &'static str) -> bool {
        let is_set = |part: &Part<'_>| part.get(key).is_set();
        self.shared.as_ref().is_some_and(is_set) && !is_set(&self.own)
    }

    /// Returns the field at the end of a path of keys.
    #[must_use]
    pub(crate) fn at(&self, path: &[&'static str]) -> Part<'a> {
        match path.split_first() {
            Some((first, below)) => self.get(first).at(below),
            None => self.own.clone(),
        }
    }

    /// Returns the operation that sets a field of this template alone.
    #[must_use]
    pub(crate) fn set(&self, key: &'static str, value: Value) -> Option<Op> {
        self.own.set(key, value)
    }
}

/// One container of a pod template.
#[derive(Clone, Debug)]
pub struct Container<'a> {
    /// When it runs.
    pub(crate) slot: ContainerSlot,
    /// The container.
    pub(crate) part: Part<'a>,
}

/// The place of a container in its pod spec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContainerPlace {
    field: ContainerField,
    /// Its index, if the field is a list.
    index: Option<usize>,
}

impl ContainerPlace {
    /// Returns when the container runs.
    pub(crate) fn slot(self) -> ContainerSlot {
        self.field.slot
    }

    /// Returns the pointer, given that of the pod spec.
    pub(crate) fn below(self, spec: &Pointer) -> Pointer {
        let field = spec / self.field.name;
        self.index.map_or(field.clone(), |index| &field / index)
    }
}

impl ContainerField {
    /// Returns the containers in the field of a pod spec, each with its index if it is a list.
    fn of<'a>(self, spec: Option<&'a Map>) -> impl Iterator<Item = (Option<usize>, &'a Value)> + use<'a> {
        let value = spec.and_then(|spec| spec.get(self.name));
        let list = value.filter(|_| self.is_list).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let one = value.filter(|value| !self.is_list && value.is_object());
        list.iter().enumerate().map(|(index, value)| (Some(index), value)).chain(one.map(|one| (None, one)))
    }
}

/// One volume that mounts a `PersistentVolumeClaim` by name.
#[derive(Clone, Debug)]
pub struct ClaimUse<'a> {
    /// The claim's name.
    pub claim: &'a str,
    /// The volume's name, or empty.
    pub(crate) volume: &'a str,
    /// Whether the volume has `readOnly: true`.
    pub(crate) read_only: bool,
    /// `volumes[i].persistentVolumeClaim.claimName`.
    pub(crate) part: Part<'a>,
}

/// The most items without relevant fields that are read in one list.
pub(super) const MOST_BARE: usize = 17;

/// Tells whether a container has a field that may matter.
fn says_something(container: &Value) -> bool {
    const READ: [&str; 15] = [
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "name",
        "ports",
        "resources",
        "restartPolicy",
        "securityContext",
        "volumeDevices",
        "volumeMounts",
        "workingDir",
    ];
    container.as_object().is_some_and(|fields| fields.keys().any(|key| READ.contains(&key)))
}

impl<'a> PodTemplate<'a> {
    pub(super) fn new(
        (run, form): (usize, &'static Pods),
        shared: Option<Part<'a>>,
        around: Part<'a>,
        entry: Option<Entry<'a>>,
        count: PodCount,
    ) -> Self {
        let template = around.at(form.template.at);
        let spec = PodSpec { own: template.at(form.template.spec), shared };
        let mut containers = Vec::new();
        let fields = spec.own.value.and_then(Value::as_object);
        for field in form.template.containers {
            let (mut bare, place) = (0, &spec.own.pointer / field.name);
            for (index, value) in field.of(fields) {
                meter::spend(1);
                bare += usize::from(!says_something(value));
                if says_something(value) || bare <= MOST_BARE {
                    let pointer = index.map_or_else(|| place.clone(), |index| &place / index);
                    containers
                        .push(Container { slot: field.slot, part: Part { pointer, value: Some(value) } });
                }
            }
        }
        containers.shrink_to_fit();
        Self { run, form, around, entry, template, spec, count, containers }
    }

    /// Tells whether one of its containers requests an accelerator of the usual table, maybe by a placeholder.
    #[must_use]
    pub fn holds_accelerators(&self) -> bool {
        self.container_values().any(|(_, container)| accelerator::is_requested_by(container))
    }

    /// Tells whether its pods start only when others have ended (`dependsOn` of a JobSet).
    #[must_use]
    pub(crate) fn waits_for_the_end(&self) -> bool {
        let depends_on = self.entry.iter().flat_map(|entry| entry.part.get("dependsOn").mappings());
        depends_on.into_iter().any(|other| other.get("status").text() == Field::Set("Complete"))
    }

    /// Returns the name of its replica type, for kinds that have them.
    #[must_use]
    pub(crate) fn role(&self) -> Option<&'a str> {
        self.form.roles()?;
        self.entry.as_ref()?.name
    }

    /// Returns the containers of all lists, but only a few of those without relevant fields: a list may have
    /// hundreds of thousands.
    pub(crate) fn containers(&self) -> impl Iterator<Item = Container<'a>> + use<'_, 'a> {
        self.containers.iter().cloned()
    }

    /// Returns the place and value of every container, without pointers, which take time to make.
    pub(crate) fn container_values(&self) -> impl Iterator<Item = (ContainerPlace, &'a Value)> + use<'a> {
        let spec = self.spec.own.value.and_then(Value::as_object);
        self.form.template.containers.iter().flat_map(move |field| {
            field.of(spec).map(|(index, value)| (ContainerPlace { field: *field, index }, value))
        })
    }

    /// Returns the places of the fields with the containers that run as long as the pod.
    pub fn main_containers(&self) -> impl Iterator<Item = Pointer> {
        let fields = self.form.template.containers.iter().filter(|field| field.slot == ContainerSlot::Main);
        fields.map(|field| &self.spec.own.pointer / field.name)
    }

    /// Returns the volumes with a claim by name, without generic ephemeral volumes, which have a claim per
    /// pod (docs/internals/pods.md#ephemeral-volumes).
    pub fn claims(&self) -> impl Iterator<Item = ClaimUse<'a>> + use<'a> {
        self.spec.get("volumes").mappings().filter_map(|volume| {
            let source = volume.get("persistentVolumeClaim");
            let part = source.get("claimName");
            let claim = part.value?.as_str()?;
            let name = volume.get("name").value.and_then(Value::as_str).unwrap_or_default();
            let read_only = source.get("readOnly").bool() == Field::Set(true);
            Some(ClaimUse { claim, volume: name, read_only, part })
        })
    }
}

//! Pod templates, with their containers and claims.

use super::accelerator;
use crate::kinds::count::PodCount;
use crate::kinds::field::{Field, Part};
use crate::kinds::pods::{Entry, Pods};
use crate::text::meter;
use crate::text::value::Value;

/// A pod template.
#[derive(Clone, Debug)]
pub struct PodTemplate<'a> {
    /// The index of its run.
    pub(crate) run: usize,
    /// The template: `metadata` and `spec`.
    pub template: Part<'a>,
    /// The pod spec.
    pub spec: Part<'a>,
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

/// A list of containers in a pod spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerSlot {
    /// `initContainers`, with sidecars.
    Init,
    /// `containers`.
    Main,
    /// `ephemeralContainers`, not allowed in templates, but possible in custom resources.
    Ephemeral,
}

impl ContainerSlot {
    /// All of them, in the order in which containers start.
    pub(crate) const ALL: [Self; 3] = [Self::Init, Self::Main, Self::Ephemeral];

    /// Returns the list's name in a pod spec.
    #[must_use]
    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Init => "initContainers",
            Self::Main => "containers",
            Self::Ephemeral => "ephemeralContainers",
        }
    }
}

/// One container of a pod template.
#[derive(Clone, Debug)]
pub struct Container<'a> {
    /// Its list.
    pub(crate) slot: ContainerSlot,
    /// The container.
    pub(crate) part: Part<'a>,
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
        run: usize,
        form: &'static Pods,
        around: Part<'a>,
        entry: Option<Entry<'a>>,
        count: PodCount,
    ) -> Self {
        let template = around.get(form.template);
        let spec = template.get("spec");
        let mut containers = Vec::new();
        for slot in ContainerSlot::ALL {
            let mut bare = 0;
            let list = spec.get(slot.list());
            for (index, value) in list.values().iter().enumerate() {
                meter::spend(1);
                bare += usize::from(!says_something(value));
                if says_something(value) || bare <= MOST_BARE {
                    let part = Part { pointer: &list.pointer / index, value: Some(value) };
                    containers.push(Container { slot, part });
                }
            }
        }
        containers.shrink_to_fit();
        Self { run, form, around, entry, template, spec, count, containers }
    }

    /// Tells whether one of its containers requests an accelerator of the usual table, maybe by a placeholder.
    #[must_use]
    pub fn holds_accelerators(&self) -> bool {
        self.container_values().any(|(_, _, container)| accelerator::is_requested_by(container))
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

    /// Returns the list, index and value of every container, without pointers, which take time to make.
    pub(crate) fn container_values(
        &self,
    ) -> impl Iterator<Item = (ContainerSlot, usize, &'a Value)> + use<'a> {
        let spec = self.spec.value.and_then(Value::as_object);
        ContainerSlot::ALL.into_iter().flat_map(move |slot| {
            let list = spec.and_then(|spec| spec.get(slot.list())?.as_array()).map_or(&[][..], Vec::as_slice);
            list.iter().enumerate().map(move |(index, value)| (slot, index, value))
        })
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

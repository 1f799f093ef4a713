//! Facts about other objects, each known, absent or unknown, so that rules treat clusters and files alike.

mod kind;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use kind::{FactDefinition, FactKind, Keeps};

use crate::judge::finding::Source;
use crate::kinds::Kind;
use crate::text::placeholder;
use crate::text::value::Value;

/// A fact about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<T> {
    /// It exists, with this data.
    Known(T),
    /// It was looked for and is not there.
    Absent,
    /// It was not looked up, or not in time. Never a reason to deny.
    Unknown,
}

/// A `PersistentVolumeClaim`, as far as rules care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Access modes: of the bound volume (`status.accessModes`), otherwise the requested ones
    /// (`spec.accessModes`).
    pub access_modes: Vec<String>,
    /// Where the claim is defined, for the report.
    pub source: Source,
}

impl Claim {
    /// Reads a claim; nothing without readable access modes.
    ///
    /// Those in `status` are of the bound volume and take precedence (docs/internals/pods.md#access-modes).
    #[must_use]
    pub fn from_object(object: &Value, source: Source) -> Option<Self> {
        let modes = |part: &str| access_modes(object.get(part)?.get("accessModes")?);
        let bound = object.pointer("/status/phase").and_then(Value::as_str) == Some("Bound");
        let status = modes("status").filter(|list| bound && !list.is_empty());
        let access_modes = status.or_else(|| modes("spec")).filter(|list| !list.is_empty())?;
        Some(Self { access_modes, source })
    }

    /// Tells whether the claim has the given access mode.
    #[must_use]
    pub fn has(&self, mode: &str) -> bool {
        self.access_modes.iter().any(|have| have == mode)
    }
}

/// Reads a list of access modes; nothing if one of them is unknown.
pub(crate) fn access_modes(list: &Value) -> Option<Vec<String>> {
    let known = |mode: &&str| !placeholder::is_placeholder(mode);
    list.as_array()?.iter().map(|mode| mode.as_str().filter(known).map(str::to_owned)).collect()
}

/// Another object that was looked up, as far as rules care.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundObject {
    /// The object: all of it from a file, and from a cluster what [`Keeps`] says, with its type.
    pub object: Arc<Value>,
    /// Where it is defined, for the report.
    pub source: Source,
}

impl FoundObject {
    /// Reads an object; nothing for one of a kind that is not looked up.
    #[must_use]
    pub fn from_object(object: &Value, source: Source) -> Option<Self> {
        FactKind::from_object(object)?;
        Some(Self { object: Arc::new(object.clone()), source })
    }
}

/// The volume behind a claim, if the claim's access modes are not enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Volume {
    /// The cluster finds or makes one that fits, or has done so: the claim's access modes count.
    #[default]
    OfCluster,
    /// The claim names an unknown `PersistentVolume`.
    Unseen,
    /// A known `PersistentVolume` with these access modes, which may be attached to a node.
    Attached(Vec<String>),
    /// A `PersistentVolume` that is not attached, so access modes exclude no pod: a network file system, or a
    /// local disk, whose node gets all its pods.
    Free,
    /// A `hostPath`: no node attaches it, and each has a directory of its own.
    HostPath {
        /// The name of the `PersistentVolume`.
        name: String,
        /// Where it is defined.
        source: Source,
    },
}

/// The `PersistentVolume` that a claim names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeName {
    /// The name.
    pub name: String,
    /// Whether the claim's author wrote it, rather than the cluster when it bound the claim.
    pub by_author: bool,
}

impl VolumeName {
    /// Reads the volume that a claim names.
    ///
    /// Every bound claim names one, and has annotations of the binding controller, which authors do not
    /// write.
    #[must_use]
    pub fn from_claim(claim: &Value) -> Option<Self> {
        const MARKS: [&str; 4] = [
            "pv.kubernetes.io/bind-completed",
            "pv.kubernetes.io/bound-by-controller",
            "volume.beta.kubernetes.io/storage-provisioner",
            "volume.kubernetes.io/storage-provisioner",
        ];
        let name = claim.pointer("/spec/volumeName")?.as_str().filter(|name| !name.is_empty())?.to_owned();
        let annotations = claim.pointer("/metadata/annotations");
        let marked =
            MARKS.iter().any(|mark| annotations.is_some_and(|annotations| annotations.get(*mark).is_some()));
        let bound = claim.pointer("/status/phase").and_then(Value::as_str) == Some("Bound");
        Some(Self { name, by_author: !marked && !bound })
    }
}

impl Volume {
    /// Reads a `PersistentVolume`; nothing without readable access modes.
    ///
    /// The attach controller asks only plugins that attach volumes
    /// (docs/internals/pods.md#volumes-that-attach). A CSI driver may be either kind.
    #[must_use]
    pub fn from_object(object: &Value, source: Source) -> Option<Self> {
        const FREE: [&str; 8] =
            ["azureFile", "cephfs", "flocker", "glusterfs", "local", "nfs", "quobyte", "storageos"];
        let spec = object.get("spec")?;
        let has = |source: &str| spec.get(source).is_some_and(|source| !source.is_null());
        if has("hostPath") {
            // Its pods are scheduled to its node.
            let name =
                object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
            return Some(if has("nodeAffinity") { Self::Free } else { Self::HostPath { name, source } });
        }
        if FREE.into_iter().any(has) {
            return Some(Self::Free);
        }
        let modes = spec.get("accessModes")?.as_array()?.iter();
        modes.map(|mode| mode.as_str().map(str::to_owned)).collect::<Option<_>>().map(Self::Attached)
    }

    /// Tells whether two volumes are equal but for their source.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        matches!((self, other), (Self::HostPath { .. }, Self::HostPath { .. })) || self == other
    }
}

/// A claim whose access modes a rule may look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedClaim {
    /// The namespace of the object.
    pub namespace: String,
    /// The name in the object, which may be invalid.
    pub name: String,
    /// Whether more than one pod may use it at once. Only then can its access modes be a reason for a denial.
    pub shared: bool,
}

/// An object that a rule may look up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedObject {
    /// Its kind.
    pub kind: FactKind,
    /// The namespace of the object that names it; empty if objects of its kind have none.
    pub namespace: String,
    /// Its name, which may be invalid.
    pub name: String,
}

impl WantedObject {
    /// Returns the object with a name that an object in a namespace refers to.
    #[must_use]
    pub fn new(kind: FactKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: kind.namespace(namespace).to_owned(), name: name.to_owned() }
    }
}

/// The parent that an object names as its controller, for which a trusted account made the object
/// ([`trust`](crate::judge::trust)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedParent {
    /// Its kind.
    pub kind: Kind,
    /// The version of its API in the reference.
    pub version: String,
    /// The namespace of the object and of its parent.
    pub namespace: String,
    /// Its name, which may be invalid.
    pub name: String,
    /// Its uid. Another object of the name is not the parent.
    pub uid: String,
}

/// The facts a review rests on. Without an entry everything is [`Fact::Unknown`].
pub trait Facts {
    /// Returns a claim; `namespace` is empty for a manifest without one.
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim>;

    /// Returns the volume behind a claim.
    fn volume(&self, _namespace: &str, _name: &str) -> Volume {
        Volume::OfCluster
    }

    /// Returns an object of another kind than claims, to which an object in a namespace refers.
    fn object(&self, _kind: FactKind, _namespace: &str, _name: &str) -> Fact<FoundObject> {
        Fact::Unknown
    }

    /// Returns the runtime that a TrainJob in a namespace names in `runtimeRef`.
    fn runtime(&self, kind: &str, namespace: &str, name: &str) -> Fact<FoundObject> {
        let kind = Kind::from_runtime(kind).map(FactKind::Runtime);
        kind.map_or(Fact::Unknown, |kind| self.object(kind, namespace, name))
    }

    /// Tells whether a parent exists, with the uid of the reference.
    fn parent(&self, _wanted: &WantedParent) -> Fact<()> {
        Fact::Unknown
    }

    /// Returns one line for the author about claims that may decide and could not be looked up, if any.
    fn caveat(&self) -> Option<&str> {
        None
    }
}

/// Facts that were gathered before the review: a plain table.
#[derive(Clone, Debug, Default)]
pub struct FactTable {
    /// Claims by namespace and name.
    pub claims: BTreeMap<(String, String), Fact<Claim>>,
    /// Objects of other kinds.
    pub objects: BTreeMap<WantedObject, Fact<FoundObject>>,
    /// Parents: whether they exist.
    pub parents: BTreeMap<WantedParent, Fact<()>>,
    /// See [`Facts::caveat`].
    pub caveat: Option<String>,
}

impl FactTable {
    /// Enters an object of a cluster, or that it does not exist.
    pub fn enter(&mut self, wanted: WantedObject, object: Option<&Value>) {
        if wanted.kind == FactKind::Claim {
            let claim =
                |object| Claim::from_object(object, Source::Cluster).map_or(Fact::Unknown, Fact::Known);
            self.claims.insert((wanted.namespace, wanted.name), object.map_or(Fact::Absent, claim));
        } else {
            let found =
                |object| FoundObject::from_object(object, Source::Cluster).map_or(Fact::Unknown, Fact::Known);
            self.objects.insert(wanted, object.map_or(Fact::Absent, found));
        }
    }

    /// Adds the facts of another table, which count where both have one. Only the first caveat is kept.
    pub fn extend(&mut self, other: Self) {
        let Self { claims, objects, parents, caveat } = other;
        self.claims.extend(claims);
        self.objects.extend(objects);
        self.parents.extend(parents);
        self.caveat = self.caveat.take().or(caveat);
    }
}

impl Facts for FactTable {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        // A review may name a namespace of any length, and any number of claims.
        if self.claims.is_empty() {
            return Fact::Unknown;
        }
        self.claims.get(&(namespace.to_owned(), name.to_owned())).cloned().unwrap_or(Fact::Unknown)
    }

    fn object(&self, kind: FactKind, namespace: &str, name: &str) -> Fact<FoundObject> {
        if self.objects.is_empty() {
            return Fact::Unknown;
        }
        self.objects.get(&WantedObject::new(kind, namespace, name)).cloned().unwrap_or(Fact::Unknown)
    }

    fn parent(&self, wanted: &WantedParent) -> Fact<()> {
        self.parents.get(wanted).cloned().unwrap_or(Fact::Unknown)
    }

    fn caveat(&self) -> Option<&str> {
        self.caveat.as_deref()
    }
}

/// No facts at all: everything is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFacts;

impl Facts for NoFacts {
    fn claim(&self, _namespace: &str, _name: &str) -> Fact<Claim> {
        Fact::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn a_volume_that_the_cluster_has_bound_is_not_the_authors_choice() {
        let by_author = |annotations: Value, status: Value| {
            let claim = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": "v"}, "status": status});
            VolumeName::from_claim(&claim).map(|named| named.by_author)
        };
        assert_eq!(by_author(Value::Null, Value::Null), Some(true));
        assert_eq!(by_author(json!({"team": "ml"}), json!({"phase": "Pending"})), Some(true));
        assert_eq!(by_author(json!({"pv.kubernetes.io/bind-completed": "yes"}), Value::Null), Some(false));
        assert_eq!(
            by_author(json!({"volume.kubernetes.io/storage-provisioner": "csi.example.com"}), Value::Null),
            Some(false)
        );
        assert_eq!(by_author(Value::Null, json!({"phase": "Bound"})), Some(false));
        assert_eq!(VolumeName::from_claim(&json!({"spec": {"volumeName": ""}})), None);
    }

    #[test]
    fn volumes_differ_by_who_attaches_them() {
        let of = |source: Value| {
            let mut spec = json!({"accessModes": ["ReadWriteOnce"]});
            crate::text::patch::merge(&mut spec, &source);
            Volume::from_object(&json!({"metadata": {"name": "v"}, "spec": spec}), Source::Cluster)
        };
        let attached = Some(Volume::Attached(vec!["ReadWriteOnce".to_owned()]));
        assert_eq!(
            of(json!({"hostPath": {"path": "/data"}})),
            Some(Volume::HostPath { name: "v".to_owned(), source: Source::Cluster })
        );
        assert_eq!(
            of(json!({"hostPath": {"path": "/data"}, "nodeAffinity": {"required": {}}})),
            Some(Volume::Free)
        );
        assert_eq!(of(json!({"nfs": {"server": "s", "path": "/"}})), Some(Volume::Free));
        assert_eq!(of(json!({"local": {"path": "/disk"}})), Some(Volume::Free));
        assert_eq!(of(json!({"csi": {"driver": "disk.example.com"}})), attached);
        assert_eq!(of(json!({"awsElasticBlockStore": {"volumeID": "v"}})), attached);
    }
}

//! Claims and other objects in the linted files and the `--facts` files, and how workloads refer to them.
//!
//! What is not in the files may still exist.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

use crate::input::Input;
use crate::nearest::{NearestByName, Said};
use crate::objects::{Object, each};
use jobgate_core::judge::facts::{
    Claim, Fact, FactDefinition, FactKind, Facts, FoundObject, Volume, VolumeName,
};
use jobgate_core::judge::finding::Source;
use jobgate_core::judge::runtimes::shipped;
use jobgate_core::text::lines::Lines;
use jobgate_core::text::value::Value;
use jobgate_core::text::yaml::{self, Document, Limits};
use jobgate_report::Location;

/// Claims and other objects, by name and by file.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    by_name: BTreeMap<String, NearestByName<ClaimEntry>>,
    by_file: BTreeMap<Arc<str>, InFile>,
    /// `PersistentVolume`s by name.
    volumes: BTreeMap<String, NearestByName<Volume>>,
    /// Other objects that rules look up, by kind and name.
    objects: BTreeMap<(FactKind, String), NearestByName<FoundObject>>,
}

/// The claims and other objects of one file.
#[derive(Clone, Debug)]
struct InFile {
    input: Arc<Input>,
    /// Their locations, by byte span.
    places: BTreeMap<(usize, usize), Location>,
}

/// One claim of a file.
#[derive(Clone, Debug)]
struct ClaimEntry {
    claim: Claim,
    /// The `PersistentVolume` that it names.
    volume: Option<VolumeName>,
    location: Location,
}

/// A claim, a volume or another object that was read from a file.
#[derive(Clone, Debug)]
pub struct Read {
    name: String,
    namespace: String,
    object: ReadObject,
    location: Location,
    input: Arc<Input>,
}

#[derive(Clone, Debug)]
enum ReadObject {
    Claim(Claim, Option<VolumeName>),
    Volume(Volume),
    Other(FactKind, FoundObject),
}

/// The kind of the volume that a claim names.
const VOLUME: &str = "PersistentVolume";

/// Finders for the names of the kinds of these objects. A name that has another one in it needs none.
pub static KINDS: LazyLock<Vec<Finder<'static>>> = LazyLock::new(|| {
    let names: Vec<&str> = FactKind::all().map(|kind| kind.definition().name).chain([VOLUME]).collect();
    let is_whole = |name: &&&str| !names.iter().any(|other| other != *name && name.contains(other));
    names.iter().filter(is_whole).map(|name| Finder::new(*name)).collect()
});

/// Tells whether a text may contain one of these kinds.
fn is_mentioned(text: &[u8]) -> bool {
    KINDS.iter().any(|kind| kind.find(text).is_some())
}

impl Claims {
    /// Adds what was read from files.
    pub fn extend(&mut self, entries: impl IntoIterator<Item = Read>) {
        for Read { name, namespace, object, location, input } in entries {
            let path = &input.path;
            match object {
                ReadObject::Claim(claim, volume) => {
                    let entry = ClaimEntry { claim, volume, location: location.clone() };
                    self.by_name.entry(name).or_default().push(path, &namespace, entry);
                }
                ReadObject::Volume(volume) => self.volumes.entry(name).or_default().push(path, "", volume),
                ReadObject::Other(kind, found) => {
                    self.objects.entry((kind, name)).or_default().push(path, &namespace, found);
                }
            }
            let file = self
                .by_file
                .entry(Arc::clone(&input.path))
                .or_insert_with(|| InFile { input, places: BTreeMap::new() });
            file.places.insert((location.span.start, location.span.end), location);
        }
    }

    /// Returns the file of a path, if it has a claim.
    pub fn file(&self, path: &str) -> Option<&Input> {
        self.by_file.get(path).map(|file| &*file.input)
    }

    /// Returns the files with a referenced object: the nearest, or else all with that name.
    pub fn files_of(&self, kind: &str, namespace: &str, name: &str, from: &Arc<str>) -> Vec<&Input> {
        let Some(kind) = FactKind::named(kind) else { return Vec::new() };
        let files: BTreeSet<&Arc<str>> = if kind == FactKind::Claim {
            let found = self.by_name.get(name).map_or_else(Vec::new, |near| near.found(from, namespace));
            found.into_iter().map(|entry| &entry.location.file).collect()
        } else {
            let namespace = kind.namespace(namespace);
            let found = self.objects(kind, name).map_or_else(Vec::new, |near| near.found(from, namespace));
            let path = |found: &'_ FoundObject| match &found.source {
                Source::File { path, .. } => self.by_file.get_key_value(path).map(|(path, _)| path),
                Source::Cluster | Source::Release(_) => None,
            };
            found.into_iter().filter_map(path).collect()
        };
        files.into_iter().filter_map(|path| self.file(path)).collect()
    }

    /// Returns the locations of a file's claims.
    pub fn locations(&self, path: &str) -> impl Iterator<Item = &Location> {
        self.by_file.get(path).into_iter().flat_map(|file| file.places.values())
    }

    /// Returns the volumes of a name.
    fn volumes(&self, name: &str) -> Vec<&Volume> {
        self.volumes.get(name).map_or_else(Vec::new, |volumes| volumes.of(""))
    }

    /// Returns the objects that a name may mean, if any has it.
    fn objects(&self, kind: FactKind, name: &str) -> Option<&NearestByName<FoundObject>> {
        // Most files have none.
        if self.objects.is_empty() {
            return None;
        }
        self.objects.get(&(kind, name.to_owned()))
    }

    /// Returns the claims of a name in a namespace or without one. The namespace of an object without one is
    /// unknown.
    fn stated(&self, namespace: &str, name: &str) -> Vec<&ClaimEntry> {
        self.by_name.get(name).map_or_else(Vec::new, |entries| entries.stated(namespace))
    }
}

impl Said for ClaimEntry {
    fn agrees(&self, other: &Self) -> [bool; 2] {
        [self.claim.access_modes == other.claim.access_modes, self.volume == other.volume]
    }
}

impl Said for FoundObject {
    fn agrees(&self, other: &Self) -> [bool; 2] {
        [self.object.get("spec") == other.object.get("spec"); 2]
    }
}

impl Said for Volume {
    fn agrees(&self, other: &Self) -> [bool; 2] {
        [self == other; 2]
    }
}

/// Finds the claims, volumes and other objects of a text. Documents that cannot be read are left to the linter.
#[must_use]
pub fn in_text(input: &Input, source: &[u8], limits: &Limits) -> Vec<Read> {
    if !is_mentioned(source) {
        return Vec::new();
    }
    let (lines, input) = (Lines::new(source), Arc::new(input.clone()));
    let chunks =
        yaml::split(source, limits).flatten().filter(|chunk| is_mentioned(&source[chunk.span.clone()]));
    let documents = chunks.filter_map(|chunk| yaml::parse(source, &chunk, limits).ok());
    documents.flat_map(|document| entries(&input, &lines, &document)).collect()
}

/// Returns the claims, volumes and other objects of a document.
#[must_use]
pub fn entries(input: &Arc<Input>, lines: &Lines<'_>, document: &Document) -> Vec<Read> {
    let mut found = Vec::new();
    each(&document.value, |object| {
        found.extend(entry(input, lines, document, &object));
        ControlFlow::<()>::Continue(())
    });
    found
}

fn entry(input: &Arc<Input>, lines: &Lines<'_>, document: &Document, object: &Object<'_>) -> Option<Read> {
    let text = |pointer: &str| object.value.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name")?.to_owned();
    let namespace = text("/metadata/namespace").unwrap_or_default().to_owned();
    let (kind, is_core) = (text("/kind")?, text("/apiVersion")? == "v1");
    let fact = FactKind::from_object(&object.value);
    let at = match fact {
        Some(FactKind::Claim) if is_core => {
            document.locate(&(&object.at / "spec" / "accessModes")).map(|span| span.value)
        }
        Some(FactKind::Claim) => return None,
        Some(_) => Some(document.locate(&(&object.at / "kind")).map(|span| span.value)?),
        None if kind == VOLUME && is_core => {
            document.locate(&(&object.at / "spec" / "hostPath")).map(|span| span.key.unwrap_or(span.value))
        }
        None => return None,
    };
    let span =
        at.or_else(|| Some(document.locate(&object.at)?.value)).unwrap_or_else(|| document.span.clone());
    let location = Location::new(&input.path, span.clone(), lines);
    let source = Source::File { path: Arc::clone(&input.path), span, namespace: namespace.clone() };
    let object = match fact {
        Some(FactKind::Claim) => ReadObject::Claim(
            Claim::from_object(&object.value, source)?,
            VolumeName::from_claim(&object.value),
        ),
        Some(kind) => ReadObject::Other(kind, FoundObject::from_object(&object.value, source)?),
        None => ReadObject::Volume(Volume::from_object(&object.value, source)?),
    };
    Some(Read { name, namespace, object, location, input: Arc::clone(input) })
}

/// Looks claims up without a file that refers to them, as for a review.
impl Facts for Claims {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        agreed(&self.stated(namespace, name))
    }

    fn volume(&self, namespace: &str, name: &str) -> Volume {
        volume(self.stated(namespace, name), |name| self.volumes(name))
    }

    fn object(&self, kind: FactKind, namespace: &str, name: &str) -> Fact<FoundObject> {
        let stated =
            |entries: &'_ NearestByName<FoundObject>| one_of(entries.stated(kind.namespace(namespace)));
        self.objects(kind, name).map_or(Fact::Unknown, stated)
    }
}

/// Returns the object that all candidates agree on; unknown if they differ.
fn one_of(candidates: Vec<&FoundObject>) -> Fact<FoundObject> {
    match candidates.as_slice() {
        [first, rest @ ..] if rest.iter().all(|other| other.agrees(first)[0]) => {
            Fact::Known((*first).clone())
        }
        _ => Fact::Unknown,
    }
}

/// The claims and other objects visible to one file.
#[derive(Debug)]
pub struct Scope<'a> {
    /// The file.
    pub file: &'a Input,
    /// From `--facts`; these take precedence.
    pub facts: &'a Claims,
    /// From the rendering of the file's text; these come next.
    pub own: Option<&'a Claims>,
    /// From the linted files.
    pub linted: &'a Claims,
}

impl Facts for Scope<'_> {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        if !self.facts.stated(namespace, name).is_empty() {
            return self.facts.claim(namespace, name);
        }
        if let Some(own) = self.own_with(namespace, name) {
            return own.claim(namespace, name);
        }
        agreed(&self.nearest(namespace, name))
    }

    fn volume(&self, namespace: &str, name: &str) -> Volume {
        let stated = self.facts.stated(namespace, name);
        let claims = match self.own_with(namespace, name) {
            _ if !stated.is_empty() => stated,
            Some(own) => own.stated(namespace, name),
            None => self.nearest(namespace, name),
        };
        volume(claims, |name| self.volumes(name))
    }

    fn object(&self, kind: FactKind, namespace: &str, name: &str) -> Fact<FoundObject> {
        for stated in [Some(self.facts), self.own].into_iter().flatten() {
            if let Fact::Known(found) = stated.object(kind, namespace, name) {
                return Fact::Known(found);
            }
        }
        let FactDefinition { name: kind_name, resource, .. } = kind.definition();
        let near = |entries: &'_ NearestByName<FoundObject>| {
            let near = entries.nearest(&self.file.path, kind.namespace(namespace));
            // A cluster has only one of that name, wherever its file is.
            let is_of_cluster = near.is_empty() && resource.cluster_scoped;
            one_of(if is_of_cluster { entries.of("") } else { near })
        };
        let found = self.linted.objects(kind, name).map(near);
        // Files with one of that name are better evidence about the cluster than a release.
        found.or_else(|| shipped::runtime(kind_name, name)).unwrap_or(Fact::Unknown)
    }
}

impl<'a> Scope<'a> {
    /// Returns the claims of the rendering, if one of this name is among them.
    fn own_with(&self, namespace: &str, name: &str) -> Option<&'a Claims> {
        self.own.filter(|own| !own.stated(namespace, name).is_empty())
    }

    /// Returns the nearest of the linted claims of a name.
    fn nearest(&self, namespace: &str, name: &str) -> Vec<&ClaimEntry> {
        self.linted
            .by_name
            .get(name)
            .map_or_else(Vec::new, |entries| entries.nearest(&self.file.path, namespace))
    }

    /// Returns the volumes of a name: from `--facts`, or else from the rendering, or else the nearest linted ones.
    fn volumes(&self, name: &str) -> Vec<&Volume> {
        let stated = self.facts.volumes(name);
        if !stated.is_empty() {
            return stated;
        }
        if let Some(own) = self.own.map(|own| own.volumes(name)).filter(|own| !own.is_empty()) {
            return own;
        }
        self.linted.volumes.get(name).map_or_else(Vec::new, |volumes| volumes.nearest(&self.file.path, ""))
    }

    /// Returns the location of a claim of this scope.
    pub(crate) fn location(&self, path: &Arc<str>, span: &Range<usize>) -> Option<Location> {
        [Some(self.facts), self.own, Some(self.linted)]
            .into_iter()
            .flatten()
            .find_map(|claims| claims.by_file.get(path)?.places.get(&(span.start, span.end)))
            .cloned()
    }
}

/// Returns the volume of the candidate claims; unknown if they differ.
fn volume<'e, 'v>(
    claims: impl IntoIterator<Item = &'e ClaimEntry>,
    seen: impl Fn(&str) -> Vec<&'v Volume>,
) -> Volume {
    let mut claims = claims.into_iter().map(|entry| entry.volume.as_ref());
    let first = claims.next().flatten();
    if !claims.all(|other| other == first) {
        return Volume::Unseen;
    }
    let Some(named) = first else { return Volume::OfCluster };
    match seen(&named.name).as_slice() {
        [first, rest @ ..] if rest.iter().all(|other| other.is_like(first)) => (*first).clone(),
        _ if named.by_author => Volume::Unseen,
        _ => Volume::OfCluster,
    }
}

/// Returns the claim that all candidates agree on; unknown if they differ.
fn agreed(entries: &[&ClaimEntry]) -> Fact<Claim> {
    match entries {
        [first, rest @ ..]
            if rest.iter().all(|entry| entry.claim.access_modes == first.claim.access_modes) =>
        {
            Fact::Known(first.claim.clone())
        }
        _ => Fact::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        for kind in FactKind::all().map(|kind| kind.definition().name).chain([VOLUME]) {
            assert!(is_mentioned(format!("kind: {kind}\n").as_bytes()), "{kind}");
        }
        assert!(!is_mentioned(b"kind: Job\n"));
        assert!(KINDS.len() < FactKind::all().count() + 1, "one word may be in several names");
    }
}

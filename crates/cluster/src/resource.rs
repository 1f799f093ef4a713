//! The resources that are looked up, and the part of each object that is kept.

use std::fmt::Debug;
use std::sync::Arc;

use serde::Deserialize;

use super::access::Modes;
use super::fetch;
use super::live::LookupKey;
use super::wire::{self, Metadata};
use crate::settings::Settings;
use jobgate_core::judge::facts::{FactDefinition, FactKind, Keeps};
use jobgate_core::kinds::{ApiResource, Kind};

/// A resource that is looked up.
pub(super) trait Resource: Send + Sync + 'static {
    /// The relevant fields of an object, as it comes from the API server.
    type Object<'a>: Deserialize<'a> + NamedObject;
    /// The part of an object that is kept.
    type Kept: Weigh + Clone + PartialEq + Debug + Send + Sync + 'static;

    /// Returns the part of an object that is kept.
    fn keep(place: &ResourcePlace, object: &Self::Object<'_>) -> Self::Kept;
}

/// An object with a name.
pub(super) trait NamedObject {
    fn metadata(&self) -> &Metadata<'_>;
}

impl NamedObject for wire::WireClaim<'_> {
    fn metadata(&self) -> &Metadata<'_> {
        &self.metadata
    }
}

impl NamedObject for wire::WireObject<'_> {
    fn metadata(&self) -> &Metadata<'_> {
        &self.metadata
    }
}

/// A value with a weight, which counts towards the limit of a cache.
pub(super) trait Weigh {
    fn weight(&self) -> usize;
}

/// The location of the objects of one resource, and the limits on keeping them.
#[derive(Clone, Debug)]
pub(super) struct ResourcePlace {
    pub(super) api: ApiResource,
    /// Their human-readable name.
    pub(super) title: &'static str,
    /// The part of each that is kept.
    pub(super) keeps: Keeps,
    /// Maximum weight of a cache.
    pub(super) most: usize,
    /// Maximum number of remembered answers about single objects.
    pub(super) answers: usize,
    /// Concurrent requests.
    pub(super) parallel: usize,
}

/// Maximum number of remembered answers about objects of one kind, each some hundred bytes, so that memory stays
/// bounded.
const MAX_ANSWERS: usize = 4096;
/// The same for those whose spec is kept, each of which may have [`MAX_SPEC_BYTES`].
const MAX_SPEC_ANSWERS: usize = 64;
/// Concurrent requests for these: few, as each answer may be as large as an object can be.
const PARALLEL_SPECS: usize = 4;
/// Maximum size of a spec that is kept; an object with a larger one is unknown. Hand-written runtimes have a few
/// thousand bytes.
const MAX_SPEC_BYTES: usize = 64 << 10;

impl ResourcePlace {
    /// Returns the place of the objects of a kind that rules look up.
    pub(super) fn from_facts(kind: FactKind, settings: &Settings) -> Self {
        let FactDefinition { resource, title, keeps, .. } = kind.definition();
        Self::new(resource, title, keeps, settings)
    }

    /// Returns the place of the parents of a kind, of which only the existence matters.
    pub(super) fn from_parents(kind: Kind, settings: &Settings) -> Self {
        // Where CronJobs are not served either, there is no parent.
        let resource = ApiResource { is_optional: true, ..ApiResource::from_kind(kind) };
        Self::new(resource, kind.resource, Keeps::Existence, settings)
    }

    fn new(api: ApiResource, title: &'static str, keeps: Keeps, settings: &Settings) -> Self {
        let most = if keeps == Keeps::AccessModes { settings.max_claims } else { settings.max_object_bytes };
        let (answers, parallel) = match keeps {
            Keeps::Spec => (MAX_SPEC_ANSWERS, PARALLEL_SPECS),
            Keeps::AccessModes | Keeps::Existence => (MAX_ANSWERS, settings.parallel),
        };
        Self { api, title, keeps, most, answers, parallel }
    }

    /// Returns the `Accept` header for a single object. A server that cannot send only the metadata sends the
    /// whole object.
    pub(super) fn accept(&self) -> &'static str {
        match self.keeps {
            Keeps::Existence => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            Keeps::AccessModes | Keeps::Spec => fetch::JSON,
        }
    }

    /// Returns the paths at which one object may be, the likeliest first: each further one is for a server
    /// that does not serve the previous one. The namespace and the name in the key are valid names, or the
    /// namespace is empty.
    pub(super) fn paths(&self, key: &LookupKey) -> Vec<String> {
        let LookupKey { namespace, name, version, .. } = key;
        let mut paths = vec![self.api.object(self.api.version, namespace, name)];
        if !version.is_empty() && version != self.api.version {
            paths.insert(0, self.api.object(version, namespace, name));
        }
        paths
    }
}

/// Claims; their access modes are kept.
#[derive(Debug)]
pub(super) enum ClaimResource {}

impl Resource for ClaimResource {
    type Object<'a> = wire::WireClaim<'a>;
    type Kept = Modes;

    fn keep(_place: &ResourcePlace, object: &wire::WireClaim<'_>) -> Modes {
        object.modes()
    }
}

impl Weigh for Modes {
    fn weight(&self) -> usize {
        1
    }
}

/// Objects of other kinds.
#[derive(Debug)]
pub(super) enum ObjectResource {}

/// What is kept of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeptObject {
    /// That it exists.
    Existence,
    /// Its spec as text, which takes a tenth of the memory of parsed values.
    Spec(Arc<str>),
    /// Nothing, since its spec is too large.
    Nothing,
}

impl Resource for ObjectResource {
    type Object<'a> = wire::WireObject<'a>;
    type Kept = KeptObject;

    fn keep(place: &ResourcePlace, object: &wire::WireObject<'_>) -> KeptObject {
        if place.keeps == Keeps::Existence {
            return KeptObject::Existence;
        }
        let spec = object.spec.map(|spec| spec.get()).filter(|spec| spec.len() <= MAX_SPEC_BYTES);
        spec.map_or(KeptObject::Nothing, |spec| KeptObject::Spec(spec.into()))
    }
}

impl Weigh for KeptObject {
    fn weight(&self) -> usize {
        /// Name, namespace, and the words of the entry.
        const REST: usize = 200;
        REST + match self {
            Self::Spec(spec) => spec.len(),
            Self::Existence | Self::Nothing => 0,
        }
    }
}

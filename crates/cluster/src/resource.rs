//! The resources that are looked up, and the part of each object that is kept.

use std::fmt::Debug;
use std::sync::Arc;

use serde::Deserialize;

use super::Settings;
use super::access::Modes;
use super::fetch;
use super::live::LookupKey;
use super::wire::{self, Metadata};
use jobgate_core::kinds::{ApiResource, Kind};

/// A resource that is looked up.
pub(super) trait Resource: Send + Sync + 'static {
    /// The relevant fields of an object, as it comes from the API server.
    type Object<'a>: Deserialize<'a> + NamedObject;
    /// The part of an object that is kept.
    type Kept: Weigh + Clone + PartialEq + Debug + Send + Sync + 'static;
    /// The `Accept` header for a single object.
    const ACCEPT: &'static str = fetch::JSON;

    fn keep(object: &Self::Object<'_>) -> Self::Kept;
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

impl NamedObject for wire::WireRuntime<'_> {
    fn metadata(&self) -> &Metadata<'_> {
        &self.metadata
    }
}

impl NamedObject for wire::WireIdentity<'_> {
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
    pub(super) name: &'static str,
    /// Maximum weight of a cache.
    pub(super) most: usize,
    /// Maximum number of remembered answers about single objects.
    pub(super) answers: usize,
    /// Concurrent requests.
    pub(super) parallel: usize,
}

/// Where claims are.
pub(super) const CLAIMS: ApiResource = ApiResource {
    group: "",
    version: "v1",
    name: "persistentvolumeclaims",
    cluster_scoped: false,
    is_optional: false,
};

/// Maximum number of remembered answers about claims, so that memory stays bounded.
const MAX_CLAIM_ANSWERS: usize = 4096;
/// The same for parents of one kind, each some hundred bytes.
const MAX_PARENT_ANSWERS: usize = 4096;
/// The same for runtimes, each of which may have [`MAX_RUNTIME_BYTES`].
const MAX_RUNTIME_ANSWERS: usize = 64;
/// Concurrent requests for runtimes: few, as each answer may be as large as an object can be.
const PARALLEL_RUNTIMES: usize = 4;
/// Maximum size of a runtime's spec that is kept; a larger one is unknown. Hand-written ones have a few
/// thousand bytes.
const MAX_RUNTIME_BYTES: usize = 64 << 10;

impl ResourcePlace {
    pub(super) fn of_claims(settings: &Settings) -> Self {
        Self {
            api: CLAIMS,
            name: "claims",
            most: settings.max_claims,
            answers: MAX_CLAIM_ANSWERS,
            parallel: settings.parallel,
        }
    }

    pub(super) fn of_runtimes(kind: Kind, settings: &Settings) -> Self {
        Self {
            api: ApiResource::of_kind(kind),
            name: kind.resource,
            most: settings.max_runtime_bytes,
            answers: MAX_RUNTIME_ANSWERS,
            parallel: PARALLEL_RUNTIMES,
        }
    }

    pub(super) fn of_parents(kind: Kind, settings: &Settings) -> Self {
        Self {
            // Where CronJobs are not served either, there is no parent.
            api: ApiResource { is_optional: true, ..ApiResource::of_kind(kind) },
            name: kind.resource,
            most: 0,
            answers: MAX_PARENT_ANSWERS,
            parallel: settings.parallel,
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

    fn keep(object: &wire::WireClaim<'_>) -> Modes {
        object.modes()
    }
}

impl Weigh for Modes {
    fn weight(&self) -> usize {
        1
    }
}

/// Training runtimes; their spec is kept.
#[derive(Debug)]
pub(super) enum RuntimeResource {}

/// The spec of a runtime as text, which takes a tenth of the memory of parsed values; `None` if it is too
/// large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuntimeSpec(pub(super) Option<Arc<str>>);

impl Resource for RuntimeResource {
    type Object<'a> = wire::WireRuntime<'a>;
    type Kept = RuntimeSpec;

    fn keep(object: &wire::WireRuntime<'_>) -> RuntimeSpec {
        RuntimeSpec(
            object.spec.map(|spec| spec.get()).filter(|spec| spec.len() <= MAX_RUNTIME_BYTES).map(Arc::from),
        )
    }
}

impl Weigh for RuntimeSpec {
    fn weight(&self) -> usize {
        /// Name, namespace, and the words of the entry.
        const REST: usize = 200;
        REST + self.0.as_ref().map_or(0, |spec| spec.len())
    }
}

/// Parents; only their existence is kept.
#[derive(Debug)]
pub(super) enum ParentResource {}

impl Resource for ParentResource {
    type Object<'a> = wire::WireIdentity<'a>;
    type Kept = ();
    /// Only the metadata. A server that does not support this sends the whole object.
    const ACCEPT: &'static str =
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

    fn keep(_object: &wire::WireIdentity<'_>) {}
}

impl Weigh for () {
    fn weight(&self) -> usize {
        1
    }
}

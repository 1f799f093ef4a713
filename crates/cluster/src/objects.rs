//! The look-up of objects other than claims.

use std::sync::{Arc, Mutex};

use futures::future::join_all;
use kube::Client;
use tokio::time::Instant;

use super::live::{Gate, Live, LookupKey, LookupReason, LookupResult};
use super::resource::{KeptObject, ObjectResource, ResourcePlace};
use super::stats::{Counts, Why};
use super::store::Standing;
use crate::claims::Claims;
use crate::fetch;
use crate::mirrored::Mirrored;
use crate::settings::{Mode, Settings};
use jobgate_core::judge::facts::{Fact, FactDefinition, FactKind, FactTable, FoundObject, WantedObject};
use jobgate_core::judge::finding::Source;
use jobgate_core::text::value::{Value, json};

/// Returns an object by the part of it that is kept.
pub(super) fn read(kind: FactKind, kept: &KeptObject) -> Fact<FoundObject> {
    let spec = match kept {
        KeptObject::Existence => Some(Value::Null),
        KeptObject::Spec(text) => serde_json::from_str::<Value>(text).ok(),
        KeptObject::Nothing => None,
    };
    let Some(spec) = spec else { return Fact::Unknown };
    let definition = kind.definition();
    let object =
        json!({"apiVersion": definition.resource.api_version(), "kind": definition.name, "spec": spec});
    FoundObject::from_object(&object, Source::Cluster).map_or(Fact::Unknown, Fact::Known)
}

/// The objects of one kind.
pub(super) struct ObjectLookup {
    kind: FactKind,
    live: Live<ObjectResource>,
    cache: Option<Mirrored<KeptObject>>,
}

impl ObjectLookup {
    /// Starts the look-up of each kind.
    pub(super) fn of_all_kinds(
        mode: Mode,
        client: &Client,
        settings: &Settings,
        gate: &Arc<Mutex<Gate>>,
    ) -> Vec<Self> {
        let of = |kind| {
            let place = ResourcePlace::from_facts(kind, settings);
            // Separate counts, as the metrics are about claims only.
            let counts = Arc::<Counts>::default();
            let mirrored = || {
                let (place, counts) = (place.clone(), Arc::clone(&counts));
                Mirrored::start::<ObjectResource>(client.clone(), settings, place, counts)
            };
            let cache = (mode == Mode::Cache).then(mirrored);
            let live = Live::new(client.clone(), settings.clone(), place, Arc::clone(gate), counts);
            Self { kind, live, cache }
        };
        FactKind::all().filter(|kind| *kind != FactKind::Claim).map(of).collect()
    }

    async fn look(&self, wanted: &WantedObject, until: Instant) -> LookupResult<KeptObject> {
        let WantedObject { namespace, name, .. } = wanted;
        let is_place = self.kind.definition().resource.cluster_scoped || fetch::is_name(namespace);
        if !is_place || !fetch::is_name(name) {
            return LookupResult::Absent;
        }
        let cached = self.cache.as_ref().map(|mirrored| &mirrored.cache);
        let standing = cached.map_or(Standing::Stale, |cache| cache.standing());
        let kept = cached.and_then(|cache| cache.get(namespace, name));
        let question = match (kept, standing) {
            (Some(kept), Standing::Current) => return LookupResult::Found(kept),
            (Some(_), _) => LookupReason::Confirming,
            (None, _) => LookupReason::Idle,
        };
        let key = LookupKey::named(namespace, name);
        match self.live.remembered(&key, question) {
            Some(looked) => looked,
            None => self.live.look(&key, question, until).await,
        }
    }
}

/// Returns a warning of an unknown object, if there is a reason to tell.
fn caveat(wanted: &WantedObject, why: Why) -> Option<String> {
    let FactDefinition { nouns: [noun, _], unchecked, .. } = wanted.kind.definition();
    let (name, reason) = (&wanted.name, why.explain()?);
    Some(format!("jobgate could not look up the {noun} {name} and did not check {unchecked} ({reason})"))
}

impl Claims {
    /// Returns the time by which the look-ups of a review with this deadline must end.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.0.settings.budget)
    }

    /// Returns the facts about objects other than claims, with the same limits as [`Claims::facts`].
    pub async fn objects(
        &self,
        wanted: impl IntoIterator<Item = &WantedObject>,
        deadline: Instant,
    ) -> FactTable {
        let until = self.until(deadline);
        let most = self.0.settings.requests_per_review;
        let looked = wanted.into_iter().enumerate().map(|(at, wanted)| async move {
            match self.0.objects.iter().find(|objects| objects.kind == wanted.kind) {
                Some(_) if at >= most => (wanted, LookupResult::Unknown(Why::TooMany)),
                Some(objects) => (wanted, objects.look(wanted, until).await),
                None => (wanted, LookupResult::Unknown(Why::Off)),
            }
        });
        let mut facts = FactTable::default();
        for (wanted, looked) in join_all(looked).await {
            let fact = match looked {
                LookupResult::Found(kept) => read(wanted.kind, &kept),
                LookupResult::Absent => Fact::Absent,
                LookupResult::Unknown(why) => {
                    facts.caveat = caveat(wanted, why).or(facts.caveat);
                    Fact::Unknown
                }
            };
            facts.objects.insert(wanted.clone(), fact);
        }
        facts
    }
}

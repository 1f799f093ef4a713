//! The look-up of training runtimes.

use std::sync::{Arc, Mutex};

use futures::future::join_all;
use kube::Client;
use tokio::time::Instant;

use super::live::{Gate, Live, LookupKey, LookupReason, LookupResult};
use super::resource::{self, ResourcePlace, RuntimeSpec};
use super::stats::{Counts, Why};
use super::store::Standing;
use super::{ClaimFacts, Claims, Mirrored, Mode, Settings, fetch};
use jobgate_core::judge::facts::{Fact, Runtime, WantedRuntime};
use jobgate_core::judge::finding::Source;
use jobgate_core::kinds::Kind;
use jobgate_core::text::value::{Value, json};

/// Parses a runtime from its kept spec.
pub(super) fn read(kind: Kind, spec: &RuntimeSpec) -> Fact<Runtime> {
    let Some(spec) = spec.0.as_ref().and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return Fact::Unknown;
    };
    let object = json!({"apiVersion": kind.api_version(), "kind": kind.name, "spec": spec});
    Runtime::from_object(&object, Source::Cluster).map_or(Fact::Unknown, Fact::Known)
}

/// The runtimes of one kind.
pub(super) struct RuntimeLookup {
    kind: Kind,
    live: Live<resource::RuntimeResource>,
    cache: Option<Mirrored<RuntimeSpec>>,
}

impl RuntimeLookup {
    pub(super) fn start(
        kind: Kind,
        mode: Mode,
        client: Client,
        settings: &Settings,
        gate: Arc<Mutex<Gate>>,
    ) -> Self {
        let place = ResourcePlace::of_runtimes(kind, settings);
        // Separate counts, as the metrics are about claims only.
        let counts = Arc::<Counts>::default();
        let cache = (mode == Mode::Cache).then(|| {
            Mirrored::start::<resource::RuntimeResource>(
                client.clone(),
                settings,
                place.clone(),
                Arc::clone(&counts),
            )
        });
        Self { kind, live: Live::new(client, settings.clone(), place, gate, counts), cache }
    }

    async fn look(&self, wanted: &WantedRuntime, until: Instant) -> LookupResult<RuntimeSpec> {
        let namespace = if self.kind.cluster_scoped { "" } else { &wanted.namespace };
        let is_place = self.kind.cluster_scoped || fetch::is_name(namespace);
        if !is_place || !fetch::is_name(&wanted.name) {
            return LookupResult::Absent;
        }
        let cached = self.cache.as_ref().map(|mirrored| &mirrored.cache);
        let standing = cached.map_or(Standing::Stale, |cache| cache.standing());
        let kept = cached.and_then(|cache| cache.get(namespace, &wanted.name));
        let question = match (kept, standing) {
            (Some(spec), Standing::Current) => return LookupResult::Found(spec),
            (Some(_), _) => LookupReason::Confirming,
            (None, _) => LookupReason::Idle,
        };
        let key = LookupKey::named(namespace, &wanted.name);
        match self.live.remembered(&key, question) {
            Some(looked) => looked,
            None => self.live.look(&key, question, until).await,
        }
    }
}

impl Claims {
    /// Returns the time by which the look-ups of a review with this deadline must end.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.0.settings.budget)
    }

    /// Returns the facts about runtimes, with the same time limit as [`Claims::facts`].
    pub async fn runtimes(&self, wanted: &[WantedRuntime], deadline: Instant) -> ClaimFacts {
        let until = self.until(deadline);
        let looked = wanted.iter().map(|wanted| async move {
            let kind = self.0.runtimes.iter().find(|runtimes| runtimes.kind.name == wanted.kind);
            match kind {
                Some(runtimes) => (wanted, Some(runtimes.kind), runtimes.look(wanted, until).await),
                None => (wanted, None, LookupResult::Unknown(Why::Off)),
            }
        });
        let mut facts = ClaimFacts::default();
        for (wanted, kind, looked) in join_all(looked).await {
            let fact = match (kind, looked) {
                (Some(kind), LookupResult::Found(spec)) => read(kind, &spec),
                (_, LookupResult::Absent) => Fact::Absent,
                (_, LookupResult::Unknown(why)) => {
                    facts.note_runtime(&wanted.name, why);
                    Fact::Unknown
                }
                (None, LookupResult::Found(_)) => Fact::Unknown,
            };
            facts.table.runtimes.insert(wanted.clone(), fact);
        }
        facts
    }
}

//! A cluster with the real operators in it, a scripted kubelet that runs their pods, and two Jobgates: the
//! webhooks of one are called before those of the operators, of the other after them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jobgate::text::value::{Value, json};

use crate::api::Api;
use crate::cluster::{Assets, Cluster};
use crate::gate::{Gate, Setup};
use crate::kubelet::Kubelet;
use crate::operator::{self, Installed, Operator};
use crate::packages::Packagers;
use crate::programs::Servers;
use crate::scenario::Place;

/// The label of the namespaces that a Jobgate looks after; its value is the name of the Jobgate.
const BESIDE: &str = "beside-operators";

/// Mutating webhooks are called in the order of the names of their configurations.
pub(crate) const ORDERS: [&str; 2] = ["aa-jobgate", "zz-jobgate"];

/// What the API server writes down: who wrote which batch object, what came of it, and who changed it on its
/// way.
const AUDIT: &str = r#"{
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "RequestResponse", "verbs": ["create", "update", "patch"],
            "resources": [
                {"group": "batch"}, {"group": "jobset.x-k8s.io"}, {"group": "trainer.kubeflow.org"},
                {"group": "kubeflow.org"}, {"group": "ray.io"}, {"group": "batch.volcano.sh"},
                {"group": "flow.volcano.sh"}, {"group": "leaderworkerset.x-k8s.io"}, {"group": "apps"}
            ]
        },
        {"level": "None"}
    ]
}"#;

/// The cluster, which starts when it is first needed.
pub(crate) struct Lazy {
    servers: Servers,
    found: OnceLock<(Vec<(&'static Operator, PathBuf)>, Packagers)>,
    ensemble: OnceLock<Result<Ensemble, String>>,
    starting: Mutex<()>,
}

impl Lazy {
    pub(crate) const fn new(servers: Servers) -> Self {
        Self { servers, found: OnceLock::new(), ensemble: OnceLock::new(), starting: Mutex::new(()) }
    }

    /// Finds the programs of operators, Helm and Kustomize, or says what is missing.
    pub(crate) fn find(&self) -> Result<(), String> {
        let found = (operator::folders()?, Packagers::find()?);
        self.found.get_or_init(|| found);
        Ok(())
    }

    pub(crate) fn get(&self) -> Result<&Ensemble, String> {
        if self.ensemble.get().is_none() {
            let (folders, packagers) = self.found.get().ok_or("the programs were not looked for")?;
            let _one = self.starting.lock();
            self.ensemble.get_or_init(|| {
                let assets = Assets::new(self.servers.folder()?);
                Ensemble::start(&assets, folders, packagers.clone())
            });
        }
        match self.ensemble.get() {
            Some(Ok(ensemble)) => Ok(ensemble),
            Some(Err(error)) => Err(format!("start the cluster of operators: {error}")),
            None => Err("the cluster of operators did not start".to_owned()),
        }
    }
}

/// The order of the fields is the order of their end.
pub(crate) struct Ensemble {
    pub(crate) kubelet: Kubelet,
    pub(crate) packagers: Packagers,
    gates: Mutex<BTreeMap<&'static str, Gate>>,
    /// The operators that run, with the folders of their programs.
    pub(crate) folders: Vec<(&'static Operator, PathBuf)>,
    installed: Vec<Installed>,
    pub(crate) api: Api,
    pub(crate) cluster: Cluster,
}

/// A write of a batch object, as the API server has written it down.
pub(crate) struct Write {
    pub(crate) user: String,
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) status: u64,
    pub(crate) stored: Value,
    annotations: Value,
}

impl Write {
    /// Tells whether a mutating webhook configuration was asked, and whether it changed the object; none if it
    /// was not asked.
    pub(crate) fn changed_by(&self, configuration: &str) -> Option<bool> {
        let annotations = self.annotations.as_object()?;
        let rounds =
            annotations.iter().filter(|(key, _)| key.starts_with("mutation.webhook.admission.k8s.io/"));
        let rounds = rounds.filter_map(|(_, text)| serde_json::from_str::<Value>(text.as_str()?).ok());
        rounds
            .filter(|round| round["configuration"] == configuration)
            .map(|round| round["mutated"] == true)
            .reduce(|all, one| all || one)
    }
}

impl Ensemble {
    fn start(
        assets: &Assets,
        folders: &[(&'static Operator, PathBuf)],
        packagers: Packagers,
    ) -> Result<Self, String> {
        let cluster = Cluster::audited(assets, AUDIT)?;
        let api = Api::admin(&cluster);
        let binders = folders.iter().filter_map(|(operator, _)| operator.scheduler()).map(|it| it.name);
        let kubelet = Kubelet::start(&api.handle(), api.client.clone(), binders);
        let installed = folders
            .iter()
            .map(|(operator, folder)| operator.install(&cluster, &kubelet, folder))
            .collect::<Result<Vec<_>, _>>()?;
        if folders.iter().any(|(operator, _)| operator.is_without_its_scheduler()) {
            kubelet.take_groups();
        }
        let folders = folders.to_vec();
        let ensemble = Self { kubelet, packagers, gates: Mutex::default(), folders, installed, api, cluster };
        for order in ORDERS {
            ensemble.start_gate(order)?;
        }
        Ok(ensemble)
    }

    fn start_gate(&self, order: &'static str) -> Result<(), String> {
        let setup = Setup {
            selector: json!({"matchLabels": {BESIDE: order}}),
            // As in production: what is down is in nobody's way.
            failure_policy: "Ignore",
            ..Setup::named(order)
        };
        let gate = Gate::start(&self.cluster, &setup)?;
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).insert(order, gate);
        Ok(())
    }

    /// Returns a new namespace, which the Jobgate of this order looks after.
    pub(crate) fn place(&self, order: &str) -> Place<'_> {
        let place = Place::new(&self.cluster, false);
        self.look_after(&place, order);
        place
    }

    /// Has a Jobgate look after a namespace, and waits until that is in force.
    pub(crate) fn look_after(&self, place: &Place<'_>, gate: &str) {
        let label = format!("{BESIDE}={gate}");
        self.cluster.admin.run(&["label", "namespace", &place.namespace, &label, "--overwrite"], "").ok();
        let in_force = || crate::gate::judged(&self.cluster, &place.namespace);
        crate::process::eventually(Duration::from_secs(40), in_force).expect("gate the namespace");
    }

    /// Returns the writes of batch objects of a namespace, in their order.
    pub(crate) fn writes(&self, namespace: &str) -> Vec<Write> {
        let text = fs::read_to_string(self.cluster.dir.path().join("audit.log")).expect("read the audit log");
        let events = text.lines().filter(|line| line.contains(namespace));
        let events = events.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let events = events.filter(|event| {
            event["objectRef"]["namespace"] == namespace && !text_of(&event["requestURI"]).contains("dryRun")
        });
        events
            .map(|event| {
                let reference = &event["objectRef"];
                Write {
                    user: text_of(
                        event.pointer("/impersonatedUser/username").unwrap_or(&event["user"]["username"]),
                    )
                    .to_owned(),
                    verb: text_of(&event["verb"]).to_owned(),
                    resource: text_of(&reference["resource"]).to_owned(),
                    name: text_of(
                        event.pointer("/responseObject/metadata/name").unwrap_or(&reference["name"]),
                    )
                    .to_owned(),
                    subresource: text_of(&reference["subresource"]).to_owned(),
                    status: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
                    stored: event["responseObject"].clone(),
                    annotations: event["annotations"].clone(),
                }
            })
            .collect()
    }

    /// Returns what operators and Jobgates printed last.
    pub(crate) fn logs(&self) -> String {
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let gates = gates.values().map(|gate| format!("the last that Jobgate printed:\n{}", gate.log()));
        self.installed.iter().map(Installed::log).chain(gates).collect::<Vec<_>>().join("\n")
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The scenarios share the two Jobgates; one that stops its own has one of its own.
pub(crate) fn own_gate(
    ensemble: &Ensemble,
    place: &Place<'_>,
    order: &str,
    policy: Option<PathBuf>,
) -> (Gate, Setup) {
    let name = ensemble.cluster.unique(order);
    let setup = Setup {
        selector: json!({"matchLabels": {BESIDE: name.clone()}}),
        failure_policy: "Ignore",
        policy,
        ..Setup::named(&name)
    };
    let gate = Gate::start(&ensemble.cluster, &setup).expect("start a Jobgate");
    ensemble.look_after(place, &name);
    (gate, setup)
}

/// Prints the logs when a scenario fails.
pub(crate) fn run(
    ensemble: &Arc<Lazy>,
    scenario: impl FnOnce(&Ensemble),
) -> Result<(), libtest_mimic::Failed> {
    let ensemble = ensemble.get()?;
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scenario(ensemble)));
    if let Err(panic) = outcome {
        eprintln!("{}", ensemble.logs());
        std::panic::resume_unwind(panic);
    }
    Ok(())
}

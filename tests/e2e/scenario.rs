//! One scenario: a name, a function, and a namespace to be in.

use std::time::Duration;

use jobgate::text::value::{Value, json};

use crate::cluster::{Cluster, GATED, Lazy};
use crate::gate::{filled, judged};
use crate::kubectl::Output;
use crate::process::eventually;

/// What a scenario needs beyond an API server.
#[derive(Clone, Copy)]
pub(crate) enum Needs {
    Nothing,
    /// kube-controller-manager.
    Controllers,
    /// The definitions of custom resources.
    CustomResources,
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    /// Whether the cluster's own Jobgate looks after the namespace from the start.
    pub(crate) gated: bool,
    pub(crate) run: fn(&Place<'_>),
}

impl Scenario {
    pub(crate) const fn new(name: &'static str, run: fn(&Place<'_>)) -> Self {
        Self { name, needs: Needs::Nothing, gated: true, run }
    }

    pub(crate) const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    /// Starts in a namespace that nobody looks after yet.
    pub(crate) const fn ungated(self) -> Self {
        Self { gated: false, ..self }
    }
}

/// A namespace, and people at work in it.
pub(crate) struct Place<'c> {
    pub(crate) cluster: &'c Cluster,
    pub(crate) namespace: String,
}

pub(crate) fn run(scenario: &Scenario, cluster: &Lazy) -> Result<(), libtest_mimic::Failed> {
    let cluster = cluster.get()?;
    let place = Place::new(cluster, scenario.gated);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (scenario.run)(&place)));
    if let Err(panic) = outcome {
        if let Some(gate) = &cluster.gate {
            eprintln!("the last that Jobgate printed:\n{}", gate.log());
        }
        std::panic::resume_unwind(panic);
    }
    Ok(())
}

impl<'c> Place<'c> {
    /// Returns a new namespace, which the cluster's own Jobgate looks after, or nobody.
    pub(crate) fn new(cluster: &'c Cluster, gated: bool) -> Self {
        let namespace = cluster.unique("team");
        let labels = if gated { json!({GATED: "yes"}) } else { json!({}) };
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}});
        cluster.admin.run(&["create", "-f", "-"], &object.to_string()).ok();
        Self { cluster, namespace }
    }

    /// Returns another namespace, which nobody looks after.
    pub(crate) fn beside(&self) -> Self {
        Self::new(self.cluster, false)
    }
}

impl Place<'_> {
    /// Runs kubectl in the namespace.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Output {
        self.with_input(arguments, "")
    }

    pub(crate) fn with_input(&self, arguments: &[&str], input: &str) -> Output {
        let mut all = vec!["-n", &self.namespace];
        all.extend(arguments);
        self.cluster.admin.run(&all, input)
    }

    pub(crate) fn create(&self, object: &Value) -> Output {
        self.with_input(&["create", "-f", "-"], &object.to_string())
    }

    pub(crate) fn create_as(&self, user: &str, object: &Value) -> Output {
        self.with_input(&["create", "--as", user, "-f", "-"], &object.to_string())
    }

    pub(crate) fn apply(&self, object: &Value) -> Output {
        self.with_input(&["apply", "-f", "-"], &object.to_string())
    }

    pub(crate) fn apply_server_side(&self, object: &Value) -> Output {
        self.with_input(&["apply", "--server-side", "-f", "-"], &object.to_string())
    }

    /// Replaces whatever version is stored. A controller may write the status between kubectl's look and its
    /// write; then kubectl is asked again.
    pub(crate) fn replace(&self, object: &Value) -> Output {
        let mut object = object.clone();
        drop(object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("resourceVersion")));
        let once = || self.with_input(&["replace", "-f", "-"], &object.to_string());
        let beaten = |output: &Output| output.stderr.contains("the object has been modified");
        (0..5).fold(once(), |output, _| if beaten(&output) { once() } else { output })
    }

    pub(crate) fn dry_run(&self, object: &Value) -> Output {
        self.with_input(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &object.to_string())
    }

    /// Patches; the kind of patch is `merge`, `strategic` or `json`.
    pub(crate) fn patch(&self, what: &str, kind: &str, patch: &Value) -> Output {
        self.kubectl(&["patch", what, "--type", kind, "-p", &patch.to_string()])
    }

    /// Returns a stored object.
    #[track_caller]
    pub(crate) fn stored(&self, what: &str) -> Value {
        self.kubectl(&["get", what, "-o", "json"]).json()
    }

    /// Tells whether an object is stored.
    pub(crate) fn is_stored(&self, what: &str) -> bool {
        self.kubectl(&["get", what]).success
    }

    /// Puts the namespace under the cluster's own Jobgate, and waits until that is in force: the API server
    /// knows namespaces by watches.
    pub(crate) fn gate(&self) {
        self.cluster.admin.run(&["label", "namespace", &self.namespace, &format!("{GATED}=yes")], "").ok();
        let in_force =
            || judged(self.cluster, &self.namespace).and_then(|()| filled(self.cluster, &self.namespace));
        eventually(Duration::from_secs(40), in_force).expect("gate the namespace");
    }
}

/// Fails the test unless the place in the object has the value; `null` stands for nothing.
#[track_caller]
pub(crate) fn is(object: &Value, pointer: &str, value: Value) {
    assert_eq!(object.pointer(pointer).unwrap_or(&Value::Null), &value, "{pointer} of {object:#}");
}

//! What `deploy/` renders to: `install.yaml`, the overlays by `kubectl kustomize`, the chart by Helm.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use jobgate::text::value::{Value, json};

use super::programs;

/// Objects, and where they come from.
pub struct Rendering {
    pub name: String,
    pub objects: Vec<Value>,
}

/// The overlays that install Jobgate.
pub const OVERLAYS: [&str; 5] = ["self-managed", "audit", "cert-manager", "fail-closed", "no-rbac"];

impl Rendering {
    /// Returns all objects of a kind.
    pub fn all<'a>(&'a self, kind: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let kind = kind.to_owned();
        self.objects.iter().filter(move |object| object["kind"] == kind.as_str())
    }

    /// Returns the only object of a kind.
    #[track_caller]
    pub fn the(&self, kind: &str) -> &Value {
        let mut all = self.all(kind);
        match (all.next(), all.next()) {
            (Some(object), None) => object,
            (None, _) => panic!("{}: no {kind}", self.name),
            _ => panic!("{}: several of {kind}", self.name),
        }
    }

    /// Returns the webhooks of both configurations.
    pub fn webhooks(&self) -> Vec<&Value> {
        let configurations = self.objects.iter().filter(|object| {
            object["kind"].as_str().is_some_and(|kind| kind.ends_with("WebhookConfiguration"))
        });
        configurations.flat_map(|object| object["webhooks"].as_array().expect("webhooks")).collect()
    }

    /// Returns what the pods are made from.
    pub fn pod(&self) -> &Value {
        &self.the("Deployment")["spec"]["template"]["spec"]
    }

    /// Returns the container's memory limit in MiB.
    pub fn memory_limit(&self) -> usize {
        let limit = self.pod()["containers"][0]["resources"]["limits"]["memory"].as_str().expect("a limit");
        limit.strip_suffix("Mi").expect("MiB").parse().expect("a number")
    }

    /// Returns the container's arguments.
    pub fn arguments(&self) -> Vec<&str> {
        self.pod()["containers"][0]["args"]
            .as_array()
            .expect("args")
            .iter()
            .map(|arg| arg.as_str().expect("text"))
            .collect()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn parse(name: &str, text: &str) -> Rendering {
    let documents = jobgate::text::yaml::documents(text.as_bytes())
        .map(|document| document.unwrap_or_else(|e| panic!("{name}: {e:?}")));
    let objects = documents
        .inspect(|document| assert!(document.duplicates().is_empty(), "{name}: a key stands twice"))
        .map(|document| document.value);
    Rendering { name: name.to_owned(), objects: objects.filter(|value| !value.is_null()).collect() }
}

/// Reads `install.yaml`.
pub fn install() -> Rendering {
    let text = std::fs::read_to_string(root().join("deploy/install.yaml")).expect("read install.yaml");
    parse("install.yaml", &text)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("run {command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Renders a folder below `deploy/` with `kubectl kustomize`; nothing, and a line that says so, where there is no
/// kubectl.
pub fn kustomize(folder: &Path) -> Option<Rendering> {
    let text = run(Command::new(had("the overlays", programs::kubectl())?)
        .arg("kustomize")
        .arg(root().join("deploy").join(folder)));
    Some(parse(&folder.display().to_string(), &text))
}

/// Returns a program, or says what is not tested without it.
fn had(what: &str, program: Result<PathBuf, String>) -> Option<PathBuf> {
    program.map_err(|why| programs::not_run(what, &why)).ok()
}

fn template(values: &Value) -> Option<Command> {
    let mut command = Command::new(had("the chart", programs::helm())?);
    command.args(["template", "jobgate"]).arg(root().join("deploy/helm/jobgate")).args([
        "--namespace",
        "jobgate",
        "--kube-version",
        "1.36.0",
    ]);
    for (key, value) in values.as_object().expect("values") {
        command.arg("--set-json").arg(format!("{key}={value}"));
    }
    Some(command)
}

/// Renders the chart; nothing, and a line that says so, where there is no Helm.
pub fn chart(values: &Value) -> Option<Rendering> {
    Some(parse(&format!("chart with {values}"), &run(&mut template(values)?)))
}

/// Tells whether Helm rejects the values; nothing where there is no Helm.
pub fn chart_refuses(values: &Value) -> Option<bool> {
    Some(!template(values)?.output().expect("run Helm").status.success())
}

/// Returns everything that installs Jobgate and can be rendered here. Says what cannot.
pub fn all() -> &'static [Rendering] {
    static ALL: OnceLock<Vec<Rendering>> = OnceLock::new();
    ALL.get_or_init(render)
}

fn render() -> Vec<Rendering> {
    let overlays = OVERLAYS.iter().filter_map(|overlay| kustomize(&Path::new("overlays").join(overlay)));
    let charts = [
        json!({}),
        json!({"policy": {"name": "audit"}}),
        json!({"policy": {"name": "strict"}}),
        json!({"certificates": {"mode": "cert-manager"}}),
        json!({"certificates": {"mode": "mounted"}, "claims": "off"}),
        json!({"webhooks": {"failClosedNamespaces": ["training"], "excludedNamespaces": ["sandbox"]}}),
    ];
    std::iter::once(install()).chain(overlays).chain(charts.iter().filter_map(chart)).collect()
}

//! Helm and Kustomize as people use them: a chart or an overlay around objects, installed and applied again.

use std::path::{Path, PathBuf};
use std::process::Command;

use jobgate::text::value::{Value, json};

use crate::operator::write;
use crate::programs;
use crate::scenario::Place;

/// The programs.
#[derive(Clone)]
pub(crate) struct Packagers {
    helm: PathBuf,
    kustomize: PathBuf,
}

impl Packagers {
    /// Finds or makes them, or says what is missing.
    pub(crate) fn find() -> Result<Self, String> {
        Ok(Self { helm: programs::helm()?, kustomize: programs::kustomize()? })
    }
}

/// How people write objects, the first time and again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    ClientSide,
    ServerSide,
    Kustomize,
    /// As Helm 4 does it by itself.
    Helm,
    /// As Helm 3 did it, with a three-way merge.
    HelmClientSide,
}

pub(crate) const WAYS: [Way; 5] =
    [Way::ClientSide, Way::ServerSide, Way::Kustomize, Way::Helm, Way::HelmClientSide];

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClientSide => "client",
            Self::ServerSide => "server",
            Self::Kustomize => "kustomize",
            Self::Helm => "helm",
            Self::HelmClientSide => "helm-client",
        }
    }

    /// Writes objects, and returns what went wrong.
    pub(crate) fn write(
        self,
        place: &Place<'_>,
        packagers: &Packagers,
        objects: &[Value],
    ) -> Result<(), String> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let applied = |flags: &[&str], input: &str| {
            let output = place.with_input(&[&["apply", "-f", "-"], flags].concat(), input);
            if output.success { Ok(()) } else { Err(output.to_string()) }
        };
        let folder = place.cluster.dir.path().join(format!("{}-{}", place.namespace, self.name()));
        match self {
            Self::ClientSide => applied(&[], &list),
            Self::ServerSide => applied(&["--server-side"], &list),
            Self::Kustomize => {
                let rendered = packagers.rendered(&folder, objects)?;
                applied(&[], &rendered)
            }
            Self::Helm | Self::HelmClientSide => packagers.upgrade(self, place, &folder, objects),
        }
    }
}

impl Packagers {
    /// Has Kustomize render objects with a label of its own.
    fn rendered(&self, folder: &Path, objects: &[Value]) -> Result<String, String> {
        let mut names = Vec::new();
        for (number, object) in objects.iter().enumerate() {
            let name = format!("object-{number}.yaml");
            write(&folder.join(&name), &object.to_string())?;
            names.push(name);
        }
        let labels = json!([{"pairs": {"team": "vision"}}]);
        write(
            &folder.join("kustomization.yaml"),
            &json!({"resources": names, "labels": labels}).to_string(),
        )?;
        ran(Command::new(&self.kustomize).arg("build").arg(folder))
    }

    /// Has Helm install or upgrade a chart that has the objects as its templates.
    fn upgrade(&self, way: Way, place: &Place<'_>, folder: &Path, objects: &[Value]) -> Result<(), String> {
        let chart = json!({"apiVersion": "v2", "name": "train", "version": "1.0.0"});
        write(&folder.join("Chart.yaml"), &chart.to_string())?;
        for (number, object) in objects.iter().enumerate() {
            write(&folder.join(format!("templates/object-{number}.yaml")), &object.to_string())?;
        }
        let home = place.cluster.dir.path().join("helm");
        let side = if matches!(way, Way::HelmClientSide) { "false" } else { "auto" };
        let mut command = Command::new(&self.helm);
        command
            .args(["upgrade", "--install", way.name()])
            .arg(folder)
            .args(["--namespace", &place.namespace, "--server-side", side])
            .arg("--kubeconfig")
            .arg(place.cluster.kubeconfig_of("admin"));
        for variable in ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, &home);
        }
        ran(&mut command).map(drop)
    }
}

/// Runs a program and returns what it prints.
fn ran(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("run {command:?}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{command:?}: {}", text(&output.stderr)))
    }
}

//! Programs that serve others until somebody stops them, by command and by image.

use crate::judge::commands::{Command, CommandLine, base_name, is_python};
use crate::kinds::Field;
use crate::text::meter;
use crate::text::shell::{SPREADS, UNKNOWN};

/// A program that serves others, and never ends by itself.
struct ServingProgram {
    /// What it is called, without its folder.
    programs: &'static [&'static str],
    /// Modules of Python that are it.
    modules: &'static [&'static str],
    /// Images whose entrypoint it is: how their repositories end.
    images: &'static [&'static str],
    /// Without one of these options or subcommands it is something else; empty if it needs none.
    needs: &'static [&'static str],
    /// With one of these it does something else, ends after a time, or can be asked to end.
    unless: &'static [&'static str],
    /// Whether others can always ask it to end.
    is_asked: bool,
}

const SERVER: ServingProgram =
    ServingProgram { programs: &[], modules: &[], images: &[], needs: &[], unless: &[], is_asked: false };

/// With one of these, any program ends at once.
const ENDS_AT_ONCE: [&str; 4] = ["V", "h", "help", "version"];

/// The servers, proxies and agents that are found beside batch work.
const SERVERS: &[ServingProgram] = &[
    ServingProgram {
        programs: &["tensorboard"],
        modules: &["tensorboard", "tensorboard.main"],
        needs: &["logdir", "logdir_spec"],
        unless: &["inspect", "version_tb"],
        ..SERVER
    },
    ServingProgram { programs: &["mlflow"], needs: &["server", "ui"], ..SERVER },
    ServingProgram { modules: &["http.server"], ..SERVER },
    // Without the option it goes on in the background, and the container ends.
    ServingProgram {
        programs: &["nginx"],
        needs: &["daemon off;", "daemon off"],
        unless: &["t", "T", "s"],
        ..SERVER
    },
    ServingProgram {
        programs: &["alloydb-auth-proxy", "cloud-sql-proxy", "cloud_sql_proxy"],
        images: &["/alloydb-auth-proxy", "/cloud-sql-proxy"],
        unless: &["completion", "quitquitquit", "shutdown", "wait"],
        ..SERVER
    },
    ServingProgram {
        programs: &["envoy"],
        images: &["/envoyproxy/envoy"],
        unless: &["hot-restart-version", "mode"],
        is_asked: true,
        ..SERVER
    },
    ServingProgram {
        programs: &["fluent-bit", "td-agent-bit"],
        images: &["/aws-for-fluent-bit", "/fluent-bit"],
        unless: &["D", "d", "daemon", "dry-run"],
        ..SERVER
    },
    ServingProgram {
        programs: &["fluentd"],
        images: &["/fluent/fluentd"],
        unless: &["d", "daemon", "dry-run", "s", "setup"],
        ..SERVER
    },
    ServingProgram {
        programs: &["filebeat"],
        unless: &["enroll", "export", "keystore", "modules", "once", "setup", "test"],
        ..SERVER
    },
    ServingProgram {
        programs: &["promtail"],
        images: &["/promtail"],
        unless: &["check-syntax", "dry-run", "inspect", "stdin"],
        ..SERVER
    },
    ServingProgram {
        programs: &["vector"],
        images: &["/timberio/vector"],
        unless: &[
            "completion",
            "convert-config",
            "generate",
            "generate-schema",
            "graph",
            "list",
            "tap",
            "test",
            "top",
            "validate",
            "vrl",
        ],
        ..SERVER
    },
    ServingProgram {
        programs: &["otelcol", "otelcol-contrib", "otelcol-k8s"],
        images: &[
            "/opentelemetry-collector",
            "/opentelemetry-collector-contrib",
            "/opentelemetry-collector-k8s",
        ],
        unless: &["components", "print-config", "v", "validate"],
        ..SERVER
    },
    ServingProgram {
        programs: &["prometheus", "pushgateway"],
        images: &["/prom/prometheus", "/prom/pushgateway", "/prometheus/prometheus"],
        unless: &["web.enable-lifecycle"],
        ..SERVER
    },
    ServingProgram {
        programs: &["dcgm-exporter", "node_exporter", "nvidia_gpu_exporter", "statsd_exporter"],
        images: &["/dcgm-exporter", "/node-exporter", "/statsd-exporter"],
        ..SERVER
    },
    ServingProgram { programs: &["oauth2-proxy", "oauth2_proxy"], images: &["/oauth2-proxy"], ..SERVER },
    ServingProgram { programs: &["dockerd", "dockerd-entrypoint.sh"], unless: &["validate"], ..SERVER },
    ServingProgram { programs: &["vllm"], needs: &["serve"], ..SERVER },
    ServingProgram { modules: &["vllm.entrypoints.openai.api_server"], ..SERVER },
];

/// How a container came to be a server that never ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Served {
    /// Whether others can always ask it to end.
    pub(super) is_asked: bool,
}

/// Tells whether a command is a server that never ends.
pub(super) fn serves(command: &Command) -> Option<Served> {
    if command.timeout {
        return None;
    }
    meter::spend(command.words.len() as u64);
    let mut words = command.words.iter().map(|word| word.word.text.as_str());
    let program = base_name(words.next()?);
    let is_module = is_python(program) && words.clone().next() == Some("-m");
    let module = is_module.then(|| words.nth(1)).flatten();
    let is_it = |server: &&ServingProgram| {
        module.map_or_else(|| server.programs.contains(&program), |module| server.modules.contains(&module))
    };
    SERVERS.iter().find(is_it)?.runs(words)
}

/// Tells whether a container without a command of its own is a server that never ends, by its image.
pub(super) fn is_image_of_server(line: &CommandLine<'_>) -> Option<Served> {
    if !line.is_of_image() {
        return None;
    }
    let Field::Set(image) = line.container.part.get("image").text() else { return None };
    meter::spend_text(image);
    let mut arguments = line.argv.iter().map(|item| &*item.text).peekable();
    let (repository, tag) = split(image);
    let path = format!("/{repository}");
    if let Some(server) = SERVERS.iter().find(|server| server.images.iter().any(|end| path.ends_with(end))) {
        // The first argument may be another command.
        let is_option = |word: &&str| word.starts_with('-') || word.contains(':');
        return arguments.peek().is_none_or(is_option).then(|| server.runs(arguments))?;
    }
    let is_official = |name: &str| repository == name || path.ends_with(&format!("/library/{name}"));
    let is_nginx = is_official("nginx") || path.ends_with("/nginxinc/nginx-unprivileged");
    let is_docker = is_official("docker") && (tag == "dind" || tag.ends_with("-dind"));
    (arguments.peek().is_none() && (is_nginx || is_docker)).then_some(Served { is_asked: false })
}

/// Returns the repository and the tag of an image.
fn split(image: &str) -> (&str, &str) {
    let image = image.split('@').next().unwrap_or_default();
    match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (image, ""),
    }
}

impl ServingProgram {
    /// Tells whether it serves with these words behind its name.
    fn runs<'w>(&self, words: impl Iterator<Item = &'w str>) -> Option<Served> {
        let (mut is_complete, mut takes_value) = (self.needs.is_empty(), false);
        for word in words {
            let is_option = word.starts_with('-');
            // What it stands for may be any option, unless it is the value of one.
            if word.starts_with([SPREADS, UNKNOWN]) && !takes_value {
                return None;
            }
            let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
            let is_one_of = |names: &[&str]| names.contains(&name);
            if is_one_of(self.unless) || is_one_of(&ENDS_AT_ONCE) {
                return None;
            }
            is_complete |= is_one_of(self.needs);
            takes_value = is_option && !word.contains('=');
        }
        is_complete.then_some(Served { is_asked: self.is_asked })
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::judge::commands::PodCommands;
    use crate::kinds::Workload;
    use crate::text::value::{Value, json};

    fn of<T>(container: &Value, read: impl FnOnce(&CommandLine<'_>) -> T) -> T {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"containers": [container]}}}});
        let workload = Workload::from_object(&job).expect("a Job");
        let commands = PodCommands::new(&workload, &workload.pods[0], &Rc::default());
        read(&commands.containers[0])
    }

    #[test]
    fn servers_are_known_by_their_commands() {
        let is_server = |script: &str| {
            of(&json!({"command": ["bash", "-c", script]}), |line| {
                line.commands.last().and_then(serves).is_some()
            })
        };
        for script in [
            "tensorboard --logdir=/logs",
            "tensorboard --logdir $LOGS --port 6006",
            "/usr/local/bin/tensorboard --logdir /logs",
            "python3 -m tensorboard.main --logdir /logs",
            "python -m http.server 8000",
            "python3 -m vllm.entrypoints.openai.api_server --model /m",
            "vllm serve /m",
            "mlflow server --host 0.0.0.0",
            "nginx -g 'daemon off;'",
            "cloud_sql_proxy -instances=a:b:c=tcp:5432",
            "cloud-sql-proxy a:b:c",
            "envoy -c /etc/envoy.yaml",
            "fluent-bit -c /etc/fluent-bit.conf",
            "promtail -config.file=/etc/promtail.yaml",
            "vector --config /etc/vector.yaml",
            "otelcol --config=/etc/otel.yaml",
            "prometheus --config.file=/etc/prometheus.yml",
            "dcgm-exporter",
            "dockerd",
        ] {
            assert!(is_server(script), "{script}");
        }
        for script in [
            "tensorboard",
            "tensorboard --inspect --logdir /logs",
            "tensorboard --logdir /logs --help",
            "python -m tensorboard.plugins",
            "python train.py --logdir=/logs",
            "vllm bench serve-latency",
            "mlflow run .",
            "nginx",
            "nginx -t -g 'daemon off;'",
            "cloud-sql-proxy wait",
            "cloud-sql-proxy --quitquitquit a:b:c",
            "envoy --mode validate -c /etc/envoy.yaml",
            "fluent-bit -V",
            "filebeat --once",
            "promtail --stdin",
            "promtail $OPTIONS",
            "vector validate /etc/vector.yaml",
            "otelcol validate --config=/etc/otel.yaml",
            "prometheus --web.enable-lifecycle",
            "node_exporter --version",
            "timeout 1h tensorboard --logdir=/logs",
        ] {
            assert!(!is_server(script), "{script}");
        }
    }

    #[test]
    fn servers_are_known_by_their_images() {
        let is_server = |image: &str, args: &[&str]| {
            let container = json!({"image": image, "args": args});
            of(&container, |line| is_image_of_server(line).is_some())
        };
        for (image, args) in [
            ("gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.14.0", &["--port=5432", "a:b:c"][..]),
            ("gcr.io/cloud-sql-connectors/cloud-sql-proxy@sha256:00", &["a:b:c"]),
            ("registry.example.com:5000/mirror/fluent-bit", &[]),
            ("prom/prometheus", &["--config.file=/a.yml"]),
            ("docker.io/library/nginx:1.27", &[]),
            ("nginx", &[]),
            ("docker:dind", &[]),
            ("docker:27.3-dind", &[]),
            ("timberio/vector:0.41.0-alpine", &[]),
        ] {
            assert!(is_server(image, args), "{image}");
        }
        for (image, args) in [
            ("gcr.io/cloud-sql-connectors/cloud-sql-proxy:2", &["wait"][..]),
            ("gcr.io/cloud-sql-connectors/cloud-sql-proxy:2", &["--quitquitquit", "a:b:c"]),
            ("fluent/fluent-bit:3", &["/bin/sh", "-c", "true"]),
            ("prom/prometheus", &["--web.enable-lifecycle"]),
            ("registry.example.com/vector:1", &[]),
            ("registry.example.com/team/nginx:1", &[]),
            ("nginx", &["nginx", "-t"]),
            ("docker:27", &[]),
            ("registry.example.com/my-fluent-bit:1", &[]),
            ("tensorflow/tensorflow", &[]),
        ] {
            assert!(!is_server(image, args), "{image} {args:?}");
        }
        let own = json!({"image": "fluent/fluent-bit:3", "command": ["/bin/true"]});
        assert_eq!(of(&own, is_image_of_server), None);
    }
}

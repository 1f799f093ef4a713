//! Manifests to start from: the template of a kind, filled in with the requested values.
//!
//! A kind's template (`crates/core/src/kinds/<kind>.starter.yaml`) is YAML with marks. `{{name}}` becomes a value. A
//! line `{?multi,!spot}text` is kept if all conditions hold; a line `{!multi}text` is an error if they do. `{{>part}}`
//! on a line of its own becomes a part, which is one of `PARTS` or follows a line `{{=part}}` at the end of the
//! template.

use crate::judge::spot;
use crate::k8s::cron::Schedule;
use crate::k8s::names;
use crate::kinds::{Kind, accelerator};

/// The requested values of a manifest.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The object's name.
    pub name: String,
    /// Its namespace.
    pub namespace: Option<String>,
    /// The image of its containers.
    pub image: String,
    /// How many nodes it uses, one pod on each.
    pub nodes: u32,
    /// How many accelerators each pod requests.
    pub gpus: u32,
    /// Their resource.
    pub resource: String,
    /// `activeDeadlineSeconds`.
    pub deadline: u64,
    /// The claim for checkpoints.
    pub claim: Option<String>,
    /// The provider whose spot nodes it uses.
    pub spot: Option<Spot>,
    /// The queue of Kueue.
    pub queue: Option<String>,
    /// The schedule of a CronJob.
    pub schedule: String,
}

/// Spot nodes of a provider, by what selects them (docs/internals/training.md#spot-nodes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Spot {
    /// Google Kubernetes Engine
    Gke,
    /// Managed node groups of Amazon EKS
    Eks,
    /// Node pools of Karpenter
    Karpenter,
    /// Azure Kubernetes Service
    Aks,
}

impl Spot {
    fn nodes(self) -> &'static spot::Spot {
        match self {
            Self::Gke => &spot::GKE,
            Self::Eks => &spot::EKS,
            Self::Karpenter => &spot::KARPENTER,
            Self::Aks => &spot::AKS,
        }
    }
}

/// Why there is no such manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A value that is not valid for its field.
    #[error("{what} `{value}` is not valid: {why}")]
    Invalid {
        /// What it is.
        what: &'static str,
        /// The value.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// The kind does not support what was requested.
    #[error("{0}")]
    Kind(String),
}

/// Parts of templates.
const PARTS: [(&str, &str); 6] = [
    ("namespace", "{?namespace}namespace: {{namespace}}"),
    ("queue", "{?queue}labels: {kueue.x-k8s.io/queue-name: {{queue}}}"),
    (
        "disruptions",
        "{?spot}# The loss of a node does not count against backoffLimit.
{?spot}podFailurePolicy:
{?spot}  rules:
{?spot}  - action: Ignore
{?spot}    onPodConditions: [{type: DisruptionTarget, status: \"True\"}]",
    ),
    (
        "scheduling",
        "{?spot}nodeSelector: {{{spotlabel}}: {{spotvalue}}}
{?tolerations}tolerations:
{?taint}- {key: {{taint}}, operator: Exists, effect: NoSchedule}
{?spottaint}- {key: {{spotlabel}}, operator: Exists, effect: NoSchedule}",
    ),
    (
        "container",
        "# Change these to what the program needs and a node has.
resources:
  requests: {cpu: \"{{cpu}}\", memory: {{memory}}Gi}
{?gpu}  limits: {memory: {{memory}}Gi, {{resource}}: {{gpus}}}
{?!gpu}  limits: {memory: {{memory}}Gi}
{?mounts}volumeMounts:
{?claim}- {name: checkpoints, mountPath: /checkpoints}
{?many}- {name: shm, mountPath: /dev/shm}",
    ),
    (
        "volumes",
        "{?mounts}volumes:
{?claim}- name: checkpoints
{?claim}  persistentVolumeClaim: {claimName: {{claim}}}
{?many}# The processes of a pod exchange data here; the default is 64 MiB.
{?many}- name: shm
{?many}  emptyDir: {medium: Memory, sizeLimit: {{shm}}Gi}",
    ),
];

/// Returns the kinds that have a template.
pub fn kinds() -> impl Iterator<Item = Kind> {
    Kind::all().filter(|kind| kind.starter.is_some())
}

/// Makes a manifest.
///
/// # Errors
/// A value is not valid, or the kind does not support what was requested.
pub fn manifest(kind: Kind, asked: &Asked) -> Result<String, Refused> {
    asked.check()?;
    let template = kind.starter.unwrap_or_default();
    let own = template.find("{{=").map(|at| template.split_at(at));
    let (body, part) = own.unwrap_or((template, ""));
    let part = part.strip_prefix("{{=").and_then(|part| part.split_once("}}\n"));
    let filling = Filling { values: asked.values(), conditions: asked.conditions(), own: part };
    let mut out = String::new();
    filling.write(body, "", &mut out)?;
    Ok(out)
}

/// A template's values, conditions and parts.
struct Filling<'f> {
    values: Vec<(&'static str, String)>,
    conditions: Vec<(&'static str, bool)>,
    own: Option<(&'f str, &'f str)>,
}

impl Filling<'_> {
    fn write(&self, text: &str, indent: &str, out: &mut String) -> Result<(), Refused> {
        for line in text.lines() {
            if let Some((conditions, message)) = line.strip_prefix("{!").and_then(|line| line.split_once('}'))
            {
                match self.hold(conditions) {
                    true => return Err(Refused::Kind(self.filled(message))),
                    false => continue,
                }
            }
            let mark = line.strip_prefix("{?").and_then(|line| line.split_once('}'));
            let (conditions, line) = mark.unwrap_or(("", line));
            if !self.hold(conditions) {
                continue;
            }
            let bare = line.trim_start();
            let indent = format!("{indent}{}", &line[..line.len() - bare.len()]);
            match bare.strip_prefix("{{>").and_then(|part| part.strip_suffix("}}")) {
                Some(part) => self.write(self.part(part), &indent, out)?,
                None => *out += &format!("{indent}{}\n", self.filled(bare)),
            }
        }
        Ok(())
    }

    fn part(&self, name: &str) -> &str {
        let all = PARTS.iter().copied().chain(self.own);
        all.filter(|(part, _)| *part == name).map(|(_, text)| text).next().unwrap_or_default()
    }

    /// Tells whether all conditions hold: names separated by commas, negated by a leading `!`.
    fn hold(&self, conditions: &str) -> bool {
        conditions.split(',').filter(|condition| !condition.is_empty()).all(|condition| {
            let (name, wanted) = match condition.strip_prefix('!') {
                Some(name) => (name, false),
                None => (condition, true),
            };
            self.conditions.contains(&(name, wanted))
        })
    }

    fn filled(&self, line: &str) -> String {
        let fill =
            |line: String, (name, value): &(&str, String)| line.replace(&format!("{{{{{name}}}}}"), value);
        self.values.iter().fold(line.to_owned(), fill)
    }
}

impl Asked {
    fn check(&self) -> Result<(), Refused> {
        let check = |what: &'static str, value: &str, errors: Vec<String>| match errors.into_iter().next() {
            Some(why) => Err(Refused::Invalid { what, value: value.to_owned(), why }),
            None => Ok(()),
        };
        check("the name", &self.name, names::dns_label_1035(&self.name))?;
        // Controllers add a role and a number to it.
        if self.name.len() > MAX_NAME_BYTES {
            let why = format!("pods are named after it, so it has at most {MAX_NAME_BYTES} characters here");
            return Err(Refused::Invalid { what: "the name", value: self.name.clone(), why });
        }
        for (what, value, check_name) in [
            ("the namespace", &self.namespace, names::dns_label as fn(&str) -> Vec<String>),
            ("the claim", &self.claim, names::dns_subdomain),
            ("the queue", &self.queue, names::dns_subdomain),
        ] {
            if let Some(value) = value {
                check(what, value, check_name(value))?;
            }
        }
        check("the resource", &self.resource, names::qualified_name(&self.resource))?;
        let is_image = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte);
        let image_errors = match !self.image.is_empty() && self.image.bytes().all(is_image) {
            true => Vec::new(),
            false => vec!["write it as REGISTRY/REPOSITORY:TAG".to_owned()],
        };
        check("the image", &self.image, image_errors)?;
        let schedule = Schedule::parse(&self.schedule).err().map(|error| error.to_string());
        let plain = self.schedule.contains(['"', '\\', '\n']).then(|| "it has quotes".to_owned());
        check("the schedule", &self.schedule, schedule.into_iter().chain(plain).collect())
    }

    fn taint(&self) -> Option<&'static str> {
        accelerator::taint_of(&self.resource, accelerator::TAINTS)
            .filter(|taint| self.gpus > 0 && *taint != accelerator::NO_TAINT)
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        let spot = self.spot.map(Spot::nodes);
        let spot_value = match spot.map_or("", |spot| spot.value) {
            // A label is a string.
            "true" => "\"true\"",
            value => value,
        };
        let processes = self.gpus.max(1);
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let claim = |text: &str| if self.claim.is_some() { text.to_owned() } else { String::new() };
        vec![
            ("name", self.name.clone()),
            ("namespace", text(&self.namespace)),
            ("image", self.image.clone()),
            ("nodes", self.nodes.to_string()),
            ("others", self.nodes.saturating_sub(1).to_string()),
            ("gpus", self.gpus.to_string()),
            ("resource", self.resource.clone()),
            ("processes", processes.to_string()),
            ("world", (u64::from(self.nodes) * u64::from(processes)).to_string()),
            ("retries", (3 * u64::from(self.nodes)).to_string()),
            ("deadline", self.deadline.to_string()),
            ("claim", text(&self.claim)),
            ("checkpoint", claim(", --checkpoint-dir=/checkpoints")),
            ("checkpointflag", claim(" --checkpoint-dir=/checkpoints")),
            ("queue", text(&self.queue)),
            ("schedule", self.schedule.clone()),
            ("taint", self.taint().unwrap_or_default().to_owned()),
            ("spotlabel", spot.map_or("", |spot| spot.label).to_owned()),
            ("spotvalue", spot_value.to_owned()),
            ("cpu", (8 * u64::from(processes)).to_string()),
            ("memory", (32 * u64::from(processes)).to_string()),
            ("shm", (4 * u64::from(processes)).to_string()),
        ]
    }

    fn conditions(&self) -> Vec<(&'static str, bool)> {
        let spot_taint = self.spot.is_some_and(|spot| spot.nodes().is_tainted);
        let taint = self.taint().is_some();
        let many = self.gpus > 1;
        vec![
            ("single", self.nodes <= 1),
            ("multi", self.nodes > 1),
            ("few", !many),
            ("many", many),
            ("gpu", self.gpus > 0),
            ("claim", self.claim.is_some()),
            ("mounts", self.claim.is_some() || many),
            ("spot", self.spot.is_some()),
            ("taint", taint),
            ("spottaint", spot_taint),
            ("tolerations", taint || spot_taint),
            ("namespace", self.namespace.is_some()),
            ("queue", self.queue.is_some()),
        ]
    }
}

/// Maximum bytes of a name, which leaves room for what controllers add to it.
const MAX_NAME_BYTES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::finding::{Finding, Level};
    use crate::local::lint::{self, Claims, Input, Options};

    /// Every combination of options that a kind has.
    fn matrix() -> impl Iterator<Item = (Kind, Asked)> {
        let asked = |nodes, gpus, claim: Option<&str>, spot, queue: Option<&str>| Asked {
            name: "train".to_owned(),
            namespace: Some("team-a".to_owned()),
            image: "registry.example.com/train:v1".to_owned(),
            nodes,
            gpus,
            resource: "nvidia.com/gpu".to_owned(),
            deadline: 86400,
            claim: claim.map(str::to_owned),
            spot,
            queue: queue.map(str::to_owned),
            schedule: "0 3 * * *".to_owned(),
        };
        let mut all = Vec::new();
        for kind in kinds() {
            for (nodes, gpus) in [(1, 0), (1, 1), (1, 8), (2, 1), (4, 8), (16, 0)] {
                for claim in [None, Some("checkpoints")] {
                    for spot in
                        [None, Some(Spot::Gke), Some(Spot::Eks), Some(Spot::Karpenter), Some(Spot::Aks)]
                    {
                        for queue in [None, Some("team-a")] {
                            all.push((kind, asked(nodes, gpus, claim, spot, queue)));
                        }
                    }
                }
            }
        }
        all.into_iter()
    }

    #[test]
    fn what_is_made_passes_every_rule() {
        let policy = crate::policies::builtin("strict").expect("a policy");
        let mut made = 0;
        for (kind, asked) in matrix() {
            let Ok(text) = manifest(kind, &asked) else { continue };
            made += 1;
            let input = Input::text("new.yaml", text.clone().into_bytes());
            let report = lint::lint(&[input], &policy, &Claims::default(), &Options::default()).report;
            // What a large job costs is said of every one, and what a lost pod or node does: notes.
            const OF_EVERY_ONE: [&str; 4] = [
                "accelerator-hours-bounded",
                "gang-restarts-together",
                "queue-eviction-ends",
                "spot-disruption-not-counted",
            ];
            let is_said =
                |finding: &Finding| finding.level == Level::Note && OF_EVERY_ONE.contains(&&*finding.rule);
            let found = report.findings.iter().filter(|located| !is_said(&located.finding));
            let found: Vec<_> = found.map(|located| &located.finding.message).collect();
            assert!(found.is_empty(), "{found:#?}\n{text}");
            assert!(!text.contains("{{") && !text.contains("{?"), "{text}");
        }
        assert!(made > 600, "{made}");
    }

    #[test]
    fn what_is_not_valid_is_refused() {
        let (kind, good) = matrix().next().expect("one");
        let refused = |change: fn(&mut Asked)| {
            let mut asked = good.clone();
            change(&mut asked);
            manifest(kind, &asked).expect_err("refused").to_string()
        };
        assert!(
            refused(|asked| asked.name = "Train!".into()).starts_with("the name `Train!` is not valid: ")
        );
        assert!(refused(|asked| asked.name = "a".repeat(41)).contains("at most 40 characters"));
        assert!(refused(|asked| asked.image = "a b".into()).contains("REGISTRY/REPOSITORY:TAG"));
        assert!(refused(|asked| asked.claim = Some("a: b".into())).starts_with("the claim"));
        assert!(refused(|asked| asked.schedule = "daily".into()).starts_with("the schedule"));
    }
}

//! Reports made by hand, for the tests of the formats.

use std::sync::Arc;

use crate::answer::Answered;
use crate::located::{Located, Location, Related};
use crate::object::ObjectId;
use crate::results::Report;
use crate::unjudged::{Reason, Unjudged};
use jobgate_core::admission::dry_run::{Predicted, Prediction};
pub(super) use jobgate_core::judge::checks::finding;
use jobgate_core::judge::engine::Operation;
use jobgate_core::judge::finding::{Finding, Fix, Level, Safety};
use jobgate_core::judge::policy::Policy;
use jobgate_core::text::lines::Lines;
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::{Value, json};

pub(super) const TRAIN: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: team-a
spec:
  parallelism: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: registry.example.com/trainer:v1
      volumes:
      - name: checkpoints
        persistentVolumeClaim:
          claimName: checkpoints
";

const CLAIMS: &str = "\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: checkpoints
spec:
  accessModes: [ReadWriteOnce]
  resources: {}
  resources: {requests: {storage: 1Ti}}
";

impl Report {
    /// Adds a file.
    pub(super) fn with(mut self, file: &str, source: &str) -> Self {
        self.sources.insert(Arc::from(file), Arc::new(source.to_owned()));
        self.files += 1;
        self
    }

    /// Returns the place of a part of a file, found by its text; what stands before a `|` is context.
    pub(super) fn location_of(&self, file: &str, needle: &str) -> Location {
        let (file, source) = self.sources.get_key_value(file).unwrap();
        let (context, needle) = needle.split_once('|').unwrap_or(("", needle));
        let start = source.find(&format!("{context}{needle}")).unwrap() + context.len();
        let span = start..start + needle.len();
        let lines = Lines::new(source.as_bytes());
        Location {
            file: file.clone(),
            start: lines.position(span.start),
            end: lines.position(span.end),
            span,
        }
    }

    /// Adds a finding about the sample Job at a place found by its text.
    pub(super) fn found(&mut self, file: &str, needle: &str, finding: Finding) -> &mut Located {
        let location = self.location_of(file, needle);
        let object = ObjectId {
            api_version: "batch/v1".to_owned(),
            kind: "Job".to_owned(),
            namespace: Some("team-a".to_owned()),
            name: Some("train".to_owned()),
        };
        self.findings.push(Located { object: Some(object.into()), ..Located::new(location, 0, finding) });
        self.findings.last_mut().unwrap()
    }
}

/// Returns a report with every kind of finding: filled, with places in two files, without an object.
pub(super) fn report() -> Report {
    let mut report = Report { documents: 3, objects: 1, ..Report::default() }
        .with("./jobs/train.yaml", TRAIN)
        .with("./volumes/claims.yaml", CLAIMS);
    let spec = Pointer::new(&["spec"]);
    let help = "add `spec.activeDeadlineSeconds` with the longest time a run may take";
    let mut deadline = finding("deadline", Level::Deny, spec.clone(), "the Job has no deadline", help);
    deadline.field(&spec / "activeDeadlineSeconds").at_key().fix =
        Some(Fix { ops: Vec::new(), safety: Safety::Unsafe });
    report.found("./jobs/train.yaml", "spec", deadline);
    let mut ttl = finding(
        "ttl-after-finished",
        Level::Note,
        spec.clone(),
        "a finished Job is never deleted",
        "the webhook adds `ttlSecondsAfterFinished: 86400`",
    );
    ttl.field(&spec / "ttlSecondsAfterFinished").at_key().fills = true;
    report.found("./jobs/train.yaml", "spec", ttl);
    let claim =
        Pointer::new(&["spec", "template", "spec", "volumes"]) / 0 / "persistentVolumeClaim" / "claimName";
    let message = "4 pods mount the claim `checkpoints`, which one node can mount";
    let help = "make the claim `ReadWriteMany`, or keep the pods on one node";
    let pods = report.location_of("./jobs/train.yaml", "parallelism");
    let modes = report.location_of("./volumes/claims.yaml", "ReadWriteOnce");
    let clash = finding("checkpoint-volume-access", Level::Deny, claim.clone(), message, help);
    let located = report.found("./jobs/train.yaml", "claimName: |checkpoints", clash);
    located.related = vec![
        Related { location: Some(pods), object: None, text: "so up to 4 pods run at once".into() },
        Related {
            location: Some(modes),
            object: Some("PersistentVolumeClaim team-a/checkpoints".to_owned()),
            text: "one node".into(),
        },
    ];
    let stand_in = finding("placeholder", Level::Note, claim, "`checkpoints` looks like a placeholder", "");
    report.found("./jobs/train.yaml", "claimName: |checkpoints", stand_in);
    let message = "duplicate key `resources`; kubectl drops the first";
    let double = report.found(
        "./volumes/claims.yaml",
        "resources",
        finding("duplicate-key", Level::Warn, Pointer::root(), message, "remove one"),
    );
    double.object = None;
    report
}

/// Returns the same report with what was not judged and what is held, as all commands may have it.
pub(super) fn all() -> Report {
    let mut report = report();
    let at = |report: &Report, needle: &str| Some(report.location_of("./jobs/train.yaml", needle));
    let id = |api_version: &str, kind: &str, name: &str| {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        Some(Arc::new(ObjectId { api_version, kind, namespace: None, name: Some(name.to_owned()) }))
    };
    let unjudged = [
        (at(&report, "apiVersion"), id("flyte.example.com/v1", "FlyteWorkflow", "sweep"), Reason::Kind),
        (at(&report, "claimName"), id("batch/v1", "Job", "train"), Reason::Claim("data".into())),
        (None, None, Reason::Unknown("cannot read the namespace `team-b`".into())),
    ];
    report.unjudged = unjudged
        .into_iter()
        .map(|(location, object, reason)| Unjudged {
            document: location.as_ref().map(|_| 0),
            location,
            object,
            reason,
        })
        .collect();
    for (namespace, team, deadline, gpus) in
        [("team-a", "vision", 3600, 8), ("team-a", "speech", 0, 4), ("", "", 7200, 1)]
    {
        let job = job(team, deadline, gpus);
        report.holdings.add(&job, namespace, &Policy::default());
    }
    report
}

/// Returns a Job of a team.
pub(super) fn job(team: &str, deadline: i64, gpus: i64) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": {"team": team}}, "spec": {
        "activeDeadlineSeconds": deadline,
        "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}}})
}

/// Returns an answer that says nothing else.
pub(super) fn predicted(outcome: Predicted) -> Prediction {
    Prediction {
        outcome,
        operation: if outcome == Predicted::Denied { Operation::Create } else { Operation::Update },
        findings: Vec::new(),
        suppressed: 0,
        skipped: None,
        doubt: None,
        patch: Vec::new(),
        edits: Vec::new(),
        admitted: None,
    }
}

/// Returns the same report of a dry run.
pub(super) fn answered() -> Report {
    let mut report = all();
    let object = report.findings[0].object.clone().unwrap();
    for (needle, outcome) in [("apiVersion", Predicted::Denied), ("spec", Predicted::Patched)] {
        let answer = predicted(outcome);
        let location = report.location_of("./jobs/train.yaml", needle);
        let source = (outcome == Predicted::Patched).then(|| "train/templates/job.yaml".to_owned());
        let operator_refuses = outcome == Predicted::Patched;
        let object = Arc::clone(&object);
        report.answers.push(Answered {
            location,
            document: 0,
            source,
            object,
            answer,
            operator_refuses,
            pods: Vec::new(),
        });
    }
    report
}

/// Returns a report with the sources and places that are hard to show.
pub(super) fn shapes() -> Report {
    let long = format!("args: [{}--flag, {}]\n", "\"aaaa bbbb\", ".repeat(60), "\"cccc dddd\", ".repeat(60));
    let json =
        format!("{{\"a\": \"{}\", \"kind\": \"Job\", \"b\": \"{}\"}}", "ä".repeat(9000), "ö".repeat(9000));
    let mut report = Report { documents: 9, objects: 1, ..Report::default() }
        .with("long.yaml", &long)
        .with("one-line.json", &json)
        .with("tabs.yaml", "a:\t\tx\n\tb:\ty # \u{1b}[31mred\u{1b}[0m \u{9b}1m\n")
        .with("crlf.yaml", "kind: Job\r\nspec:\r\n  a: 1\r\n")
        .with("wide.yaml", "name: \u{6f22}\u{5b57}\u{1F680} # \u{200b}zero\u{202e}width\nשלום: עולם\n")
        .with("evil\u{1b}]8;;http://x\u{7}name\n.yaml", "kind: Job\n")
        .with("end.yaml", "kind: Job\n")
        .with("empty.yaml", "");
    let deny = |message: &'static str| finding("deadline", Level::Deny, Pointer::root(), message, "fix it");
    for (file, needle) in [
        ("long.yaml", "--flag"),
        ("one-line.json", "\"kind\": |\"Job\""),
        ("tabs.yaml", "x"),
        ("tabs.yaml", "y"),
        ("crlf.yaml", "spec"),
        ("crlf.yaml", "spec:\r\n  |a: 1\r\n"),
        ("wide.yaml", "zero"),
        ("wide.yaml", "עולם"),
        ("evil\u{1b}]8;;http://x\u{7}name\n.yaml", "Job"),
        ("end.yaml", "kind: Job\n|"),
        ("end.yaml", "kind:| "),
        ("empty.yaml", ""),
    ] {
        report.found(file, needle, deny("escape \u{1b}[2J and\nline break \u{202e}"));
    }
    report.found("end.yaml", "Job", deny("no source at hand")).location.file = "gone.yaml".into();
    let cluster = Related {
        location: None,
        object: Some("PersistentVolumeClaim team-a/data".to_owned()),
        text: "`ReadWriteOnce`".into(),
    };
    report.found("end.yaml", "Job", deny("a place in the cluster")).related.push(cluster);
    report
}

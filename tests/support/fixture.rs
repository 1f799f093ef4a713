//! The fixtures of the rules; see `tests/rules/main.rs` for their form.

use std::path::{Path, PathBuf};

use jobgate::judge::facts::{Claim, Fact, FactTable, Runtime, WantedRuntime};
use jobgate::judge::finding::{Finding, Source};
use jobgate::judge::policy::Policy;
use jobgate::judge::rule::Rule;
use jobgate::kinds::Kind;
use jobgate::text::value::Value;

/// One fixture, read.
pub struct Fixture {
    /// The file's name without ending.
    pub case: String,
    /// The file.
    pub path: PathBuf,
    /// All objects of the file, list items included.
    pub objects: Vec<Value>,
    /// The claims and runtimes among them.
    pub facts: FactTable,
    /// The policy.
    pub policy: Policy,
    /// What must be found, sorted.
    pub expected: Vec<String>,
}

/// Returns the folder of a rule's fixtures.
pub fn folder(rule: &Rule) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules").join(rule.file())
}

/// Returns the fixtures of a rule, by name.
pub fn of_rule(rule: &Rule) -> Vec<Fixture> {
    let folder = folder(rule);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("read {}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder entry").path()).collect();
    paths.sort();
    let case = |path: &PathBuf| Some(path.file_name()?.to_str()?.strip_suffix(".yaml")?.to_owned());
    let cases =
        paths.iter().filter_map(|path| Some((case(path)?, path))).filter(|(case, _)| !case.contains('.'));
    cases.map(|(case, path)| read(rule, case, path)).collect()
}

fn read(rule: &Rule, case: String, path: &Path) -> Fixture {
    let source = std::fs::read_to_string(path).expect("a readable fixture");
    let expected = expected(&source);
    assert!(!expected.is_empty(), "{}: no `# expect:` line", path.display());
    let expected: Vec<String> = expected.into_iter().filter(|line| line != "nothing").collect();
    let is_named = |id: &str| id == rule.id || expected.iter().any(|line| line.split(' ').nth(1) == Some(id));
    let mut objects = Vec::new();
    for document in jobgate::text::yaml::documents(source.as_bytes()) {
        let document = document.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        match document.value.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(document.value),
        }
    }
    let mut facts = FactTable::default();
    for object in objects.iter().filter(|object| object["kind"] == "PersistentVolumeClaim") {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(claim) = Claim::from_object(object, Source::Cluster) {
            facts.claims.insert((text("/metadata/namespace"), text("/metadata/name")), Fact::Known(claim));
        }
    }
    for object in objects.iter().filter(|object| Kind::of(object).is_some()) {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(runtime) = Runtime::from_object(object, Source::Cluster) {
            let wanted = WantedRuntime {
                kind: text("/kind"),
                namespace: text("/metadata/namespace"),
                name: text("/metadata/name"),
            };
            facts.runtimes.insert(wanted, Fact::Known(runtime));
        }
    }
    let policy = match std::fs::read_to_string(path.with_extension("policy.yaml")) {
        Ok(source) => Policy::parse(&source, "policy.yaml")
            .unwrap_or_else(|errors| panic!("{}: {errors}", path.display())),
        Err(_) => Policy::default(),
    };
    let policy = policy.with_only(is_named);
    Fixture { case, path: path.to_owned(), objects, facts, policy, expected }
}

fn expected(source: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        source.lines().filter_map(|line| line.strip_prefix("# expect: ")).map(str::to_owned).collect();
    lines.sort();
    lines
}

impl Fixture {
    /// Returns the objects that Jobgate judges.
    pub fn workloads(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(|object| Kind::of(object).is_some())
    }
}

/// Returns findings in the form of the `# expect:` lines.
pub fn lines(object: &Value, findings: &[Finding]) -> Vec<String> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    findings
        .iter()
        .map(|finding| format!("{} {} {name} {}", finding.level.as_str(), finding.rule, finding.path))
        .collect()
}

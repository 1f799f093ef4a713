//! The fixtures of the rules; see `tests/rules/main.rs` for their form.

use std::path::{Path, PathBuf};

use jobgate::judge::facts::{FactKind, FactTable, WantedObject};
use jobgate::judge::finding::Finding;
use jobgate::judge::policy::Policy;
use jobgate::judge::rule::Rule;
use jobgate::kinds::Kind;
use jobgate::local::cases::{self, Case, Paths};
use jobgate::report::ObjectId;
use jobgate::text::value::Value;

/// One fixture, read.
pub struct Fixture {
    /// The file's name without ending.
    pub case: String,
    /// What the library reads of it.
    pub read: Case,
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
    let found = cases::find(&[folder(rule)]);
    assert_eq!(found.problems, [], "every file belongs to a case");
    found.cases.iter().map(read).collect()
}

fn read(paths: &Paths) -> Fixture {
    let read = Case::load(paths).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(read.asserts_nothing(), None);
    let (case, path) = (paths.name(), paths.case.as_path());
    let expected = read.expectations.lines.clone();
    let mut objects = Vec::new();
    for document in jobgate::text::yaml::documents(&read.source) {
        let document = document.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        match document.value.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(document.value),
        }
    }
    let mut facts = FactTable::default();
    for object in &objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if let Some(kind) = FactKind::from_object(object) {
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
            facts.enter(WantedObject::new(kind, namespace, name), Some(object));
        }
    }
    let policy = read.narrowed(read.policy.clone().unwrap_or_default());
    Fixture { case, path: path.to_owned(), objects, facts, policy, expected, read }
}

impl Fixture {
    /// Returns the objects that Jobgate judges.
    pub fn workloads(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(|object| Kind::from_object(object).is_some())
    }
}

/// Returns findings in the form of the `# expect:` lines.
pub fn lines(object: &Value, findings: &[Finding]) -> Vec<String> {
    let object = ObjectId::from_object(object);
    let line = |finding: &Finding| cases::line(finding.level, &finding.rule, Some(&object), &finding.path);
    findings.iter().map(line).collect()
}

//! What the fuzz targets hold every input to, held here to the inputs that they start from: those of the
//! project, and the shared ones where they are (`JOBGATE_SHARED`, else `../shared`).
//!
//! `.ci/fuzz` starts from the same: with `JOBGATE_FUZZ_CORPUS` set to a folder, the inputs are written there,
//! a folder for each target, and not run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::support::shared;
use jobgate::k8s::cron::load_location;
use jobgate::kinds::Kind;
use jobgate::text::value::{Value, json};
use jobgate::text::yaml;

/// The largest file that is an input: of larger ones libFuzzer makes less in the same time.
const MAX_SEED_BYTES: u64 = 6 << 10;

/// The largest manifest that is an input: it is read again for each fix.
const MAX_MANIFEST_BYTES: usize = 3 << 10;

/// Specs of policies: each key there is, and what is wrong with some.
const POLICIES: [&str; 8] = [
    "{rules: {deadline: {action: warn, params: {suggestion: 3600, cap: 7200, kueue: true}}}}",
    "{rules: {gpu-toleration: {action: fill, params: {taints: {nvidia.com/gpu: a, 'amd.com/*': b}}}, ttl-after-finished: {action: ignore}}}",
    "{rules: {checkpoint-volume-access: {action: deny, params: {words: [ckpt, checkpoint]}}, restart-policy: , pod-replacement-policy: {}}}",
    "\n  overrides:\n  - match: {namespaces: ['team-*'], kinds: [Job, CronJob], names: ['{a,b}*', '[!x]'], labels: {app: train}, accelerators: true}\n    rules: {deadline: {action: ignore}}",
    "\n  exemptions:\n  - match: {kinds: [PyTorchJob]}\n    rules: [deadline, restart-policy]\n    reason: because\n    until: 2030-12-31\n  optOut: denials",
    "{optOut: none, trustedControllers: [me, 'system:serviceaccount:a:b'], exemptions: [{match: {accelerators: true}, reason: all}]}",
    "{rulez: {}, rules: {dedline: {}, deadline: {action: denny, params: {suggestion: -1, x: y}}}, overrides: [{rules: }], exemptions: 1}",
    "{exemptions: [{match: {names: ['[']}, rules: [x], until: 2030-13-01}], optOut: [], trustedControllers: {a: b}, optOut: all}",
];

/// Bytes behind an input that draw operations. Where they differ, so do the operations.
const DRAWS: [&[u8]; 4] = [
    b"",
    b"\x01\x07\x00\x08\x09\x05",
    b"\x03\x20\x01\x01\x44\x02\x05\x30\x00\x10\x09\x09\x05",
    b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8",
];

/// Returns the files of a folder and those below it, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("read {}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            match path.metadata() {
                Ok(data) if data.is_dir() => open.push(path),
                Ok(data) if data.len() <= MAX_SEED_BYTES => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Returns the texts of files below folders of the project and of the shared data.
fn texts(own: &[&str], others: &[&str]) -> Vec<Vec<u8>> {
    let own = own.iter().map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let folders: Vec<PathBuf> = own.chain(others.iter().filter_map(|folder| shared::path(folder))).collect();
    folders
        .iter()
        .flat_map(|folder| files(folder))
        .map(|path| std::fs::read(path).expect("a readable file"))
        .collect()
}

/// Returns the rows of a table of answers of Kubernetes' own code.
fn rows(table: &str) -> Vec<Value> {
    let text = shared::path(table)
        .map(|path| std::fs::read_to_string(path).expect("a readable table"))
        .unwrap_or_default();
    text.lines().map(|row| serde_json::from_str(row).expect("a row")).collect()
}

/// Returns the objects that Jobgate judges in the fixtures of its rules.
fn objects() -> Vec<Value> {
    let fixtures = texts(&["tests/rules"], &[]);
    let documents = fixtures.iter().flat_map(|text| yaml::documents(text)).filter_map(Result::ok);
    documents.map(|document| document.value).filter(|value| Kind::from_object(value).is_some()).collect()
}

/// Returns an input with bytes that draw operations; which ones, its number decides.
fn drawn(number: usize, mut input: Vec<u8>) -> Vec<u8> {
    input.push(0);
    input.extend_from_slice(DRAWS[number % DRAWS.len()]);
    input
}

fn cron() -> Vec<Vec<u8>> {
    let own = [
        "*/5 1-3,7 ? jan-dec/2 MON",
        "@every 1h2m3.5s",
        "@weekly",
        "TZ=Europe/Berlin 30 2 * * *",
        "0 0 29 2 *",
        "0 0 31 2 1",
    ];
    let rows = rows("oracles/cron.jsonl");
    let schedules = rows.iter().filter_map(|row| row["schedule"].as_str()).chain(own);
    // Zones whose clocks change at midnight, by half an hour, or by a whole day.
    let zones = [
        "",
        "UTC",
        "Europe/Berlin",
        "America/Sao_Paulo",
        "America/Havana",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Asia/Beirut",
    ];
    assert!(zones.iter().all(|zone| load_location(zone).is_ok()));
    let starts = [1_769_903_970_i64, 0, -86_399, 1_325_239_200, 1_540_695_600, 253_402_207_200];
    let inputs = schedules.enumerate();
    inputs
        .map(|(number, text)| {
            format!("{text}\n{}\n{}", zones[number % zones.len()], starts[number % starts.len()]).into_bytes()
        })
        .collect()
}

fn quantity() -> Vec<Vec<u8>> {
    let rows = rows("oracles/quantity.jsonl");
    let own = [
        "500m",
        "1.5Gi",
        "2",
        "1e3",
        "-0.0001Ki",
        "12345678901234567890123",
        "9Ei",
        "1E",
        "0x1",
        ".",
        "1e-999999999",
    ];
    let texts: Vec<&str> = rows.iter().filter_map(|row| row["input"].as_str()).chain(own).collect();
    texts
        .iter()
        .zip(texts.iter().cycle().skip(7))
        .map(|(first, second)| format!("{first}\n{second}").into_bytes())
        .collect()
}

/// Returns the scripts of the fixtures, and some with what those do not have.
fn script() -> Vec<Vec<u8>> {
    let own = [
        "if a; then b; elif c; then d; else e; fi",
        "while true; do a $A \"$B\"; done & for i in 1 2; do b; break; done",
        "for ((;;)); do a; done; case $A in (a|b) c;; *) d;& esac",
        "f() { local x=$1; eval $x; }; function g { ( f ); }; g",
        "A=1 B=(1 2); A+=2; export C=$A; c ${A:-${B:=x}} $((A + 1)) `d` $'e\\'f'",
        "cat <<E | tee -a x 2>&1 <<-'F'\na\nE\n\tb\n\tF\n[[ -n $A && ( x =~ ^(a|b)$ ) ]] && ((A++))",
        "set -euo pipefail; ! a | b |& c || exec d >(e) <(f) <NODES> {{ .Values.x }} {a,b}{1..3} [a-z]* ~/x \\\n g",
        "x $(y $(z \"$(w)\"))\nbash -c 'a; \"b\"' # c",
    ];
    let mut found: Vec<Vec<u8>> = own.iter().map(|script| script.as_bytes().to_vec()).collect();
    let mut open = objects();
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) if text.contains(['\n', ';', '|', '&', '$']) => {
                found.push(text.as_bytes().to_vec());
            }
            Value::Array(items) => open.extend(items),
            Value::Object(entries) => open.extend(entries.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
    found
}

fn policy() -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = texts(&["policies", "tests/rules"], &[]);
    found.retain(|text| {
        text.starts_with(b"apiVersion: jobgate.dev/")
            || memchr::memmem::find(text, b"\nkind: Policy").is_some()
    });
    // Each block of the manual that is a policy.
    let readme = include_str!("../../README.md").split("```").filter(|block| block.contains("kind: Policy"));
    found.extend(readme.map(|block| block.trim_start_matches("yaml").as_bytes().to_vec()));
    found.extend(POLICIES.map(|spec| {
        format!("apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: a}}\nspec: {spec}\n")
            .into_bytes()
    }));
    found
}

fn patch() -> Vec<Vec<u8>> {
    let documents = rows("oracles/jsonpatch.jsonl").into_iter().map(|mut row| row["doc"].take());
    let all = documents.chain(objects()).flat_map(|object| [object.clone(), object]);
    all.enumerate().map(|(number, object)| drawn(number, object.to_string().into_bytes())).collect()
}

fn yaml_edit() -> Vec<Vec<u8>> {
    let mut all = texts(&["tests/rules", "policies"], &["corpus-edge", "corpus-templated", "corpus"]);
    all.retain(|text| text.len() <= MAX_MANIFEST_BYTES);
    all.into_iter().enumerate().map(|(number, text)| drawn(number, text)).collect()
}

fn review() -> Vec<Vec<u8>> {
    let review = |(number, object): (usize, Value)| {
        let adapter = Kind::from_object(&object)?;
        let (group, version) = object["apiVersion"].as_str()?.split_once('/')?;
        let update = number % 3 == 0;
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": format!("uid-{number}"), "kind": {"group": group, "version": version, "kind": adapter.name},
            "name": object["metadata"]["name"], "namespace": "team-a", "operation": if update { "UPDATE" } else { "CREATE" },
            "userInfo": {"username": "ada"}, "oldObject": if update { object.clone() } else { Value::Null }, "object": object,
        }});
        Some(review.to_string().into_bytes())
    };
    let mut found = texts(&[], &["reviews", "reviews-kinds"]);
    found.extend(objects().into_iter().enumerate().filter_map(review));
    // In a part that is passed over, what cannot be read: found by fuzzing.
    for status in [r#"{"\ud800": 1}"#.to_owned(), "[".repeat(200) + &"]".repeat(200)] {
        let status = format!("\"status\":{status},\"spec\":");
        let odd = found
            .iter()
            .take(5)
            .map(|body| String::from_utf8_lossy(body).replacen("\"spec\":", &status, 1).into_bytes());
        let odd: Vec<Vec<u8>> = odd.collect();
        found.extend(odd);
    }
    found
}

/// Runs the inputs of a target, or writes them where the fuzzer reads them.
fn run(target: &str, inputs: Vec<Vec<u8>>, law: fn(&[u8])) {
    assert!(inputs.len() >= 5, "{target}: only {} inputs", inputs.len());
    if let Some(corpus) = std::env::var_os("JOBGATE_FUZZ_CORPUS") {
        let folder = Path::new(&corpus).join(target);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (number, input) in inputs.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:04}")), input).expect("a file");
        }
        return;
    }
    for input in &inputs {
        if catch_unwind(AssertUnwindSafe(|| law(input))).is_err() {
            panic!("{target}: {:?}", String::from_utf8_lossy(input));
        }
    }
}

#[test]
fn schedules() {
    run("cron", cron(), crate::laws::cron::check);
}

#[test]
fn quantities() {
    run("quantity", quantity(), crate::laws::quantity::check);
}

#[test]
fn scripts() {
    run("script", script(), crate::laws::script::check);
}

#[test]
fn policies() {
    run("policy", policy(), crate::laws::policy::check);
}

#[test]
fn operations() {
    run("patch", patch(), crate::laws::patch::check);
}

#[test]
fn manifests() {
    run("yaml_edit", yaml_edit(), crate::laws::yaml_edit::check);
}

#[test]
fn reviews() {
    run("review", review(), crate::laws::review::check);
}

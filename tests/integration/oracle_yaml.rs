//! Reading YAML and JSON against kubectl's own decoder, and against the hand-made edge cases.

use base64::Engine as _;
use jobgate::text::value::Value;
use jobgate::text::yaml::{self, SyntaxError};

use crate::support::shared;

/// Rows where we differ on purpose.
const DIFFERENT: &[(&str, &str)] = &[(
    "deepmapflow1000",
    "kubectl nests to 10,000 levels, we stop at 127, which is what serde_json reads in the webhook",
)];

/// Reads a source as kubectl would: the values before the first error, and that error.
fn read(source: &[u8]) -> (Vec<Value>, Option<SyntaxError>) {
    let mut values = Vec::new();
    let mut end = None;
    for document in yaml::documents(source) {
        let (document, error) = match document {
            Ok(document) => (
                document.value,
                document.refused.map(|error| (error, document.span.clone())).ok_or(document.span),
            ),
            Err(error) => return (values, Some(error)),
        };
        match error {
            Ok((error, _)) => {
                // kubectl meets a bad separator while it still collects the document before it.
                if end == Some(error.span.start) {
                    values.pop();
                }
                return (values, Some(error));
            }
            Err(span) => {
                values.push(document);
                end = Some(span.end);
            }
        }
    }
    (values, None)
}

/// Compares values as JSON does: `1` and `1.0` are the same number.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => ours == theirs,
    }
}

#[test]
fn oracle_kubectl() {
    let Some(shared) = shared::path("") else { return };
    let table = std::fs::read_to_string(shared.join("oracles/yaml.jsonl")).unwrap();
    let mut failed = Vec::new();
    let mut rows = 0;
    for line in table.lines() {
        let Ok(row) = serde_json::from_str::<Value>(line) else {
            // The one row that serde_json itself cannot read back is the one that nests too deep.
            assert!(line.contains("deepmapflow"), "{line}");
            continue;
        };
        rows += 1;
        let name = row["name"].as_str().unwrap();
        if DIFFERENT.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let input = match row["input_base64"].as_str() {
            Some(text) => base64::engine::general_purpose::STANDARD.decode(text).unwrap(),
            None => row["input"].as_str().unwrap().as_bytes().to_vec(),
        };
        let (values, error) = read(&input);
        let expected = row["documents"].as_array().unwrap();
        let agrees = error.is_some() == row.get("error").is_some()
            && values.len() == expected.len()
            && values.iter().zip(expected).all(|(a, b)| same(a, b));
        if !agrees {
            failed.push(format!(
                "{name}: {:?}\n  kubectl {expected:?} {}\n  ours    {values:?} {error:?}",
                String::from_utf8_lossy(&input),
                row["error"]
            ));
        }
        if let Some(error) = error {
            assert!(error.span.start <= error.span.end && error.span.end <= input.len(), "{name}: {error:?}");
            assert!(!error.message.ends_with('.'), "{name}: {error}");
        }
    }
    assert!(rows > 100, "only {rows} rows");
    assert!(DIFFERENT.len() * 100 <= rows * 3);
    assert!(failed.is_empty(), "{} of {rows}:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn oracle_edge_corpus() {
    let Some(shared) = shared::path("") else { return };
    let index = std::fs::read_to_string(shared.join("corpus-edge/INDEX.tsv")).unwrap();
    // What concerns the meaning of an object is not for the reader to judge.
    let by_meaning = ["toplevel-list.yaml", "spec-list.yaml", "containers-map.yaml", "args-string.yaml"];
    for line in index.lines().skip(1) {
        let (name, expected) = line.split_once('\t').unwrap();
        let expected = expected.split('\t').next().unwrap();
        let source = std::fs::read(shared.join("corpus-edge").join(name)).unwrap();
        let start = std::time::Instant::now();
        let all: Vec<_> = yaml::documents(&source).collect();
        assert!(start.elapsed().as_millis() < 1000, "{name} took {:?}", start.elapsed());
        let errors: Vec<&SyntaxError> = all.iter().filter_map(|document| document.as_ref().err()).collect();
        let values: Vec<&Value> =
            all.iter().flatten().map(|document| &document.value).filter(|value| !value.is_null()).collect();
        if expected.starts_with("clear-error") && !expected.contains("or-skip") && !by_meaning.contains(&name)
        {
            assert!(!errors.is_empty(), "{name} is read as {values:?}");
            assert!(
                errors.iter().all(|error| !error.span.is_empty() && error.span.end <= source.len()),
                "{name}: {errors:?}"
            );
        } else if expected == "ok-nothing" {
            assert!(errors.is_empty(), "{name}: {errors:?}");
            assert!(values.is_empty() || name == "list-null-items.yaml", "{name}: {values:?}");
        } else if name != "utf16.yaml" {
            assert!(errors.is_empty(), "{name}: {errors:?}");
            assert!(!values.is_empty(), "{name}");
        }
    }
}

#[test]
fn oracle_real_manifests_are_read() {
    let Some(shared) = shared::path("") else { return };
    let mut read = 0;
    let mut folders = vec![shared.join("corpus")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read(&path).unwrap();
            for document in yaml::documents(&source).flatten() {
                read += 1;
                assert!(
                    document.locate(&jobgate::text::pointer::Pointer::root()).is_some(),
                    "{}",
                    path.display()
                );
            }
        }
    }
    assert!(read > 100, "only {read}");
}

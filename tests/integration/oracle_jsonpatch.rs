//! The API server's patch engine, by `oracles/jsonpatch.jsonl`: the model of it that other tests use is
//! right, and the operations that Jobgate makes mean the same to it and to an engine that follows the RFC.

use jobgate::text::patch;
use jobgate::text::patch::Op;
use jobgate::text::pointer::Pointer;
use jobgate::text::value::Value;

fn rows() -> Vec<Value> {
    crate::support::shared::rows("oracles/jsonpatch.jsonl").unwrap_or_default()
}

#[test]
fn oracle_the_model_is_the_engine() {
    for row in rows() {
        match (crate::support::evanphx::apply(&row["doc"], &row["patch"]), row.get("result")) {
            (Ok(got), Some(want)) => assert_eq!(&got, want, "{row}"),
            (Err(_), None) => assert!(row.get("error").is_some(), "{row}"),
            (got, _) => panic!("{got:?} for {row}"),
        }
    }
}

/// Returns a row's patch in Jobgate's own operations, where they can say it.
fn ops(row: &Value) -> Option<Vec<Op>> {
    let one = |op: &Value| {
        let at = Pointer::parse(op["path"].as_str()?, &row["doc"])?;
        match op["op"].as_str()? {
            "add" => Some(Op::Add(at, op["value"].clone())),
            "replace" => Some(Op::Replace(at, op["value"].clone())),
            "remove" => Some(Op::Remove(at)),
            _ => None,
        }
    };
    row["patch"].as_array()?.iter().map(one).collect()
}

#[test]
fn oracle_what_we_apply_means_the_same_everywhere() {
    let rows = rows();
    let mut applied = 0;
    for row in &rows {
        let Some(ops) = ops(row) else { continue };
        // What is rejected here is never sent; to be stricter than the API server is the point.
        let Ok(ours) = patch::apply(&row["doc"], &ops) else { continue };
        applied += 1;
        assert_eq!(Some(&ours), row.get("result"), "the API server: {row}");
        let mut theirs = row["doc"].to_json();
        let wire = serde_json::to_vec(&patch::document(&ops)).expect("JSON");
        let patch: json_patch::Patch = serde_json::from_slice(&wire).expect("a patch");
        json_patch::patch(&mut theirs, &patch).expect("an engine by the RFC applies it");
        assert_eq!(ours, theirs, "by the RFC: {row}");
    }
    assert!(rows.is_empty() || applied >= 10, "only {applied} rows say anything");
}

//! A model of the JSON Patch engine of the API server, gopkg.in/evanphx/json-patch.v4 with its
//! `SupportNegativeIndices`, as far as it departs from RFC 6902: written from the behaviour recorded in the
//! oracle table, and tested against all of it (`oracle_jsonpatch`).

use jobgate::text::value::Value;

/// Returns the document with the patch applied, or what the engine would complain of.
pub(crate) fn apply(doc: &Value, patch: &Value) -> Result<Value, String> {
    let mut doc = doc.clone();
    for op in patch.as_array().ok_or("a patch is a list")? {
        one(&mut doc, op)?;
    }
    Ok(doc)
}

fn one(doc: &mut Value, op: &Value) -> Result<(), String> {
    let text = |key: &str| op.get(key).and_then(Value::as_str).unwrap_or_default();
    let value = || op.get("value").cloned().unwrap_or(Value::Null);
    let path = text("path");
    match text("op") {
        "add" => {
            let (parent, key) = find(doc, path)?;
            add(parent, &key, value())
        }
        "replace" if path.is_empty() => {
            *doc = value();
            Ok(())
        }
        "replace" => {
            let (parent, key) = find(doc, path)?;
            match parent {
                // Not as the RFC has it: a key that is missing is set.
                Value::Object(map) => drop(map.insert(key, value())),
                Value::Array(list) => {
                    let at = index(&key, list.len(), list.len())?;
                    list[at] = value();
                }
                _ => unreachable!("find returns containers"),
            }
            Ok(())
        }
        "remove" => remove(doc, path).map(drop),
        "move" => {
            let value = remove(doc, text("from"))?;
            let (parent, key) = find(doc, path)?;
            add(parent, &key, value)
        }
        "copy" => {
            let value = get(doc, text("from"))?;
            let (parent, key) = find(doc, path)?;
            add(parent, &key, value)
        }
        "test" => {
            let have = if path.is_empty() { doc.clone() } else { get(doc, path)? };
            if have == value() { Ok(()) } else { Err(format!("testing value {path} failed")) }
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// Finds the mapping or list that a path's last step is in. A null on the way counts as missing, and so does
/// a scalar.
fn find<'v>(doc: &'v mut Value, path: &str) -> Result<(&'v mut Value, String), String> {
    let missing = || format!("doc is missing path: {path:?}");
    let steps: Vec<String> =
        path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let (last, parents) = steps.split_last().ok_or_else(missing)?;
    let mut here = doc;
    for step in parents {
        here = match here {
            Value::Object(map) => map.get_mut(step).ok_or_else(missing)?,
            Value::Array(list) => {
                let at = index(step, list.len(), list.len()).map_err(|_| missing())?;
                &mut list[at]
            }
            _ => return Err(missing()),
        };
    }
    if here.is_object() || here.is_array() { Ok((here, last.clone())) } else { Err(missing()) }
}

fn add(parent: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match parent {
        Value::Object(map) => drop(map.insert(key.to_owned(), value)),
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => {
            let at = index(key, list.len() + 1, list.len() + 1)?;
            list.insert(at, value);
        }
        _ => unreachable!("find returns containers"),
    }
    Ok(())
}

fn remove(doc: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, key) = find(doc, path)?;
    match parent {
        Value::Object(map) => {
            map.remove(&key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}"))
        }
        Value::Array(list) => {
            let at = index(&key, list.len(), list.len())?;
            Ok(list.remove(at))
        }
        _ => unreachable!("find returns containers"),
    }
}

fn get(doc: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, key) = find(doc, path)?;
    match parent {
        Value::Object(map) => Ok(map.get(&key).cloned().unwrap_or(Value::Null)),
        Value::Array(list) => index(&key, list.len(), list.len()).map(|at| list[at].clone()),
        _ => unreachable!("find returns containers"),
    }
}

/// Reads an index as Go's `strconv.Atoi` does (`01` and `+1` are numbers), below `end`; a negative one counts
/// from `from`.
fn index(step: &str, from: usize, end: usize) -> Result<usize, String> {
    let invalid = || format!("Unable to access invalid index: {step}");
    let at: i64 = step.parse().map_err(|_| invalid())?;
    let at = if at < 0 { at + i64::try_from(from).map_err(|_| invalid())? } else { at };
    usize::try_from(at).ok().filter(|at| *at < end).ok_or_else(invalid)
}

//! The batch kinds in a cluster that Jobgate does not judge.

use super::object;
use crate::causes::chain;
use crate::client::Connection;
use crate::fetch::Failure;
use jobgate_core::kinds::others;
use jobgate_core::text::value::Value;
use jobgate_report::Unjudged;

/// Returns the unjudged batch kinds of which there are objects, and the kinds that could not be counted.
/// Empty if the cluster does not list its API groups.
pub(super) async fn others_in(connection: &Connection, namespaces: &[String]) -> Vec<Unjudged> {
    let mut found = Vec::new();
    let Ok(groups) = object(connection, "/apis".to_owned()).await else { return found };
    let text = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    for served in groups["groups"].as_array().into_iter().flatten() {
        let (group, version) = (text(served, "/name"), text(served, "/preferredVersion/groupVersion"));
        let Some((group, kinds)) = others().find(|(name, _)| *name == group) else { continue };
        let Ok(resources) = object(connection, format!("/apis/{version}")).await else { continue };
        let resources = resources["resources"].as_array().into_iter().flatten();
        for resource in resources.filter(|resource| !text(resource, "/name").contains('/')) {
            let Some(kind) = kinds.iter().find(|kind| **kind == text(resource, "/kind")) else { continue };
            let name = text(resource, "/name");
            let paths = match namespaces {
                [] => vec![format!("/apis/{version}/{name}")],
                _ => namespaces
                    .iter()
                    .map(|namespace| format!("/apis/{version}/namespaces/{namespace}/{name}"))
                    .collect(),
            };
            let mut count = 0;
            for path in paths {
                match object(connection, format!("{path}?limit=1")).await {
                    Ok(list) => {
                        let rest = list
                            .pointer("/metadata/remainingItemCount")
                            .and_then(Value::as_u64)
                            .unwrap_or_default();
                        count += list["items"].as_array().map_or(0, Vec::len) as u64 + rest;
                    }
                    Err(Failure::NotFound | Failure::Foreign) => {}
                    Err(failure) => {
                        found.push(Unjudged::unknown(format!(
                            "cannot count {name}.{group}, which are not judged: {}",
                            chain(&failure)
                        )));
                        break;
                    }
                }
            }
            if count > 0 {
                found.push(Unjudged::in_cluster(group, kind, Some(count)));
            }
        }
    }
    found
}

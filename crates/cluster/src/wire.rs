//! Answers of the API server, deserialized without copying more than is kept: a claim or another object, a page
//! of them, an event of a watch, a status.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::access::Modes;

/// The relevant fields of a `PersistentVolumeClaim`.
#[derive(Debug, Deserialize)]
pub(super) struct WireClaim<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
    #[serde(default)]
    spec: ClaimSpec,
    #[serde(default, borrow)]
    status: ClaimStatus<'a>,
}

/// The identity of an object.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(default, borrow)]
    pub(super) namespace: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) uid: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) resource_version: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSpec {
    #[serde(default)]
    access_modes: Modes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimStatus<'a> {
    #[serde(default, borrow)]
    phase: Cow<'a, str>,
    #[serde(default)]
    access_modes: Modes,
}

impl WireClaim<'_> {
    /// Returns the modes of the bound volume, else the requested ones, like
    /// [`jobgate_core::judge::facts::Claim::from_object`].
    pub(super) fn modes(&self) -> Modes {
        if self.status.phase == "Bound" && !self.status.access_modes.is_empty() {
            self.status.access_modes
        } else {
            self.spec.access_modes
        }
    }
}

/// The relevant fields of an object of another kind.
#[derive(Debug, Deserialize)]
pub(super) struct WireObject<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
    #[serde(default, borrow)]
    pub(super) spec: Option<&'a RawValue>,
}

/// One page of a list.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub(super) struct ListPage<'a, T> {
    #[serde(borrow)]
    pub(super) metadata: ListPageMetadata<'a>,
    pub(super) items: Vec<T>,
}

/// The position of a page in its list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListPageMetadata<'a> {
    #[serde(default, borrow)]
    pub(super) resource_version: Cow<'a, str>,
    /// Names the next page; empty on the last one.
    #[serde(default, rename = "continue", borrow)]
    pub(super) next: Cow<'a, str>,
}

/// One line of a watch.
#[derive(Debug, Deserialize)]
struct WatchLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// One event of a watch.
#[derive(Debug)]
pub(super) enum WireEvent<T> {
    /// The object exists, in this state.
    There(T),
    /// The object was deleted.
    Gone(T),
    /// Nothing happened up to this resource version.
    Bookmark(String),
    /// The watch ended with this HTTP code.
    Error(u16),
}

/// Parses one line of a watch.
pub(super) fn event<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<WireEvent<T>, serde_json::Error> {
    #[derive(Deserialize)]
    struct BookmarkObject<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }

    let WatchLine { kind, object } = serde_json::from_slice(line)?;
    Ok(match &*kind {
        "ADDED" | "MODIFIED" => WireEvent::There(serde_json::from_str(object.get())?),
        "DELETED" => WireEvent::Gone(serde_json::from_str(object.get())?),
        "BOOKMARK" => WireEvent::Bookmark(
            serde_json::from_str::<BookmarkObject<'_>>(object.get())?.metadata.resource_version.into_owned(),
        ),
        _ => WireEvent::Error(serde_json::from_str::<ApiRefusal<'_>>(object.get())?.code),
    })
}

/// A `Status`: why the API server rejected a request.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ApiRefusal<'a> {
    #[serde(default, borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    reason: Cow<'a, str>,
    #[serde(default)]
    code: u16,
}

impl ApiRefusal<'_> {
    /// Returns whether the API server itself reports that the object does not exist; a 404 from a proxy does
    /// not count.
    pub(super) fn is_not_found(&self) -> bool {
        self.kind == "Status" && self.reason == "NotFound"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use jobgate_core::judge::facts;
    use jobgate_core::judge::finding::Source;
    use jobgate_core::text::value::json;

    fn claim(text: &str) -> WireClaim<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn reads_a_claim_and_skips_the_rest() {
        let text = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": "ml", "name": "ckpt", "resourceVersion": "7", "managedFields": [{"fieldsV1": {"f:x": {}}}]},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        })
        .to_string();
        let claim = claim(&text);
        assert_eq!(
            (&*claim.metadata.namespace, &*claim.metadata.name, &*claim.metadata.resource_version),
            ("ml", "ckpt", "7")
        );
        assert!(matches!(claim.metadata.name, Cow::Borrowed(_)));
        assert_eq!(claim.modes().names(), Some(vec!["ReadWriteOnce".into()]));
    }

    #[test]
    fn reads_every_event() {
        let object = r#"{"metadata":{"namespace":"a","name":"b","resourceVersion":"9"}}"#;
        let line = |kind: &str, object: &str| format!(r#"{{"type":"{kind}","object":{object}}}"#);
        assert!(
            matches!(event::<WireClaim<'_>>(line("ADDED", object).as_bytes()), Ok(WireEvent::There(c)) if c.metadata.name == "b")
        );
        assert!(matches!(
            event::<WireClaim<'_>>(line("MODIFIED", object).as_bytes()),
            Ok(WireEvent::There(_))
        ));
        assert!(matches!(event::<WireClaim<'_>>(line("DELETED", object).as_bytes()), Ok(WireEvent::Gone(_))));
        assert!(
            matches!(event::<WireClaim<'_>>(line("BOOKMARK", object).as_bytes()), Ok(WireEvent::Bookmark(v)) if v == "9")
        );
        assert!(matches!(
            event::<WireClaim<'_>>(line("ERROR", r#"{"kind":"Status","code":410}"#).as_bytes()),
            Ok(WireEvent::Error(410))
        ));
        assert!(event::<WireClaim<'_>>(b"<html>").is_err());
        assert!(event::<WireClaim<'_>>(br#"{"type":"ADDED","object":[]}"#).is_err());
    }

    #[test]
    fn only_a_status_says_not_found() {
        let refusal = |text: &'static str| serde_json::from_str::<ApiRefusal<'_>>(text).unwrap_or_default();
        assert!(refusal(r#"{"kind":"Status","reason":"NotFound","code":404}"#).is_not_found());
        assert!(!refusal(r#"{"kind":"Status","reason":"Forbidden","code":403}"#).is_not_found());
        assert!(!refusal("<h1>404</h1>").is_not_found());
    }

    fn modes() -> impl Strategy<Value = Vec<&'static str>> {
        prop::collection::vec(
            prop::sample::select(vec!["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]),
            0..4,
        )
    }

    proptest! {
        /// The cache and a manifest on disk must not tell a rule two stories about one claim.
        #[test]
        fn agrees_with_the_reading_of_a_manifest(
            spec in prop::option::of(modes()), status in prop::option::of(modes()), phase in prop::sample::select(vec!["Bound", "Pending", "Lost", ""]),
        ) {
            let mut object = json!({"metadata": {"namespace": "a", "name": "b"}, "spec": {}, "status": {"phase": phase}});
            if let Some(list) = spec { object["spec"]["accessModes"] = list.into() }
            if let Some(list) = status { object["status"]["accessModes"] = list.into() }
            let sorted = |names: Vec<String>| { let mut names = names; names.sort(); names.dedup(); names };
            let text = object.to_string();
            let ours = claim(&text).modes().names().map(sorted);
            let theirs = facts::Claim::from_object(&object, Source::Cluster).map(|c| sorted(c.access_modes));
            prop_assert_eq!(ours, theirs);
        }

        /// Whatever comes over the wire, reading it ends in a value or an error.
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = event::<WireClaim<'_>>(&bytes);
            let _ = serde_json::from_slice::<ListPage<'_, WireClaim<'_>>>(&bytes);
        }
    }
}

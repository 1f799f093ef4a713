//! A list of Jobs and pods as `kubectl get -o json` prints it, of any length: read one object at a time, so that memory is
//! that of what is known of each.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::controllers::live::LiveSnapshot;
use crate::local::files;
use crate::local::lint::{Content, Input, MAX_FILE_SIZE};
use crate::report::clean;
use crate::text::number::{bytes, plural};
use crate::text::value::Value;

/// Maximum bytes of a list: 100,000 pods of 10 KiB.
const MAX_LIST_BYTES: u64 = 1 << 30;
/// Maximum bytes between two objects of a list, and so of an object: an API server takes requests of 3 MiB.
const MAX_OBJECT_BYTES: u64 = 4 << 20;
/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// Takes the Jobs and pods of a list that has so many bytes at most. Returns how many objects were others.
///
/// # Errors
///
/// It is no list in JSON, or longer than one may be.
fn take_all(from: impl Read, most: u64, snapshot: &mut LiveSnapshot) -> Result<usize, String> {
    let read = Cell::new(BytesRead::default());
    let counted = BufReader::with_capacity(CHUNK, LimitedReader { from, most, progress: &read });
    let mut reader = serde_json::Deserializer::from_reader(counted);
    let mut list = List { snapshot, progress: &read, others: 0, has_items: false };
    let whole = reader.deserialize_map(&mut list).and_then(|()| reader.end());
    let List { others, has_items, .. } = list;
    match whole {
        Ok(()) if has_items => Ok(others),
        Ok(()) => Err("it is larger than a manifest may be, and no list of objects".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Takes the Jobs and pods of standard input, of which the first bytes are read already.
///
/// # Errors
///
/// It is no list in JSON, or longer than one may be.
pub(in crate::cli::simulate) fn take_stdin(
    path: &str,
    first: &[u8],
    snapshot: &mut LiveSnapshot,
) -> Result<Option<String>, String> {
    if !is_json(first) {
        return Err(too_large());
    }
    take_all(first.chain(io::stdin().lock()), MAX_LIST_BYTES, snapshot).map(|others| left_out(path, others))
}

/// Takes the Jobs and pods of a file that is larger than a manifest may be. Returns what was left out, in words.
///
/// # Errors
///
/// It is no list in JSON, longer than one may be, or cannot be read.
pub(in crate::cli::simulate) fn take_file(
    input: &Input,
    snapshot: &mut LiveSnapshot,
) -> Result<Option<String>, String> {
    let Content::File(path) = &input.content else { return Err(too_large()) };
    let mut file = files::open(path).map_err(|error| error.to_string())?;
    let mut first = vec![0; CHUNK];
    let count = file.read(&mut first).map_err(|error| error.to_string())?;
    first.truncate(count);
    if !is_json(&first) {
        return Err(too_large());
    }
    take_all(first.chain(file), MAX_LIST_BYTES, snapshot).map(|others| left_out(&input.path, others))
}

fn is_json(first: &[u8]) -> bool {
    first.trim_ascii_start().first() == Some(&b'{')
}

fn too_large() -> String {
    format!(
        "it is larger than {}; a longer list of pods is read as JSON: `kubectl get job,pods -o json`",
        bytes(MAX_FILE_SIZE)
    )
}

fn left_out(path: &str, others: usize) -> Option<String> {
    let objects = plural(others, "object");
    let only = "of a list this long, only Jobs with a status and pods are read";
    (others > 0).then(|| format!("{}: {objects} left out: {only}", clean(path)))
}

/// How many bytes were read.
#[derive(Clone, Copy, Debug, Default)]
struct BytesRead {
    all: u64,
    /// Since the last object ended.
    of_object: u64,
}

/// A reader that stops where an object, or all of them, are too long.
struct LimitedReader<'p, R> {
    from: R,
    /// How many bytes all objects may have together.
    most: u64,
    progress: &'p Cell<BytesRead>,
}

impl<R: Read> Read for LimitedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        let before = self.progress.get();
        let more = u64::try_from(count).unwrap_or(u64::MAX);
        let after = BytesRead { all: before.all + more, of_object: before.of_object + more };
        self.progress.set(after);
        let too_long =
            |what: &str, most: u64| Err(io::Error::other(format!("{what} is larger than {}", bytes(most))));
        if after.all > self.most {
            return too_long("the list", self.most);
        }
        if after.of_object > MAX_OBJECT_BYTES + CHUNK as u64 {
            return too_long("an object", MAX_OBJECT_BYTES);
        }
        Ok(count)
    }
}

/// Takes the objects of a list as they come.
struct List<'s> {
    snapshot: &'s mut LiveSnapshot,
    progress: &'s Cell<BytesRead>,
    others: usize,
    has_items: bool,
}

impl<'de> Visitor<'de> for &mut List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects in JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key != "items" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if self.has_items {
                return Err(A::Error::custom("`items` is there twice"));
            }
            self.has_items = true;
            map.next_value_seed(&mut *self)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(object) = items.next_element::<Value>()? {
            self.progress.set(BytesRead { of_object: 0, ..self.progress.get() });
            self.others += usize::from(!super::take(&object, self.snapshot));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, items: D) -> Result<(), D::Error> {
        items.deserialize_seq(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    fn taken(text: &str) -> Result<(usize, Vec<usize>), String> {
        let mut snapshot = LiveSnapshot::new(0);
        let others = take_all(text.as_bytes(), MAX_LIST_BYTES, &mut snapshot)?;
        Ok((others, snapshot.into_jobs().iter().map(|job| job.pods.len()).collect()))
    }

    #[test]
    fn a_list_is_taken_one_by_one() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n",
            "creationTimestamp": "2026-11-28T01:00:10Z"}, "spec": {}, "status": {"active": 2}});
        let pod = |name: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n",
            "labels": {"job-name": "j"}}})
        };
        let other = json!({"apiVersion": "v1", "kind": "Service"});
        let list = json!({"apiVersion": "v1", "items": [pod("a"), job, other, pod("b")], "kind": "List"});
        assert_eq!(taken(&list.to_string()), Ok((1, vec![2])));
    }

    #[test]
    fn items_that_are_no_objects_are_others() {
        assert_eq!(taken("{\"items\": [null, 7, [], {}, \"x\", {\"kind\": null}]}"), Ok((6, Vec::new())));
    }

    #[test]
    fn a_list_without_an_end_is_read_up_to_a_limit() {
        /// Repeats a text after a start.
        struct Endless(&'static [u8], &'static [u8]);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = self.0.read(buffer)?;
                if self.0.is_empty() {
                    self.0 = self.1;
                }
                Ok(count)
            }
        }
        for (repeated, expected) in [
            (&b"null, "[..], "the list is larger than 8 MiB"),
            (b"[[], {}], ", "the list is larger than 8 MiB"),
            (b" ", "an object is larger than 4 MiB"),
        ] {
            let from = BufReader::new(Endless(b"{\"items\": [", repeated));
            let error = take_all(from, 8 << 20, &mut LiveSnapshot::new(0)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_is_no_list_is_said() {
        let long = "x".repeat(5 << 20);
        for (text, expected) in [
            ("{\"items\": [{\"kind\": \"Pod\"}", "EOF while parsing a list"),
            ("{\"kind\": \"Pod\"}", "no list of objects"),
            ("{\"items\": 7}", "a list of objects in JSON"),
            ("[]", "a list of objects in JSON"),
            ("{\"items\": [], \"items\": []}", "twice"),
            ("{\"items\": []} {}", "trailing characters"),
            (&format!("{{\"items\": [{{\"kind\": \"{long}\"}}]}}"), "an object is larger than 4 MiB"),
            (&format!("{{\"kind\": \"{long}\", \"items\": []}}"), "an object is larger than 4 MiB"),
        ] {
            let error = taken(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}

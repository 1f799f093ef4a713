//! Names that are different each time, as rows have them: `NS`, `CLUSTER0`, `JOBID0`, `UID`.

use serde_json::Value;

use super::objects::Seen;

/// The parts of a UID, in characters.
const UID: [usize; 5] = [8, 4, 4, 4, 12];

/// Returns what was observed with the names that rows have. The main object of a row about a Ray cluster keeps its own.
pub(super) fn plain(observed: &Value, namespace: &str, seen: &Seen) -> Value {
    let mut text = observed.to_string().replace(namespace, "NS");
    let is_random = |name: &&String| {
        let rest = name.strip_prefix("j-");
        rest.is_some_and(|rest| rest.len() == 5 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    for (number, name) in seen.clusters.iter().enumerate().filter(|(_, name)| is_random(name)) {
        text = text.replace(name.as_str(), &format!("CLUSTER{number}"));
    }
    for (number, id) in seen.submissions.iter().enumerate() {
        text = text.replace(id.as_str(), &format!("JOBID{number}"));
    }
    serde_json::from_str(&without_uids(&text)).expect("a row")
}

/// Returns the name of an object without what its operator has put behind it.
pub(super) fn of_object(kind: &str, name: &str) -> String {
    match name.rsplit_once('-') {
        // The rest is a part of a hash.
        Some((whole, rest)) if kind == "Workload" && rest.len() == 5 && rest.bytes().all(is_hex) => {
            whole.to_owned()
        }
        _ => name.to_owned(),
    }
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn without_uids(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(next) = rest.chars().next() {
        if let Some(length) = uid(rest.as_bytes()) {
            out.push_str("UID");
            rest = &rest[length..];
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

/// Returns the length of the UID that a text begins with.
fn uid(text: &[u8]) -> Option<usize> {
    let length = UID.iter().sum::<usize>() + UID.len() - 1;
    let text = text.get(..length)?;
    let parts = || text.split(|byte| *byte == b'-');
    let is_uid = parts().map(<[u8]>::len).eq(UID) && parts().flatten().all(|byte| is_hex(*byte));
    is_uid.then_some(length)
}

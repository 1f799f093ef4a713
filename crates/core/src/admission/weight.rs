//! Estimates the memory that a review takes, and finds its sender, before anything is parsed.
//!
//! A body of one megabyte can become two megabytes of text or forty of small mappings, and the API server
//! accepts such an object. One pass over the bytes, some milliseconds for ten megabytes, counts its structure
//! and finds the head of the review, wherever in the body it is.
//!
//! The weight of a byte is the most memory that evaluation takes for it. The search for costly objects
//! (`cargo test --test load no_object_costs`) compares the two over all its shapes. Each number includes half
//! of what the value takes on top, for the findings about it.

/// The weight of any review, whatever is in it: for what rules note about its few parts, and for the answer.
const REVIEW: usize = 320 << 10;
/// A mapping that is not empty, without [`ENTRY`] of its first entry: room for four entries of 56 bytes.
const MAPPING: usize = 240;
/// A mapping entry in a vector that is about half full.
const ENTRY: usize = 150;
/// A list that is not empty: room for four items, of 24 bytes each, from the start.
const LIST: usize = 144;
/// A list item or mapping entry: 24 bytes in a vector that has just doubled while the old one is copied.
const ITEM: usize = 132;
/// A byte of text is in memory as received and as a value, again in a patched object, and as the names, words
/// and findings that rules make of it; escapes only shorten it.
const TEXT: usize = 12;
/// The weight per byte of the most costly text, a list of mappings of one nameless entry: `{"":0},`.
const MAX_PER_BYTE: usize = 90;
/// Bodies up to this size get the maximum weight, which is cheaper than counting: 1 µs per KiB.
const NOT_WORTH_A_LOOK: usize = 16 << 10;

/// The most memory that a review takes, and its sender, as far as its bytes show without being parsed.
///
/// Names are as written, with their escapes: they are only compared. Of equal keys the last one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate<'b> {
    /// About how many bytes of memory judging it takes at most.
    pub weight: usize,
    /// `request.uid`; empty where there is none.
    pub uid: &'b [u8],
    /// `request.userInfo.username`.
    pub user: &'b [u8],
    /// `request.namespace`.
    pub namespace: &'b [u8],
    /// `request.dryRun`: the object will not be stored.
    pub dry_run: bool,
}

/// Returns about how many bytes it takes at most to judge a review with this body.
#[must_use]
pub fn weight(body: &[u8]) -> usize {
    if body.len() <= NOT_WORTH_A_LOOK { REVIEW + MAX_PER_BYTE * body.len() } else { estimate(body).weight }
}

/// Scans a review. A body that is not a review, or is truncated, has an estimate too.
#[must_use]
pub fn estimate(body: &[u8]) -> Estimate<'_> {
    let (mut mappings, mut entries, mut lists, mut items) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut estimate = Estimate::default();
    let mut at = ReviewPlace::default();
    let mut rest = body;
    let mut last = b' ';
    // From one quotation mark to the next: between them there is structure, then text, then structure again.
    loop {
        let quote = memchr::memchr(b'"', rest).unwrap_or(rest.len());
        for byte in &rest[..quote] {
            match byte {
                b'{' | b'[' => {
                    if *byte == b'{' {
                        mappings += 1;
                    } else {
                        lists += 1;
                    }
                    at.enter();
                }
                b'}' | b']' => {
                    // Empty ones take nothing.
                    match (last, byte) {
                        (b'{', b'}') => mappings -= 1,
                        (b'[', b']') => lists -= 1,
                        _ => {}
                    }
                    at.leave();
                }
                b':' => entries += 1,
                b',' => items += 1,
                b' ' | b'\t' | b'\n' | b'\r' => continue,
                _ if last == b':' && at.is_at(&[ReviewKey::Request, ReviewKey::DryRun]) => {
                    estimate.dry_run = *byte == b't';
                }
                _ => {}
            }
            last = *byte;
        }
        rest = rest.get(quote + 1..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        let behind = after_text(rest);
        if at.is_in_head() {
            let text = &rest[..rest.len() - behind.len()];
            let text = text.strip_suffix(b"\"").unwrap_or(text);
            if last == b':' { at.value(text, &mut estimate) } else { at.key(text) }
        }
        rest = behind;
        last = b'"';
    }
    estimate.weight =
        REVIEW + TEXT * body.len() + MAPPING * mappings + ENTRY * entries + LIST * lists + ITEM * items;
    estimate
}

/// Returns the rest after a string, given the rest after its opening quote.
fn after_text(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        let (found, behind) = (rest[at], rest.get(at + 1..).unwrap_or_default());
        if found == b'"' {
            return behind;
        }
        rest = behind.get(1..).unwrap_or_default();
    }
    &[]
}

/// A key of the head of a review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReviewKey {
    #[default]
    Other,
    Request,
    Uid,
    UserInfo,
    Username,
    Namespace,
    DryRun,
}

/// How deep the head of a review is: `request.userInfo.username`.
const HEAD_DEPTH: usize = 3;

/// The place of a scan in a review: its depth, and the keys above it.
#[derive(Debug, Default)]
struct ReviewPlace {
    depth: usize,
    keys: [ReviewKey; HEAD_DEPTH],
}

impl ReviewPlace {
    fn enter(&mut self) {
        // The keys of the list or mapping before are not those of this one.
        if let Some(key) = self.keys.get_mut(self.depth) {
            *key = ReviewKey::Other;
        }
        self.depth += 1;
    }

    fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn is_in_head(&self) -> bool {
        (1..=HEAD_DEPTH).contains(&self.depth)
    }

    fn is_at(&self, keys: &[ReviewKey]) -> bool {
        self.depth == keys.len() && self.keys[..keys.len()] == *keys
    }

    fn key(&mut self, text: &[u8]) {
        self.keys[self.depth - 1] = match text {
            b"request" => ReviewKey::Request,
            b"uid" => ReviewKey::Uid,
            b"userInfo" => ReviewKey::UserInfo,
            b"username" => ReviewKey::Username,
            b"namespace" => ReviewKey::Namespace,
            b"dryRun" => ReviewKey::DryRun,
            _ => ReviewKey::Other,
        };
    }

    fn value<'b>(&self, text: &'b [u8], estimate: &mut Estimate<'b>) {
        match self.keys[..self.depth] {
            [ReviewKey::Request, ReviewKey::Uid] => estimate.uid = text,
            [ReviewKey::Request, ReviewKey::Namespace] => estimate.namespace = text,
            [ReviewKey::Request, ReviewKey::UserInfo, ReviewKey::Username] => estimate.user = text,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the weight without that of a review's bytes.
    fn look(body: &[u8]) -> usize {
        estimate(body).weight - REVIEW
    }

    #[test]
    fn structure_is_counted_and_text_is_not() {
        let of = |text: &str| look(text.as_bytes()) - TEXT * text.len();
        assert_eq!(of(r#"{"a":[1,2,{"b":null}]}"#), 2 * MAPPING + 2 * ENTRY + LIST + 2 * ITEM);
        assert_eq!(of("[[[0]],{ },[\n], {}]"), 3 * LIST + 3 * ITEM, "what is empty takes nothing");
        assert_eq!(of(r#""{{{{::::,,,,""#), 0);
        assert_eq!(of(r#""\"{\\",{"#), MAPPING + ITEM);
        assert_eq!(of(r#""\\\"{""#), 0);
    }

    #[test]
    fn what_is_no_json_has_a_weight_too() {
        for text in
            ["", "\"", "\"\\", "\\", "\"\\\"", "}}}", "{\"a", "}}}\"uid\":\"a\"", "{\"request\":{\"uid\":\"u"]
        {
            assert!(look(text.as_bytes()) >= TEXT * text.len());
        }
    }

    #[test]
    fn the_head_is_found_wherever_it_is() {
        let ordinary = r#"{"kind":"AdmissionReview","request":{"uid":"u-1","name":"n","namespace":"team","userInfo":
            {"username":"alice","groups":["username","b"],"extra":{"username":["c"]}},"object":{"uid":"x","metadata":{"namespace":"y"}},"dryRun": true}}"#;
        let last = r#"{"request":{"object":{"spec":[{"userInfo":{"username":"y"}}]},"userInfo":{"username":"alice"},"dryRun":true,"namespace":"team","uid":"u-1"}}"#;
        for text in [ordinary, last] {
            let Estimate { uid, user, namespace, dry_run, .. } = estimate(text.as_bytes());
            assert_eq!(
                (uid, user, namespace, dry_run),
                (&b"u-1"[..], &b"alice"[..], &b"team"[..], true),
                "{text}"
            );
        }
        let nothing = Estimate { weight: 0, ..Estimate::default() };
        for text in [
            r#"{"uid":"u","userInfo":{"username":"a"},"namespace":"n","dryRun":true}"#,
            r#"{"request":[{"uid":"u","namespace":"n"}]}"#,
            r#"[{"request":{"uid":"u","namespace":"n"}}]"#,
            r#"{"request":{"uid":1,"namespace":null,"dryRun":false,"userInfo":{"username":["a"]}}}"#,
            r#"{"request":{"dryRun":true,"dryRun":false}}"#,
            r#"{"request":"uid","uid":"u"}"#,
        ] {
            assert_eq!(Estimate { weight: 0, ..estimate(text.as_bytes()) }, nothing, "{text}");
        }
        // The part that a truncated body has.
        assert_eq!(estimate(&ordinary.as_bytes()[..60]).uid, b"u-1");
    }

    #[test]
    fn nothing_weighs_more_for_each_byte_than_is_taken_for_small_bodies() {
        for text in [
            "0,",
            "[0],",
            "{},",
            "\"\",",
            "{\"\":0},",
            "\"\":0,",
            "\"\":[0],",
            "\"\":{\"\":0},",
            "[[0]],",
            "{\"\":[0]},",
            "[0,0],",
            "{\"\":[{\"\":0}]},",
        ] {
            let many = text.repeat(1000);
            assert!(
                look(many.as_bytes()) <= MAX_PER_BYTE * many.len(),
                "{text}: {} for each byte",
                look(many.as_bytes()) / many.len()
            );
        }
        let ordinary =
            r#"{"name":"RANK","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},"#.repeat(1000);
        assert!(weight(ordinary.as_bytes()) < 40 * ordinary.len());
    }
}

//! Estimates how much memory a review takes, from its text, before it is parsed.
//!
//! A body of one megabyte can become two megabytes of text or forty of small mappings, and the API server
//! accepts such an object. Counting is one pass over the bytes, some milliseconds for ten megabytes.

/// A mapping that is not empty, without [`ENTRY`] of its first entry: room for four entries of 56 bytes.
const MAPPING: usize = 160;
/// A mapping entry in a vector that is about half full.
const ENTRY: usize = 100;
/// A list that is not empty: room for four items, of 24 bytes each, from the start.
const LIST: usize = 96;
/// A list item or mapping entry: 24 bytes in a vector that has just doubled while the old one is copied.
const ITEM: usize = 88;
/// Text is in memory as received and as a value, and again in a patched object; escapes only shorten it.
const TEXT: usize = 2;
/// The weight per byte of the most costly text, a list of mappings of one nameless entry: `{"":0},`.
const MAX_PER_BYTE: usize = 56;
/// Bodies up to this size get the maximum weight, which is cheaper than counting: 1 µs per KiB.
const NOT_WORTH_A_LOOK: usize = 16 << 10;

/// Returns about how many bytes it takes at most to judge a review with this body.
#[must_use]
pub fn weight(body: &[u8]) -> usize {
    if body.len() <= NOT_WORTH_A_LOOK { MAX_PER_BYTE * body.len() } else { look(body) }
}

fn look(body: &[u8]) -> usize {
    let (mut mappings, mut entries, mut lists, mut items) = (0_usize, 0, 0_usize, 0);
    let mut rest = body;
    let mut last = b' ';
    // From one quotation mark to the next: between them there is structure, then text, then structure again.
    loop {
        let quote = memchr::memchr(b'"', rest).unwrap_or(rest.len());
        for byte in &rest[..quote] {
            match byte {
                b'{' => mappings += 1,
                b'[' => lists += 1,
                b':' => entries += 1,
                b',' => items += 1,
                b'}' if last == b'{' => mappings -= 1,
                b']' if last == b'[' => lists -= 1,
                b' ' | b'\t' | b'\n' | b'\r' => continue,
                _ => {}
            }
            last = *byte;
        }
        rest = rest.get(quote + 1..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        rest = after_text(rest);
        last = b'"';
    }
    TEXT * body.len() + MAPPING * mappings + ENTRY * entries + LIST * lists + ITEM * items
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

#[cfg(test)]
mod tests {
    use super::*;

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
        for text in ["", "\"", "\"\\", "\\", "\"\\\"", "}}}", "{\"a"] {
            assert!(look(text.as_bytes()) >= TEXT * text.len());
        }
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
        assert!(weight(ordinary.as_bytes()) < 20 * ordinary.len());
    }
}

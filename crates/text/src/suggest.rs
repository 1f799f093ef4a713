//! Suggestions for misspelled words.

/// Returns the candidate most similar to a word, if it is similar enough; the first of several.
///
/// Ignores case and `_` for `-`. Similar enough: one typo (a letter inserted, deleted, changed, or two
/// swapped) per three letters, or the only candidate that begins with the word.
#[must_use]
pub fn closest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let plain = |text: &str| -> Vec<char> {
        text.chars().flat_map(char::to_lowercase).map(|c| if c == '_' { '-' } else { c }).collect()
    };
    let word = plain(word);
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    let candidates: Vec<(&str, Vec<char>)> =
        candidates.into_iter().map(|candidate| (candidate, plain(candidate))).collect();
    let near = candidates
        .iter()
        .map(|(candidate, letters)| (slips(&word, letters), *candidate))
        .min_by_key(|(slips, _)| *slips);
    if let Some((slips, candidate)) = near
        && slips <= word.len().div_ceil(3)
        && slips < word.len()
    {
        return Some(candidate);
    }
    let mut begun = candidates.iter().filter(|(_, letters)| letters.starts_with(&word));
    match (begun.next(), begun.next()) {
        (Some((candidate, _)), None) => Some(candidate),
        _ => None,
    }
}

/// Tells whether two words differ by one typo, or two in a long word, ignoring case.
#[must_use]
pub fn is_slip(word: &str, other: &str) -> bool {
    const LONG: usize = 9;
    let plain = |text: &str| -> Vec<char> { text.chars().flat_map(char::to_lowercase).collect() };
    let most = if other.len() < LONG { 1 } else { 2 };
    word.len() <= 64 && slips(&plain(word), &plain(other)) <= most
}

/// Returns the number of typos between two words (Damerau-Levenshtein distance).
fn slips(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: [&str; 4] = ["deadline", "gpu-toleration", "restart-policy", "pod-replacement-policy"];

    #[test]
    fn finds_what_was_meant() {
        let cases = [
            ("dedline", "deadline"),
            ("Deadline", "deadline"),
            ("daedline", "deadline"),
            ("gpu_toleration", "gpu-toleration"),
            ("gpu-tolerations", "gpu-toleration"),
            ("gpu", "gpu-toleration"),
            ("restartPolicy", "restart-policy"),
            ("pod-replacement", "pod-replacement-policy"),
        ];
        for (word, meant) in cases {
            assert_eq!(closest(word, RULES), Some(meant), "{word}");
        }
    }

    #[test]
    fn does_not_guess_wildly() {
        for word in ["", "x", "memory", "-", &"deadline".repeat(20)] {
            assert_eq!(closest(word, RULES), None, "{word}");
        }
        assert_eq!(closest("deny", []), None);
        assert_eq!(closest("re", ["rest", "real"]), None);
    }

    #[test]
    fn a_swap_is_one_slip() {
        let cases = [("ab", "ba", 1), ("", "abc", 3), ("kitten", "sitting", 3), ("same", "same", 0)];
        for (a, b, expected) in cases {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            assert_eq!(slips(&a, &b), expected);
        }
    }
}

//! A script is read in time and room that its bytes allow, and says the same inside a group.

use jobgate::text::meter;
use jobgate::text::shell::{self, End, MAX_COMMAND_BYTES, Unreadable, Variables, Word};

/// The most steps for a byte.
const STEPS_PER_BYTE: u64 = 16;

/// A command: its words, and in how many compound commands it is.
type Shown = (Vec<Word>, usize);

/// Takes a script.
pub fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let (result, shown) = read(text);
    let Ok(end) = result else { return };
    assert!(end.beyond.is_some() || !end.is_cut);
    let mut before = 0;
    for (words, _) in &shown {
        let bytes: usize = words.iter().map(|word| word.text.len()).sum();
        assert!(bytes <= MAX_COMMAND_BYTES + 3, "{bytes} bytes of one command");
        for word in words {
            assert!(before <= word.span.start && word.span.start < word.span.end, "{:?}", word.span);
            assert!(text.get(word.span.clone()).is_some(), "{:?} of {}", word.span, text.len());
            before = word.span.end;
        }
    }
    // A backslash at the end would take the new line.
    if end.beyond.is_some() || text.ends_with(['\\', '\r']) {
        return;
    }
    let (again, inside) = read(&format!("{{ {text}\n}}"));
    let again = again.unwrap_or_else(|error| panic!("in a group: {error}"));
    if again.beyond.is_some() {
        return;
    }
    assert_eq!((again.pipefail, again.errexit), (end.pipefail, end.errexit));
    let plain = |shown: &[Shown], deeper: usize| -> Vec<(Vec<String>, usize)> {
        shown
            .iter()
            .map(|(words, depth)| (words.iter().map(|word| word.text.to_string()).collect(), depth + deeper))
            .collect()
    };
    assert_eq!(plain(&shown, 1), plain(&inside, 0));
}

/// Reads a script, and returns what is shown of it.
fn read(text: &str) -> (Result<End, Unreadable>, Vec<Shown>) {
    let mut shown = Vec::new();
    let mut last = 0;
    let environment = |name: &str| match name {
        "A" => Some("a"),
        "B" => Some("b c"),
        "C" => Some(""),
        _ => None,
    };
    let work = || {
        shell::read(text, &mut Variables::new(&environment), &mut |simple| {
            assert_eq!(last, 0, "something is behind the final command");
            last += usize::from(simple.is_final);
            assert!(simple.is_final || !simple.is_last);
            shown.push((simple.words.iter().map(Word::kept).collect(), simple.place.depth));
        })
    };
    let (end, steps) = meter::run(meter::Bounds::default(), work).expect("no bounds");
    assert!(steps <= STEPS_PER_BYTE * text.len() as u64 + 100, "{steps} steps of {} bytes", text.len());
    (end, shown)
}

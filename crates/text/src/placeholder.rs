//! Recognises placeholders (`$NUM_NODES`, `<PROJECT>`, `{{ .Values.x }}`).

use crate::meter;

/// Tells whether a scalar contains a placeholder.
///
/// Known forms: `$NAME` and `${NAME}` (envsubst), `$(NAME)` (kustomize, kubelet), `<NAME>` (prose), `{{ … }}`
/// (Helm, Argo, Jinja), `[[name]]` (Go templates with other brackets), `__NAME__` (sed).
#[must_use]
pub fn is_placeholder(text: &str) -> bool {
    meter::spend_text(text);
    let bytes = text.as_bytes();
    if memchr::memchr2(b'_', b'[', bytes).is_some() && (is_underlined(bytes) || is_bracketed(bytes)) {
        return true;
    }
    if memchr::memchr3(b'$', b'{', b'<', bytes).is_none() {
        return false;
    }
    // Search for closing brackets once, from the end: the text may be all opening brackets.
    let closes = |bracket: u8| memchr::memrchr(bracket, bytes).unwrap_or(0);
    let (brace, round) = (closes(b'}'), closes(b')'));
    let braces = memchr::memmem::rfind(bytes, b"}}").unwrap_or(0);
    bytes.iter().enumerate().any(|(at, byte)| {
        let rest = &bytes[at + 1..];
        match (byte, rest.first()) {
            (b'$', Some(b'{')) => brace > at,
            (b'$', Some(b'(')) => round > at,
            (b'$', Some(first)) => first.is_ascii_alphabetic() || *first == b'_',
            (b'{', Some(b'{')) => braces > at,
            (b'<', Some(first)) if first.is_ascii_alphabetic() || *first == b'_' => {
                let is_word = |b: &u8| {
                    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b' ' | b':' | b'/')
                };
                rest.iter().find(|byte| !is_word(byte)) == Some(&b'>')
            }
            _ => false,
        }
    })
}

/// Tells whether a text has capitals between pairs of `_`.
fn is_underlined(text: &[u8]) -> bool {
    memchr::memmem::find_iter(text, b"__").any(|at| {
        let rest = &text[at + 2..];
        let is_name = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
        let name = &rest[..rest.iter().take_while(|byte| is_name(byte)).count()];
        name.first().is_some_and(u8::is_ascii_uppercase) && memchr::memmem::find(name, b"__").is_some()
    })
}

/// Tells whether a text has one word in double brackets. Several words are a test in a shell.
fn is_bracketed(text: &[u8]) -> bool {
    memchr::memmem::find_iter(text, b"[[").any(|at| {
        let rest = text[at + 2..].trim_ascii_start();
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let word = rest.iter().take_while(|byte| is_word(byte)).count();
        rest.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'.')
            && rest[word..].trim_ascii_start().starts_with(b"]]")
    })
}

/// Tells whether an image is certainly a placeholder: a reference has no brackets, no `$`, and no capital
/// letters in its repository. A host before the first `/` may have them, but is not all capitals and has no
/// `_`; a tag may be all capitals, but is not `TAG` or `…_TAG`, and does not begin with `YOUR`.
#[must_use]
pub fn is_no_image(text: &str) -> bool {
    meter::spend_text(text);
    if text.contains(['<', '>', '$', '{', '}', '[', ']']) || is_underlined(text.as_bytes()) {
        return true;
    }
    let repository = text.split('@').next().unwrap_or_default();
    let (path, last) =
        repository.rsplit_once('/').map_or((None, repository), |(path, last)| (Some(path), last));
    let (name, tag) = last.split_once(':').unwrap_or((last, ""));
    let is_yours = |part: &str| part.starts_with("YOUR") && is_shouted(part);
    let is_tag = |tag: &str| tag == "TAG" || tag.ends_with("_TAG") && is_shouted(tag);
    let is_host = |part: &str| part.split('.').any(|label| is_to_replace(label) || is_yours(label));
    let mut around = path.into_iter().flat_map(|path| path.split('/')).enumerate();
    is_shouted(name)
        || is_yours(tag)
        || is_tag(tag)
        || around.any(|(nth, part)| is_shouted(part) || nth == 0 && is_host(part))
}

/// Tells whether a text is a placeholder where a number or a name without capital letters is required:
/// `NUM_NODES`, also as a part of it (`train-JOB_NAME`).
#[must_use]
pub fn is_to_replace(text: &str) -> bool {
    let is_one = |part: &str| part.contains('_') && is_shouted(part);
    is_one(text) || !text.starts_with('-') && text.split(['-', '.']).any(is_one)
}

/// Returns the help for a placeholder: tools replace some, people the others.
#[must_use]
pub fn help(text: &str) -> &'static str {
    if text.contains('$') || text.contains("{{") {
        "lint what the template renders to"
    } else {
        "replace it with the value"
    }
}

/// Tells whether a text is all capitals, as in `YOUR_IMAGE`.
#[must_use]
pub(crate) fn is_shouted(text: &str) -> bool {
    let is_shouted =
        |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    text.trim_start_matches('_').starts_with(|first: char| first.is_ascii_uppercase())
        && text.len() > 1
        && text.bytes().all(is_shouted)
}

#[cfg(test)]
mod tests {
    use super::{help, is_no_image, is_placeholder, is_shouted, is_to_replace};

    #[test]
    fn knows_what_is_no_image() {
        for text in [
            "<ACCOUNT>.dkr.ecr.us-east-1.amazonaws.com/a:1",
            "$IMAGE",
            "r/{{ x }}:1",
            "YOUR_IMAGE",
            "example.com/IMAGE:v1",
            "a:${TAG}",
            "{image}",
            "YOUR_REGISTRY/trainer:v1",
            "gcr.io/PROJECT/a",
            "ACCOUNT_ID.dkr.ecr.us-east-1.amazonaws.com/a:1",
            "REGISTRY/a",
            "reg/a:__MONTH__",
            "a:YOUR_TAG",
            "a:IMAGE_TAG",
            "a:TAG",
            "a:[[tag]]",
            "[[image]]",
            "YOURACR.azurecr.io/a:1",
        ] {
            assert!(is_no_image(text), "{text}");
        }
        for text in [
            "",
            "a",
            "a:LATEST",
            "Example.COM:5000/a/b:V1",
            "a@sha256:ABC",
            "LOCAL:5000/a",
            "my_image",
            "a/Image",
            "X",
            "a.b/c/d:V_1",
            "A/b",
            "a:STAG",
            "a:my_TAG",
            "a:Yours",
            "a/b__c:1__2",
            "Yours.azurecr.io/a",
        ] {
            assert!(!is_no_image(text), "{text}");
        }
        assert!(
            is_to_replace("NUM_NODES")
                && !is_to_replace("TRUE")
                && is_to_replace("debug-TARGET_NODE_NAME")
                && !is_to_replace("my_Name-a")
                && !is_to_replace("-A_B")
                && !is_to_replace("num_nodes")
        );
        assert!(
            help("${N}") == help("{{ x }}")
                && help("<your-registry>") == help("NUM_NODES")
                && help("$N") != help("<N>")
        );
        assert!(
            is_shouted("TARGET_NODE_NAME") && !is_shouted("Train") && !is_shouted("X") && !is_shouted("-A")
        );
    }

    #[test]
    fn knows_placeholders_from_values() {
        for text in [
            "$NUM_NODES",
            "${NUM_NODES}",
            "${N:-4}",
            "$(NODES)",
            "<PROJECT>",
            "<your claim>",
            "{{ .Values.n }}",
            "a-${B}-c",
            "__MONTH__",
            "report-__YEAR_2__",
            "[[size]]",
            "a-[[ .Values.size ]]",
        ] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in [
            "",
            "4",
            "$",
            "$5",
            "a < b",
            "<>",
            "{}",
            "{{",
            "x$",
            "never",
            "1 > 0 < 2",
            "__main__",
            "__",
            "A__B",
            "__A",
            "__A_",
            "[[]]",
            "[[ -f x ]]",
            "[[a b]]",
            "[a]",
            "[[",
        ] {
            assert!(!is_placeholder(text), "{text}");
        }
    }
}

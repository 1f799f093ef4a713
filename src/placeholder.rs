//! Tells values that some tool is meant to replace (`$NUM_NODES`, `<PROJECT>`, `{{ .Values.x }}`) from values.

/// Tells whether a scalar is, or contains, a stand-in for a value to come.
///
/// Known forms: `$NAME` and `${NAME}` (envsubst), `$(NAME)` (kustomize, kubelet), `<NAME>` (prose), `{{ … }}` (Helm, Argo, Jinja).
#[must_use]
pub fn is_placeholder(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | ':' | '/');
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| {
        let rest = &text.as_bytes()[at + 1..];
        match byte {
            b'$' => match rest.first() {
                Some(b'{') => rest.contains(&b'}'),
                Some(b'(') => rest.contains(&b')'),
                Some(first) => first.is_ascii_alphabetic() || *first == b'_',
                None => false,
            },
            b'{' => rest.first() == Some(&b'{') && text[at..].contains("}}"),
            b'<' => text[at + 1..]
                .split_once('>')
                .is_some_and(|(name, _)| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(word)),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::is_placeholder;

    #[test]
    fn knows_stand_ins_from_values() {
        for text in ["$NUM_NODES", "${NUM_NODES}", "${N:-4}", "$(NODES)", "<PROJECT>", "<your claim>", "{{ .Values.n }}", "a-${B}-c"] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["", "4", "$", "$5", "a < b", "<>", "{}", "{{", "x$", "never", "1 > 0 < 2"] {
            assert!(!is_placeholder(text), "{text}");
        }
    }
}

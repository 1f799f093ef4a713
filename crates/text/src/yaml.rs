//! YAML and JSON as kubectl reads them, with the byte span of every key and value. The only entry to YAML.
//!
//! [`split()`] separates documents, [`parse`] parses one, [`documents`] does both. Chunks can be parsed in
//! parallel.
//!
//! ```text
//! bytes ──split──> chunks ──tree, json──> syntax tree ──resolve──> value
//!                                              └──locate──> spans
//! ```

mod document;
mod edit;
mod error;
mod json;
mod limits;
mod locate;
mod print;
mod quotes;
mod read;
mod resolve;
mod split;
mod template;
mod tree;

pub use document::{Document, Duplicate, Duplicates, Span};
pub use edit::{Draft, Edit, Excerpt, Withheld, edit};
pub use error::{SyntaxError, SyntaxErrorKind};
pub use limits::Limits;
pub use read::{Documents, documents, parse, split};
pub use split::{Chunk, Chunks};

use crate::value::Value;

/// Prints a value as a YAML document.
#[must_use]
pub fn print(value: &Value) -> String {
    print::PrintStyle::PLAIN.block(value, 0) + "\n"
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::meter;
    use crate::pointer::Pointer;
    use crate::value::json;

    fn read_all(source: &[u8]) -> Vec<Result<Document, SyntaxError>> {
        documents(source).collect()
    }

    fn value(source: &str) -> Value {
        documents(source.as_bytes()).next().unwrap().unwrap().value
    }

    #[track_caller]
    fn error(source: &str, kind: SyntaxErrorKind, at: &str) -> String {
        let error = documents(source.as_bytes())
            .find_map(|document| document.map_or_else(Some, |document| document.refused))
            .unwrap();
        assert_eq!((error.kind, &source[error.span.clone()]), (kind, at), "{error}");
        error.message
    }

    #[test]
    fn errors_point_at_the_place() {
        use SyntaxErrorKind::{Limit, Syntax, Template};
        error("a: 1\nb:\n\tc: 1\n", Syntax, "\t");
        error("a: 1\n  \t# comment\n", Syntax, "\t");
        error("a: [1, 2\nb: 1\n", Syntax, "[");
        error("a: [äb: 1\nc: 2\n]d}\n", Syntax, "[");
        error("a: 'x\n", Syntax, "'x");
        error("a: *nope\n", Syntax, "*nope");
        error("a: @x\n", Syntax, "@x");
        error("a: b: c\n", Syntax, ":");
        error("a: \"\\/\"\n", Syntax, "\\/");
        error("a: .inf\n", Syntax, ".inf");
        error("? [a]\n: b\n", Syntax, "[a]");
        error("~: b\n", Syntax, "~");
        error("a:\n  <<: 5\n", Syntax, "5");
        error("a: &a\n  b: *a\n", Syntax, "*a");
        error("a: \"\u{7}\"\n", Syntax, "\u{7}");
        error("{\"a\": 1 \"b\": 2}", Syntax, "\"");
        error("{\"a\": 1}\n{\"b\": 2}\n{\"c\": tru}", Syntax, "t");
        error("a: 1\n----\nb: 2\n", Syntax, "----");
        error("a: 1\n--- {b: 2}\n", Syntax, "--- {b: 2}");
        error("%YAML 1.1\n---\na: 1\n", Syntax, "%YAML 1.1");
        error("a: {{ .Values.x }}\nb: 1\n", Template, "{{ .Values.x }}");
        error("{{- if .x }}\na: 1\n{{- end }}\n", Template, "{{- if .x }}");
        error("a: 1\n{% if x %}\nb: 2\n", Template, "{% if x %}");
        error(&format!("a: {}1\n", "[".repeat(200)), Limit, "[");
    }

    #[test]
    fn a_document_of_brackets_alone_has_too_many_values() {
        use SyntaxErrorKind::Dense;
        let most = Limits::default().dense_nodes;
        // The list is a value, too.
        let list = |items: usize, item: &str| format!("[{}]", vec![item; items].join(","));
        for item in ["1", "a", "[]", "\"\""] {
            assert!(documents(list(most - 1, item).as_bytes()).all(|read| read.is_ok()), "{item}");
            let said = error(&list(most, item), Dense, if item == "[]" { "" } else { item });
            assert_eq!(said, "the document has more than 180,000 keys and values");
        }
        // As JSON, and beside other documents.
        let json = format!("{{\"a\":{}}}\n{{\"b\":1}}", list(most, "1"));
        let read = read_all(json.as_bytes());
        assert!(read[0].as_ref().is_err_and(|error| error.kind == Dense) && read[1].is_ok());
        // A longer document may have more of them: one for six bytes, and two million in all.
        error(&list(most, "abcd"), Dense, "abcd");
        assert!(documents(list(most, "abcdef").as_bytes()).all(|read| read.is_ok()));
        let limits = Limits::default();
        assert_eq!(
            [0, 8 << 20, 30 << 20].map(|bytes| limits.nodes_in(bytes)),
            [180_000, 1_398_101, 2_000_000]
        );
        // What aliases refer to counts as often as they do.
        let aliases = |times: usize| {
            let own = list(5_000, "1");
            format!("a: &a {}\nb: {own}\nc: {}\n", list(1_000, "1"), list(times, "*a"))
        };
        assert!(documents(aliases(170).as_bytes()).all(|read| read.is_ok()));
        let said = error(&aliases(180), Dense, "*a");
        assert_eq!(said, "aliases expand the document to more than 180,000 keys and values");
    }

    #[test]
    fn text_in_quotes_is_indented_anyhow() {
        for (source, expected) in [
            ("a: 'one\ntwo'\nb: 3\n", json!({"a": "one two", "b": 3})),
            (
                "a:\n  b: \"one\ntwo\n\n \t three \t\n\t four\"\n  c: 3\n",
                json!({"a": {"b": "one two\nthree four", "c": 3}}),
            ),
            ("a:\n  b: \"\n\none\n\"\n", json!({"a": {"b": "\none "}})),
            ("a:\n  b: \"one\\\ntwo \\\n\\  three\"\n", json!({"a": {"b": "onetwo   three"}})),
            ("a:\n- - 'b: c\n- d\n# ''e''\n'\n- f\n", json!({"a": [["b: c - d # 'e' "], "f"]})),
            (
                "a: &x \"é\nü\"\nb: [*x, \"c\nd\", {e: \"f\ng\"}]\n",
                json!({"a": "é ü", "b": ["é ü", "c d", {"e": "f g"}]}),
            ),
            (
                "a:\r\n  b: \"one\r\ntwo\r\n\r\nthree\"\r\nc: 1\r\n",
                json!({"a": {"b": "one two\nthree"}, "c": 1}),
            ),
            ("\u{FEFF}a:\n  b: \"one\u{85}two\nthree\"\n", json!({"a": {"b": "one two three"}})),
            // What opens no quotes: in plain text, blocks of text and comments.
            (
                "a:\n  b: \"x\ny\"\n  c: it's \"\n  d: |\n    \"\n    '\n  # \"\n  e: 1\n",
                json!({"a": {"b": "x y", "c": "it's \"", "d": "\"\n'\n", "e": 1}}),
            ),
            // Other things that the parser is stricter about.
            ("a: \"it\\'s \\\\'\\n\"\n", json!({"a": "it's \\'\n"})),
            ("a: \"b\"# comment\nc: 'd'# \"\n", json!({"a": "b", "c": "d"})),
            ("? 'a\nb'\n: c\n", json!({"a b": "c"})),
        ] {
            assert_eq!(value(source), expected, "{source:?}");
        }
    }

    /// As kubectl reads them.
    #[test]
    fn comments_may_follow_brackets_and_quotes_at_once() {
        for (source, expected) in [
            ("a: {b: 1}# c\nd: [1]#\n", json!({"a": {"b": 1}, "d": [1]})),
            ("a: {b: 1}# c: d", json!({"a": {"b": 1}})),
            ("a: [1,# é\n 2 ,#\n [# d ]\n 3]# e\n]# f\n", json!({"a": [1, 2, [3]]})),
            ("a: {# \"\n b: {}# }\n , c: ''# '\n }\n# d\ne: 1\n", json!({"a": {"b": {}, "c": ""}, "e": 1})),
            ("- {a: \"x\ny\"}# c\r\n- &x !x [1]# d\r\n- *x\r\n", json!([{"a": "x y"}, [1], [1]])),
            ("a: |# c\n  x\nb: >-# d\n  y\nc: |2# e\n   z\n", json!({"a": "x\n", "b": "y", "c": " z\n"})),
            ("{a: 1}# c\n", json!({"a": 1})),
            // What is no comment: in plain text and in quotes.
            (
                "a: {b: 1# c\n}\nd: x]#,# y\ne: ']# z'\nf: [1]# g\n",
                json!({"a": {"b": "1# c"}, "d": "x]#,# y", "e": "]# z", "f": [1]}),
            ),
            ("a: \"\"\nb: [\"\",# c\n '[# d', \"\"]# e\n", json!({"a": "", "b": ["", "[# d", ""]})),
            ("a: |\n  [1]# b\nc: [1]# d\n", json!({"a": "[1]# b\n", "c": [1]})),
        ] {
            let document = documents(source.as_bytes())
                .next()
                .unwrap()
                .unwrap_or_else(|error| panic!("{source:?}: {error:?}"));
            assert_eq!(document.value, expected, "{source:?}");
        }
        let source = "a: {b: 1}# c\nd: [é]# ü\ne: [f,# g\n h]\n";
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        for (place, text) in [("/a", "{b: 1}"), ("/d", "[é]"), ("/e", "[f,# g\n h]"), ("/e/1", "h")] {
            let at = document.locate(&Pointer::parse(place, &document.value).unwrap()).unwrap();
            assert_eq!(&source[at.value], text);
        }
        for source in [
            "a: &x [1]# c\nb: *x# d\n",
            "a: {b: 1}# c\n  x: 1\n",
            "a:# c\n  b: 1\n",
            "a: ]# c\n",
            "a: [1]# c\nb: {c# d\n: 1\n",
        ] {
            assert!(documents(source.as_bytes()).any(|document| document.is_err()), "{source:?}");
        }
    }

    #[test]
    fn errors_in_and_behind_text_in_quotes_point_at_the_place() {
        use SyntaxErrorKind::Syntax;
        error("a:\n  b: \"one\ntwo\n  c: 3\n", Syntax, "\"one");
        error("a:\n  b: \"it\\'s\n\\'\n\\q\"\n", Syntax, "\"it\\'");
        error("a:\n  b: \"one\ntwo\"\n  c: @x\n", Syntax, "@x");
        error("a:\n  b: 'one\ntwo' three\n", Syntax, "three");
        error("a:\n  b: 'one\n...\n'\n", Syntax, "'one");
        error("'a\nb': c\n", Syntax, ":");
        for key in ["{'a\nb': c}\n", "x:\n  'a\nb' : c\n", "x:\n  ? 'a\nb' : c\n"] {
            error(key, Syntax, "'a\nb'");
        }
    }

    #[test]
    fn a_broken_document_costs_no_other() {
        let all = read_all(b"a: 1\n---\nb: [\n---\nc: 1\n---\nd: \xFF\n---\ne: 1\n");
        let good: Vec<Value> = all.iter().flatten().map(|document| document.value.clone()).collect();
        assert_eq!(good, [json!({"a": 1}), json!({"c": 1}), json!({"e": 1})]);
        assert_eq!(all.iter().flatten().map(|document| document.index).collect::<Vec<_>>(), [0, 2, 4]);
        let kinds: Vec<SyntaxErrorKind> =
            all.iter().filter_map(|document| document.as_ref().err()).map(|error| error.kind).collect();
        assert_eq!(kinds, [SyntaxErrorKind::Syntax, SyntaxErrorKind::Encoding]);
        let all = read_all(b"{\"a\":1}\n{\"b\":2}\n{\"c\":\n{\"d\":4}\n");
        assert_eq!(all.iter().filter(|document| document.is_ok()).count(), 3);
    }

    #[test]
    fn what_kubectl_refuses_is_read_all_the_same() {
        for source in ["--- {a: 1}\n", "%YAML 1.1\n%TAG !k! tag:example.com,2026:\n---\na: 1\n"] {
            let document = documents(source.as_bytes()).next().unwrap().unwrap();
            assert_eq!(document.value, json!({"a": 1}));
            assert!(document.refused.is_some());
        }
    }

    #[test]
    fn duplicates_are_reported() {
        let source = "a:\n  - b: 1\n    b: 2\n    c: {d: 1, \"d\": 2, d: 3}\n1: x\n'1': y\n";
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        assert_eq!(document.value, json!({"a": [{"b": 2, "c": {"d": 3}}], "1": "x"}));
        let found: Vec<(String, usize, usize)> = document
            .duplicates()
            .first(9)
            .iter()
            .map(|twice| (twice.pointer.to_string(), twice.dropped.start, twice.kept.start))
            .collect();
        let found: Vec<(&str, usize, usize)> =
            found.iter().map(|(at, dropped, kept)| (at.as_str(), *dropped, *kept)).collect();
        assert_eq!(found, [("a[0].b", 7, 16), ("a[0].c.d", 29, 43), ("a[0].c.d", 35, 43), ("1", 54, 49)]);
    }

    #[test]
    fn duplicates_of_an_item_take_no_look_at_those_of_others() {
        let steps = |count: usize| {
            let source = "- {a: 1, a: 2, b: {c: 1, c: 2}}\n".repeat(count);
            let document = documents(source.as_bytes()).next().unwrap().unwrap();
            let all = || {
                (0..count)
                    .map(|item| document.duplicates_within(&(Pointer::root() / item)).first(9).len())
                    .sum::<usize>()
            };
            let (found, steps) = meter::run(meter::Bounds::default(), all).unwrap();
            assert_eq!(found, 2 * count);
            steps
        };
        let (few, many) = (steps(500), steps(2000));
        assert!(many <= 6 * few, "{many} steps for four times the input of {few}");
    }

    #[test]
    fn aliases_and_merges_are_located_where_they_stand() {
        let source = "base: &b {x: 1}\nuse: *b\nmore: {<<: *b, w: 2}\nown: {<<: {z: 3}}\n";
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        let at = |path: &str| {
            let span = document.locate(&Pointer::parse(path, &document.value).unwrap()).expect(path);
            (span.key.map(|key| &source[key]), source[span.value].to_owned(), span.via_alias)
        };
        assert_eq!(at("/base"), (Some("base"), "&b {x: 1}".into(), false));
        assert_eq!(at("/use"), (Some("use"), "*b".into(), true));
        assert_eq!(at("/use/x"), (None, "*b".into(), true));
        assert_eq!(at("/more/x"), (None, "*b".into(), true));
        assert_eq!(at("/more/w"), (Some("w"), "2".into(), false));
        assert_eq!(at("/own/z"), (Some("z"), "3".into(), false));
    }

    #[test]
    fn spans_are_exact() {
        let source = "a:\nb: |\n  x\n  y\n\nc: !!str &s 1 # one\nd:\n- 'q'\n-\n  - {e: \"f\", g}\n";
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        let at = |path: &str| document.locate(&Pointer::parse(path, &document.value).unwrap()).unwrap().value;
        assert_eq!(at("/a"), 2..2);
        for (path, text) in [
            ("/b", "|\n  x\n  y"),
            ("/c", "!!str &s 1"),
            ("/d/0", "'q'"),
            ("/d/1/0", "{e: \"f\", g}"),
            ("/d/1/0/e", "\"f\""),
        ] {
            assert_eq!(&source[at(path)], text, "{path}");
        }
        assert!(source[at("/d")].starts_with("- 'q'") && source[at("/d")].ends_with('}'));
        assert_eq!(at(""), 0..source.len() - 1);
    }

    #[test]
    fn text_is_read_as_yaml_1_1() {
        assert_eq!(
            value("a: yes\nb: 0777\nc: 1.0\nd: 1_000\ne: 12:30\nf: 1e400\n"),
            json!({"a": true, "b": 511, "c": 1, "d": 1000, "e": "12:30", "f": "1e400"})
        );
        assert_eq!(
            value("a: !!binary aGk=\nb: ! 1\nc: !x 1\nd: !\n"),
            json!({"a": "hi", "b": 1, "c": "1", "d": ""})
        );
        assert_eq!(value("0x10: a\n1000000.0: b\nyes: c\n"), json!({"16": "a", "1e+06": "b", "true": "c"}));
        assert_eq!(value("a: |\n  x"), json!({"a": "x\n"}));
    }

    /// Inputs that are made to hurt: each must be read or rejected at once, whatever the answer is.
    #[test]
    fn hostile_inputs_are_cheap() {
        let bomb = (1..30).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |bomb, level| {
            let below = format!("*a{}", level - 1);
            bomb + &format!("a{level}: &a{level} [{}]\n", [below.as_str(); 9].join(","))
        });
        let merges = (1..40).fold("a0: &a0 {x: 1}\n".to_owned(), |bomb, level| {
            bomb + &format!("a{level}: &a{level} {{<<: [*a{0}, *a{0}]}}\n", level - 1)
        });
        let deep: String = (0..100_000).map(|level| format!("{}a:\n", " ".repeat(level % 2000))).collect();
        let inputs = [
            ("alias bomb", bomb),
            ("merge bomb", merges),
            ("self-merge", "a: &a\n  <<: *a\n".to_owned()),
            ("open lists", "[".repeat(100_000)),
            ("open mappings", "{a: ".repeat(100_000)),
            ("JSON lists", format!("{{\"a\": {}", "[".repeat(100_000))),
            ("block lists", "- ".repeat(100_000)),
            ("block mappings", deep),
            ("question marks", "? ".repeat(100_000)),
            ("equal keys", "a: 1\n".repeat(60_000)),
            ("many keys", (0..60_000).map(|key| format!("k{key}: 1\n")).collect()),
            ("equal keys in lists", "- {a: 1, a: 2}\n".repeat(30_000)),
            ("separators", "---\n".repeat(50_000)),
            ("bad separators", "----\n".repeat(20_000)),
            ("tabs", format!("a:{}1\n", "\t".repeat(200_000))),
            ("quotes", "\"".repeat(100_000)),
            ("texts of two lines", "- - \"a\nb\"\n".repeat(10_000)),
            ("a text of many lines", format!("a:\n  b: \"{}\"\n", "x\n".repeat(100_000))),
            (
                "texts of two lines, and one that never ends",
                format!("{}- \"", "- - \"a\nb\"\n".repeat(10_000)),
            ),
            ("apostrophes", format!("a: \"{}\"\n", "\\'".repeat(100_000))),
            ("a long line", format!("a: {}\n", "x ".repeat(200_000))),
            ("long keys", format!("{}: 1\n", "x".repeat(200_000))),
            ("anchors", (0..20_000).map(|anchor| format!("a{anchor}: &a{anchor} 1\n")).collect()),
            ("NUL", "\0".repeat(10_000)),
            ("templates", "{{ x }}\n".repeat(20_000)),
            ("comments", "#\n".repeat(200_000)),
        ];
        for (name, source) in inputs {
            let start = Instant::now();
            for document in documents(source.as_bytes()) {
                match document {
                    Ok(document) => _ = document.locate(&Pointer::root()),
                    Err(error) => assert!(error.span.end <= source.len()),
                }
            }
            // An unoptimised build on a busy machine still has to get by.
            assert!(start.elapsed() < Duration::from_secs(5), "{name} took {:?}", start.elapsed());
        }
        for source in [&b"\xFF\xFEa\0:\0"[..], b"\xFE\xFF\0a", b"\xC3\x28", b"a: \xF0\x9F"] {
            assert!(
                read_all(source)
                    .iter()
                    .any(|read| read.as_ref().is_err_and(|error| error.kind == SyntaxErrorKind::Encoding))
            );
        }
    }
}

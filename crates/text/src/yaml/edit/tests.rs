use super::*;
use crate::value::json;

fn at(source: &str, index: usize) -> Document {
    super::super::documents(source.as_bytes()).nth(index).unwrap().unwrap()
}

fn try_make(source: &str, ops: &[Op]) -> Result<String, Withheld> {
    let edits = edit(source.as_bytes(), &at(source, 0), ops)?;
    let mut out = source.to_owned();
    for edit in edits.into_iter().rev() {
        out.replace_range(edit.span, &edit.text);
    }
    Ok(out)
}

#[track_caller]
fn check(source: &str, ops: &[Op], expected: &str) {
    assert_eq!(try_make(source, ops).as_deref(), Ok(expected), "{source}");
}

fn p(path: &str, source: &str) -> Pointer {
    Pointer::parse(path, &at(source, 0).value).unwrap()
}

#[track_caller]
fn add(source: &str, path: &str, value: Value, expected: &str) {
    check(source, &[Op::Add(p(path, source), value)], expected);
}

#[track_caller]
fn replace(source: &str, path: &str, value: Value, expected: &str) {
    check(source, &[Op::Replace(p(path, source), value)], expected);
}

#[track_caller]
fn remove(source: &str, path: &str, expected: &str) {
    check(source, &[Op::Remove(p(path, source))], expected);
}

#[test]
fn adds_keys_to_blocks() {
    add("a: 1\n", "/b", json!(2), "a: 1\nb: 2\n");
    add("a: 1", "/b", json!(2), "a: 1\nb: 2");
    add("a: 1 # one\n# end\n", "/b", json!("x"), "a: 1 # one\nb: x\n# end\n");
    add(
        "s:\n    t: 1\n\n# next\nu: 1\n",
        "/s/v",
        json!({"w": [1, {"x": "yes"}]}),
        "s:\n    t: 1\n    v:\n        w:\n            - 1\n            - x: \"yes\"\n\n# next\nu: 1\n",
    );
    add("l:\n- a: 1\n- a: 2\n", "/l/0/b", json!([1]), "l:\n- a: 1\n  b:\n  - 1\n- a: 2\n");
    add(
        "a: 1\r\nb:\r\n  c: 1\r\n",
        "/b/d",
        json!({"k": null}),
        "a: 1\r\nb:\r\n  c: 1\r\n  d:\r\n    k: null\r\n",
    );
    add("a: |\n  text\n\nb: 1\n", "/c", json!("n"), "a: |\n  text\n\nb: 1\nc: \"n\"\n");
    add("s:\n  a: |+\n    text\n\nb: 1\n", "/s/c", json!(1), "s:\n  a: |+\n    text\n\n  c: 1\nb: 1\n");
    add("\"a\": \"1\"\n", "/b", json!("x"), "\"a\": \"1\"\n\"b\": x\n");
    add("a:\n", "/b", json!(1), "a:\nb: 1\n");
    add("\u{FEFF}a: 1\n", "/b", json!(1), "\u{FEFF}a: 1\nb: 1\n");
    add("a: 1\n...\n", "/b", json!(1), "a: 1\nb: 1\n...\n");
}

#[test]
fn what_is_short_goes_above_what_is_long() {
    let long = "template:\n    spec:\n      containers:\n      - name: a\n  more: {}\n";
    let with = |before: &str, added: &str| format!("spec:\n{before}{added}  {long}");
    for (before, added) in [
        ("  a: 1 # one\n", "  l: 2\n"),
        ("  a: \"x\n y\"\n", "  l: 2\n"),
        ("  a:\n", "  l: 2\n"),
        ("  a: |\n    text\n", "  l: 2\n"),
        ("  a: |+\n    text\n\n", "  l: 2\n"),
        ("", "  l: 2\n"),
        ("# far\n\n", "  l: 2\n"),
    ] {
        add(&with(before, ""), "/spec/l", json!(2), &with(before, added));
    }
    // A comment stays above what it is about.
    let comment = "  # the pods\n  # of it\n";
    add(
        &with(&format!("  a: 1\n{comment}"), ""),
        "/spec/l",
        json!(2),
        &with(&format!("  a: 1\n  l: 2\n{comment}"), ""),
    );
    add(&with(comment, ""), "/spec/l", json!(2), &with(&format!("  l: 2\n{comment}"), ""));
    add(
        &with(&format!("  a: 1\n  b:\n    c: 1\n{comment}"), ""),
        "/spec/l",
        json!({"x": 1}),
        &with(&format!("  a: 1\n  b:\n    c: 1\n  l:\n    x: 1\n{comment}"), ""),
    );
    add(
        &with("  a: 1\n", ""),
        "/spec/l",
        json!({"rules": [{"x": 1}]}),
        &with("  a: 1\n", "  l:\n    rules:\n    - x: 1\n"),
    );
    // A scalar stays with the scalars; a list goes to the end.
    add(
        &with("  a: 1\n  b:\n    c: 1\n", ""),
        "/spec/l",
        json!(2),
        &with("  a: 1\n  l: 2\n  b:\n    c: 1\n", ""),
    );
    add(&with("  a: 1\n", ""), "/spec/l", json!([1]), &format!("{}  l:\n  - 1\n", with("  a: 1\n", "")));
    // In an item, where the dash is, and in brackets.
    add("- template: {a: {b: {c: {}}}}\n", "/0/l", json!(2), "- l: 2\n  template: {a: {b: {c: {}}}}\n");
    add("{t: {a: {b: {c: {}}}}}\n", "/l", json!(2), "{l: 2, t: {a: {b: {c: {}}}}}\n");
    add("s: {a: 1, t: {a: {b: {c: {}}}}}\n", "/s/l", json!(2), "s: {a: 1, l: 2, t: {a: {b: {c: {}}}}}\n");
    let json = "{\n  \"a\": 1,\n  \"t\": {\"a\": {\"b\": {\"c\": {}}}}\n}\n";
    add(json, "/l", json!(2), &json.replace("1,\n", "1,\n  \"l\": 2,\n"));
    add(&json.replace("  \"a\": 1,\n", ""), "/l", json!(2), &json.replace("\"a\": 1", "\"l\": 2"));
    add(
        &format!("\u{FEFF}{}", with("", "").replace('\n', "\r\n")),
        "/spec/l",
        json!(2),
        &format!("\u{FEFF}{}", with("", "  l: 2\n").replace('\n', "\r\n")),
    );
}

/// kubectl adds a line break to the last line, other clients do not: the value stays the same for both.
#[test]
fn nothing_is_written_below_a_text_that_ends_with_the_file() {
    let open = "a: 1\nb:\n- n: x\n  v: |\n    one\n    two";
    add(open, "/c", json!(2), "a: 1\nc: 2\nb:\n- n: x\n  v: |\n    one\n    two");
    add(open, "/b/0/c", json!(2), "a: 1\nb:\n- n: x\n  c: 2\n  v: |\n    one\n    two");
    add("a: >\n  one", "/l", json!([1]), "l:\n  - 1\na: >\n  one");
    add("# of a\na: |+\n  one\n\n  ", "/b", json!(1), "b: 1\n# of a\na: |+\n  one\n\n  ");
    let list = "- |\n  one";
    assert_eq!(try_make(list, &[Op::Add(p("/1", list), json!(1))]), Err(Withheld::Layout(p("/1", list))));
    check(list, &[Op::Add(p("/0", list), json!(1))], "- 1\n- |\n  one");
    // The text before it would end with the file.
    let before = "a: |\n  one\nb: 1";
    assert_eq!(try_make(before, &[Op::Remove(p("/b", before))]), Err(Withheld::Layout(p("/b", before))));
    // Removed or replaced on purpose, and texts that all clients read alike.
    remove("a: 1\nb: |\n  one", "/b", "a: 1");
    replace("a: 1\nb: |\n  one", "/b", json!(2), "a: 1\nb: 2");
    add("a: |-\n  one", "/b", json!(1), "a: |-\n  one\nb: 1");
    add(
        "a: |\n  one\n  # no text\n# a comment",
        "/b",
        json!(1),
        "a: |\n  one\n  # no text\nb: 1\n# a comment",
    );
    add("a: |\n  one\n", "/b", json!(1), "a: |\n  one\nb: 1\n");
}

#[test]
fn adds_keys_to_brackets() {
    add("a: {}\n", "/a/b", json!(1), "a: {b: 1}\n");
    add("a: { }\n", "/a/b", json!(1), "a: {b: 1}\n");
    add("a: { b: 1 }\n", "/a/c", json!({"d": [1]}), "a: { b: 1, c: {d: [1]} }\n");
    add("a: {b: 1,}\n", "/a/c", json!(2), "a: {b: 1, c: 2}\n");
    add(
        "a: {\n  b: 1, # one\n  c: 2 # two\n}\n",
        "/a/d",
        json!(3),
        "a: {\n  b: 1, # one\n  c: 2, # two\n  d: 3\n}\n",
    );
    add("a: {\n  b: 1,\n}\n", "/a/d", json!({"e": 3}), "a: {\n  b: 1,\n  d: {\n    e: 3\n  },\n}\n");
    add("{\"a\":1,\"b\":[]}", "/c", json!({"d": ["x", 1]}), "{\"a\":1,\"b\":[],\"c\":{\"d\":[\"x\",1]}}");
    add(
        "{\n    \"a\": 1\n}\n",
        "/c",
        json!({"d": ["x"]}),
        "{\n    \"a\": 1,\n    \"c\": {\n        \"d\": [\n            \"x\"\n        ]\n    }\n}\n",
    );
    add("{\"a\": {}, \"b\": 1}", "/a/c", json!("y"), "{\"a\": {\"c\": \"y\"}, \"b\": 1}");
    add(
        "# JSON in YAML\n{\"a\": \"x\"}\n",
        "/b",
        json!("y"),
        "# JSON in YAML\n{\"a\": \"x\", \"b\": \"y\"}\n",
    );
}

#[test]
fn inserts_into_lists() {
    add(
        "a:\n- 1\n- 2 # two\nb: 1\n",
        "/a/2",
        json!({"x": 1, "z": [2]}),
        "a:\n- 1\n- 2 # two\n- x: 1\n  z:\n  - 2\nb: 1\n",
    );
    add("a:\n  # first\n  - 1\n  - 2\n", "/a/0", json!("n"), "a:\n  # first\n  - \"n\"\n  - 1\n  - 2\n");
    add("a:\n  - 1 # one\n  - 2\n", "/a/1", json!(5), "a:\n  - 1 # one\n  - 5\n  - 2\n");
    add("a: []\n", "/a/0", json!({"k": 1}), "a: [{k: 1}]\n");
    add("a: [1, 2]\n", "/a/2", json!("x,y"), "a: [1, 2, \"x,y\"]\n");
    add("a: [1, 2]\n", "/a/1", json!(5), "a: [1, 5, 2]\n");
    add(
        "{\n \"a\": [\n  1\n ]\n}",
        "/a/1",
        json!({"b": 1}),
        "{\n \"a\": [\n  1,\n  {\n   \"b\": 1\n  }\n ]\n}",
    );
    add("{\n \"a\": [\n  1\n ]\n}", "/a/0", json!(0), "{\n \"a\": [\n  0,\n  1\n ]\n}");
    add("- - 1\n  - 2\n- 3\n", "/0/2", json!(4), "- - 1\n  - 2\n  - 4\n- 3\n");
}

#[test]
fn replaces() {
    replace("a: Always # why\n", "/a", json!("Never"), "a: Never # why\n");
    replace("a: 'x'\nb: \"y\"\n", "/a", json!("z"), "a: 'z'\nb: \"y\"\n");
    replace("a: 'x'\n", "/a", json!(3), "a: 3\n");
    replace("a:\nb: 1\n", "/a", json!(3), "a: 3\nb: 1\n");
    replace("a:   # none\nb: 1\n", "/a", json!({"c": 1}), "a:   # none\n  c: 1\nb: 1\n");
    replace("a: null # none\nb: 1\n", "/a", json!({"c": 1}), "a: # none\n  c: 1\nb: 1\n");
    replace("a: null\nb: 1\n", "/a", json!([1]), "a:\n  - 1\nb: 1\n");
    replace("a: {b: 1}\n", "/a/b", json!({"c": 1}), "a: {b: {c: 1}}\n");
    replace("a: |\n  x\n  y\nb: 1\n", "/a", json!("z"), "a: z\nb: 1\n");
    replace(
        "a:\n- |\n    x\n     y\n\n    z\n- b\n",
        "/a/0",
        json!("w\nx\n  y\n\nz\n"),
        "a:\n- |\n    w\n    x\n      y\n\n    z\n- b\n",
    );
    replace("a: |-\n  x\n", "/a", json!("w\nx"), "a: |-\n  w\n  x\n");
    replace("a: |\n  x\n", "/a", json!("w\nx"), "a: \"w\\nx\"\n");
    replace("a: |-\n  x\n", "/a", json!(" w\nx"), "a: \" w\\nx\"\n");
    replace("a:\n  # c\n  b: 1\n  d: 2\ne: 1\n", "/a", json!(5), "a: 5\n  # c\ne: 1\n");
    replace("a:\n  b: 1\n", "/a", json!({"c": [1]}), "a:\n  c:\n    - 1\n");
    replace("- a: 1\n  b: 2\n- 3\n", "/0", json!(1), "- 1\n- 3\n");
    replace("-\n- 3\n", "/0", json!({"x": 1}), "- x: 1\n- 3\n");
    replace("a: !!str 1\n", "/a", json!(1), "a: 1\n");
    replace("a: &x 1\n", "/a", json!(2), "a: &x 2\n");
    replace("a: &x 1\nb: *x\n", "/b", json!(2), "a: &x 1\nb: 2\n");
    replace("{\"a\": [1, \"b\"]}", "/a/1", json!(null), "{\"a\": [1, null]}");
    replace("{a, b: 1}", "/a", json!(1), "{a: 1, b: 1}");
}

#[test]
fn removes() {
    remove("a: 1\nb: 2 # two\nc: 3\n", "/b", "a: 1\nc: 3\n");
    remove("a: 1\nb: 2", "/b", "a: 1");
    remove("a:\n  b: 1\nc: 3\n", "/a/b", "a: {}\nc: 3\n");
    remove("a:\n  b: |\n    x\n  c: 3\n", "/a/b", "a:\n  c: 3\n");
    remove("- a: 1\n  b: 2\n", "/0/a", "- b: 2\n");
    remove("- a: 1\n", "/0/a", "- {}\n");
    remove("a:\n- 1\n- 2\n", "/a/0", "a:\n- 2\n");
    remove("a:\n- 1\nb: 1\n", "/a/0", "a: []\nb: 1\n");
    remove("a: {b: 1, c: 2}\n", "/a/b", "a: {c: 2}\n");
    remove("a: {b: 1, c: 2}\n", "/a/c", "a: {b: 1}\n");
    remove("a: {b: 1}\n", "/a/b", "a: {}\n");
    remove("a: 1\nb: 2\na: 3\n", "/a", "b: 2\n");
    remove("{\n  \"a\": 1,\n  \"b\": 2\n}\n", "/b", "{\n  \"a\": 1\n}\n");
    remove("{\n  \"a\": 1,\n  \"b\": 2\n}\n", "/a", "{\n  \"b\": 2\n}\n");
}

#[test]
fn a_key_is_renamed_where_it_stands() {
    let renamed = |source: &str, path: &str, to: &str, expected: &str| {
        let from = p(path, source);
        let value = from.find(&at(source, 0).value).unwrap().clone();
        let target = from.parent().unwrap().key(to);
        check(source, &[Op::Add(target, value), Op::Remove(from)], expected);
    };
    renamed(
        "s:\n  # why\n  wrong: 1 # so\n  b: 2\n",
        "/s/wrong",
        "right",
        "s:\n  # why\n  right: 1 # so\n  b: 2\n",
    );
    renamed(
        "wrong:\n  - a # one\n  - {b: 2}\nc: 3\n",
        "/wrong",
        "right",
        "right:\n  - a # one\n  - {b: 2}\nc: 3\n",
    );
    renamed("{\"a\": 1, \"wrong\": {\"x\": [1]}}", "/wrong", "right", "{\"a\": 1, \"right\": {\"x\": [1]}}");
    renamed("a: {'wrong': 1, b: 2}\n", "/a/wrong", "on", "a: {'on': 1, b: 2}\n");
    renamed("wrong: 1\n", "/wrong", "on", "\"on\": 1\n");
    renamed("? wrong\n: 1\n", "/wrong", "right", "? right\n: 1\n");
    renamed("wrong: &a {x: 1}\nb: *a\n", "/wrong", "right", "right: &a {x: 1}\nb: *a\n");
    // A key that is duplicate, or has an anchor, is moved.
    renamed("wrong: 1\nb: 2\nwrong: 3\n", "/wrong", "right", "b: 2\nright: 3\n");
    renamed("&k wrong: 1\nb: 2\n", "/wrong", "right", "b: 2\nright: 1\n");
    // A merged key cannot be renamed, and another value is not a renaming.
    let merged = "base: &b {wrong: 1}\nuse:\n  <<: *b\n  c: 1\n";
    let ops = [Op::Add(p("/use/right", merged), json!(1)), Op::Remove(p("/use/wrong", merged))];
    assert!(matches!(try_make(merged, &ops), Err(Withheld::Shared(_))));
    check(
        "a: 1\nwrong: 1\n",
        &[Op::Add(Pointer::new(&["right"]), json!(2)), Op::Remove(Pointer::new(&["wrong"]))],
        "a: 1\nright: 2\n",
    );
}

#[test]
fn a_comment_that_goes_on_stays_with_its_key() {
    let on = "# one\n       # two\n";
    add(&format!("a: 1 {on}"), "/b", json!(2), &format!("a: 1 {on}b: 2\n"));
    add(
        &format!("a:\n  b: 1 {on}# three\nc: 1\n"),
        "/a/d",
        json!(2),
        &format!("a:\n  b: 1 {on}  d: 2\n# three\nc: 1\n"),
    );
    add("a:\n  b: 1\n  # c: 2\n", "/d", json!(2), "a:\n  b: 1\n  # c: 2\nd: 2\n");
    add("a:\n- 1 # one\n    # two\n# three\n", "/a/1", json!(2), "a:\n- 1 # one\n    # two\n- 2\n# three\n");
    add(
        "a: {\n  b: 1 # one\n       # two\n}\n",
        "/a/c",
        json!(2),
        "a: {\n  b: 1, # one\n       # two\n  c: 2\n}\n",
    );
    // Above what is long, the comment of that stays with it.
    let long = "  # the pods\n  t: {a: {b: {c: {}}}}\n";
    for before in ["s: # one\n   # two\n", "s:\n  a: 1 # one\n       # two\n"] {
        add(&format!("{before}{long}"), "/s/l", json!(2), &format!("{before}  l: 2\n{long}"));
    }
    for before in ["s: {\n", "s: { # one\n    # two\n", "s: {\n  a: 1, # one\n        # two\n"] {
        add(&format!("{before}{long}}}\n"), "/s/l", json!(2), &format!("{before}  l: 2,\n{long}}}\n"));
    }
    add("a: [\n  # one\n  1\n]\n", "/a/0", json!(0), "a: [\n  0,\n  # one\n  1\n]\n");
}

#[test]
fn a_comment_right_behind_a_bracket_stays_one() {
    add("a: {b: 1}# c\n", "/d", json!(2), "a: {b: 1}# c\nd: 2\n");
    add("a: {b: 1}# c\n", "/a/d", json!(2), "a: {b: 1, d: 2}# c\n");
    add("a: {\n  b: [1]# c\n}\n", "/a/d", json!(2), "a: {\n  b: [1], # c\n  d: 2\n}\n");
    replace("a: {b: 1}# c\n", "/a", json!(2), "a: 2 # c\n");
    replace("a: \"b\"# c\n", "/a", json!(2), "a: 2 # c\n");
    remove("a: {b: 1, c: []# d\n}\n", "/a/c", "a: {b: 1 # d\n}\n");
    remove("a: [1]# c\nb: 1\n", "/a", "b: 1\n");
}

#[test]
fn what_an_item_is_called_comes_first() {
    let item = json!([{"effect": "e", "key": "k", "operator": "o"}]);
    add("a: 1\n", "/b", item.clone(), "a: 1\nb:\n  - key: k\n    operator: o\n    effect: e\n");
    let valued = json!([{"value": "v", "effect": "e", "operator": "o", "key": "k"}]);
    add("a: 1\n", "/b", valued, "a: 1\nb:\n  - key: k\n    operator: o\n    value: v\n    effect: e\n");
    add(
        "{\"a\": 1}",
        "/b",
        item,
        "{\"a\": 1, \"b\": [{\"key\": \"k\", \"operator\": \"o\", \"effect\": \"e\"}]}",
    );
}

#[test]
fn several_changes_make_one_edit_each() {
    let source = "spec:\n  template:\n    spec:\n      containers: []\n# end\n";
    let spec = Pointer::new(&["spec"]);
    let ops = [
        Op::Add(&spec / "activeDeadlineSeconds", json!(3600)),
        Op::Add(&spec / "ttlSecondsAfterFinished", json!(86400)),
        Op::Add(&spec / "template" / "metadata", json!({"labels": {"a": "b"}})),
        Op::Add(&spec / "template" / "metadata" / "labels" / "c", json!("d")),
    ];
    let expected = "spec:\n  template:\n    spec:\n      containers: []\n    metadata:\n      labels:\n        a: b\n        c: d\n  activeDeadlineSeconds: 3600\n  ttlSecondsAfterFinished: 86400\n# end\n";
    check(source, &ops, expected);
    assert_eq!(edit(source.as_bytes(), &at(source, 0), &ops).unwrap().len(), 1);
    // What is added and taken out again leaves no trace.
    check(source, &[Op::Add(&spec / "x", json!(1)), Op::Remove(&spec / "x")], source);
}

#[test]
fn edits_speak_of_the_whole_source() {
    let source = "a: 1\n---\n# second\nb: 1\n---\nc: 1\n";
    let edits = edit(source.as_bytes(), &at(source, 1), &[Op::Add(Pointer::new(&["x"]), json!(2))]).unwrap();
    assert_eq!(edits, [Edit { span: 22..22, text: "\nx: 2".into() }]);
    let source = "{\"a\":1}\n{\"b\":1}\n";
    let edits = edit(source.as_bytes(), &at(source, 1), &[Op::Remove(Pointer::new(&["b"]))]).unwrap();
    assert_eq!(edits, [Edit { span: 8..15, text: "{}".into() }]);
}

#[test]
fn shared_places_are_withheld() {
    let source = "base: &b {x: 1}\nuse: *b\nmore:\n  <<: *b\n  y: 2\n";
    let of = |path: &str| p(path, source);
    for path in ["/use/x", "/base/x"] {
        assert_eq!(try_make(source, &[Op::Replace(of(path), json!(2))]), Err(Withheld::Shared(of(path))));
    }
    assert_eq!(try_make(source, &[Op::Remove(of("/more/x"))]), Err(Withheld::Shared(of("/more/x"))));
    // A key of the mapping's own overrides what it merges in.
    check(
        source,
        &[Op::Replace(of("/more/x"), json!(5))],
        "base: &b {x: 1}\nuse: *b\nmore:\n  <<: *b\n  y: 2\n  x: 5\n",
    );
    check(
        source,
        &[Op::Replace(of("/use"), json!({"x": 5}))],
        "base: &b {x: 1}\nuse:\n  x: 5\nmore:\n  <<: *b\n  y: 2\n",
    );
    let list = "a: &l\n  - 1\nb: *l\n";
    assert!(matches!(try_make(list, &[Op::Add(p("/a/1", list), json!(2))]), Err(Withheld::Shared(_))));
    assert!(matches!(try_make(list, &[Op::Remove(p("/nothing", list))]), Err(Withheld::NotThere(_))));
}

#[test]
fn inline_merges_are_edited_where_they_stand() {
    let source = "a:\n  <<: {b: 1, c: 2}\n  d: 1\n";
    replace(source, "/a/b", json!(5), "a:\n  <<: {b: 5, c: 2}\n  d: 1\n");
}

#[test]
fn a_script_stays_a_script() {
    let source = "args:\n- |  # run\n  a \\\n    --b\n\n  c\n\n- x\n";
    replace(source, "/args/0", json!("a\n\n  d\n"), "args:\n- |  # run\n  a\n\n    d\n\n- x\n");
    let stripped = "a: |-\n    b\n    c\nd: 1\n";
    replace(stripped, "/a", json!("e\nf"), "a: |-\n    e\n    f\nd: 1\n");
    replace("a: |\r\n  b\r\n  c\r\nd: 1\r\n", "/a", json!("b\ne\n"), "a: |\r\n  b\r\n  e\r\nd: 1\r\n");
    // Spaces at the end of the last line are part of the text.
    replace("a: |\n  b  \n  c \nd: 1\n", "/a", json!("b  \ne \n"), "a: |\n  b  \n  e \nd: 1\n");
    replace("a: |-\n  b\n  c  \n\nd: 1\n", "/a", json!("e\nc  "), "a: |-\n  e\n  c  \n\nd: 1\n");
    replace(
        "- - |\n    b && \\\n    c \n- 1\n",
        "/0/0",
        json!("b && \\\ne \n"),
        "- - |\n    b && \\\n    e \n- 1\n",
    );
    replace("a: |\n  b\n", "/a", json!("c\n"), "a: |\n  c\n");
    replace("a: |\n  b", "/a", json!("c"), "a: c");
    // Such texts are no blocks of the same form.
    for (source, new) in [
        ("a: |\n  b\nd: 1\n", "c"),
        ("a: |-\n  b\nd: 1\n", "c\n"),
        ("a: |\n  b\nd: 1\n", " c\n"),
        ("a: |\n  b\nd: 1\n", "c\u{7}\n"),
        ("a: |+\n  b\n\nd: 1\n", "c\n"),
        ("a: |2\n   b\nd: 1\n", "c\n"),
        ("a: |\n  b\nd: 1\n", "\n"),
    ] {
        let made = try_make(source, &[Op::Replace(p("/a", source), json!(new))]).unwrap();
        assert!(!made.contains('|'), "{made}");
        assert_eq!(at(&made, 0).value, json!({"a": new, "d": 1}), "{made}");
    }
}

#[test]
fn nothing_is_left_behind_the_value() {
    // Another reader rejects `{}` with a line behind it, which kubectl does not read.
    let source = "# above\n'a':   # two: {words}\n";
    let ops = [Op::Replace(p("/a", source), json!({"a": null})), Op::Remove(p("/a", source))];
    check(source, &ops, "# above\n{}\n");
}

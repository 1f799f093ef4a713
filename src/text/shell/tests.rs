use super::{After, Script, Variables, Word};

/// Returns the commands of a script, one a line: words with `?` for what is unknown, and what comes after.
fn read(script: &str) -> Option<Script> {
    let environment = |name: &str| match name {
        "N" => Some("4"),
        "LIST" => Some("a b"),
        _ => None,
    };
    Script::read(script, &mut Variables::of(&environment))
}

fn shown(words: &[Word]) -> String {
    let word = |word: &Word| {
        let text = word.text.replace(super::UNKNOWN, "?").replace(super::SPREADS, "*");
        if text.is_empty() { "''".to_owned() } else { text }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn commands(script: &str) -> Vec<String> {
    let script = read(script).unwrap_or_else(|| panic!("unread: {script}"));
    let named = script.commands.iter().filter(|command| !command.words.is_empty());
    named.map(|command| shown(&command.words)).collect()
}

#[test]
fn words_are_without_quotes_and_with_known_variables() {
    for (script, expected) in [
        ("train --n 4", "train --n 4"),
        ("train '--a b' \"c d\" e\\ f", "train --a b c d e f"),
        ("train --n=$N --m=${N} \"x${N}y\"", "train --n=4 --m=4 x4y"),
        ("train --n=$M --m=\"$M\" $LIST \"$LIST\"", "train --n=* --m=? * a b"),
        ("train ${N:-8} ${M:-8} ${N%x} ${#N}", "train 4 * * *"),
        ("train $(date +%s) \"$(ls \"$(x)\")\" `date` $((N * (2 + 1)))", "train * ? * ?"),
        ("train \\\n  --n \\\n  4", "train --n 4"),
        ("train # not --this\n", "train"),
        ("train a#b '#c'", "train a#b #c"),
        ("train 2>&1 >log <in x &>>all 3>/dev/null y", "train x y"),
        ("train <NODES> --n=<NUM-NODES>", "train ? --n=?"),
        ("train *.py {a,b} {1..3} {} a{b", "train *.py {a,b}* {1..3}* {} a{b"),
        ("train $'a\\'b' $\"c\" ~/x \"~/x\"", "train ? c ?/x ~/x"),
        ("train \"$@\" $1 $? $$", "train * * * *"),
        ("train '' \"\"", "train '' ''"),
        ("train {{ .Values.nodes }}", "train * .Values.nodes }}"),
        ("train \"${X[@]}\" ${X:=1} $X", "train * * *"),
        ("train 10 2x 3", "train 10 2x 3"),
        ("train >(tee log) <(cat x)", "train ? ?"),
    ] {
        assert_eq!(commands(script), [expected], "{script}");
    }
}

#[test]
fn variables_are_known_as_long_as_they_certainly_are() {
    for (script, expected) in [
        ("X=1; echo $X", "1"),
        ("export X=1 Y=2\necho $X$Y", "12"),
        ("X=1 && echo $X", "1"),
        ("export X=1 && export Y=2; echo $X$Y", "12"),
        ("cd /x && X=1; echo $X", "*"),
        ("cd /x && X=1 && echo $X", "1"),
        ("cd /x || X=1; echo $X", "*"),
        ("X=1; if a; then X=2; fi; echo $X", "*"),
        ("if a; then X=2; echo $X; fi", "2"),
        ("if a; then X=2; else echo $X; fi", "*"),
        ("X=1; (X=2); echo $X", "*"),
        ("X=1; { X=2; }; echo $X", "2"),
        ("X=1; for X in 1 2; do echo $X; done", "*"),
        ("X=1; read X; echo $X", "*"),
        ("X=1; source env.sh; echo $X", "*"),
        ("X=1; eval $(x); echo $X", "*"),
        ("X=1; unset X; echo $X", "*"),
        ("X=1; ((X++)); echo $X", "*"),
        ("X=(1 2); echo $X", "*"),
        ("X=1; X+=2; echo $X", "*"),
        ("X=$(nproc); echo $X", "*"),
        ("X=1 true; echo $X", "*"),
        ("f() { echo $N; }", "*"),
        ("X=$N; N=5; echo $X$N", "45"),
        ("X=; echo $X", "*"),
        ("X=~/a; echo $X", "*"),
        ("X=1; : ${Y:=2}; echo $X", "1"),
    ] {
        let all = commands(script);
        let last = all.iter().rev().find_map(|command| command.strip_prefix("echo "));
        assert_eq!(last, Some(expected), "{script}");
    }
}

#[test]
fn commands_are_told_apart_in_compound_commands() {
    let script = "set -euo pipefail\n\
        if [ -f x ]; then a; elif b; then c; else d; fi\n\
        while read l; do e; done < file\n\
        for i in 1 2 3; do f $i; done\n\
        case \"$N\" in (1|2) g ;; *) h;; esac\n\
        function k { l; }\n\
        [[ -n $N && ( x =~ ^(a|b)$ ) ]] && m\n\
        ( n; o ) | p\n\
        { q; } > log\n\
        cat <<EOF | r\nnot a 'command\nEOF\n\
        cat <<-'END'\n\tnot $(one\n\tEND\n\
        s & t || u";
    assert_eq!(
        commands(script),
        [
            "set -euo pipefail",
            "[ -f x ]",
            "a",
            "b",
            "c",
            "d",
            "read l",
            "e",
            "f *",
            "g",
            "h",
            "l",
            "m",
            "n",
            "o",
            "p",
            "q",
            "cat",
            "r",
            "cat",
            "s",
            "t",
            "u",
        ]
    );
    let script = read(script).unwrap();
    assert!(script.errexit && script.pipefail);
    let branches: String =
        script.commands.iter().filter(|one| one.place.branch).map(|one| shown(&one.words)).collect();
    assert_eq!(branches, "abcdghlu");
}

#[test]
fn what_comes_after_a_command_is_known() {
    let after =
        |script: &str| -> Vec<After> { read(script).unwrap().commands.iter().map(|one| one.after).collect() };
    assert_eq!(
        after("a | b && c || d; e & f"),
        [After::Pipe, After::And, After::Or, After::Next, After::Background, After::End,]
    );
    for (script, last) in [
        ("a; b", Some(1)),
        ("a\nb\n\n", Some(1)),
        ("a && b", Some(1)),
        ("a &", None),
        ("a; if b; then c; fi", None),
        ("if b; then c; fi; a", Some(2)),
        ("f() { a; }; f", Some(1)),
        ("x=$(a; b); c", Some(1)),
        ("", None),
    ] {
        assert_eq!(read(script).unwrap().last, last, "{script}");
    }
}

#[test]
fn loops_without_an_end_are_known() {
    for (script, endless, leaves, last) in [
        ("a; while true; do sleep 60; done", true, false, true),
        ("while :; do a; done", true, false, true),
        ("until false; do a; done", true, false, true),
        ("for ((;;)); do a; done", true, false, true),
        ("for ((i=0; i<3; i++)); do a; done", false, false, true),
        ("while sleep 60; do a; done", true, false, true),
        ("while true; do a && break; done", true, true, true),
        ("while true; do if a; then exit 0; fi; done", true, true, true),
        ("while true; do a; done; b", true, false, false),
        ("while a; do b; done", false, false, true),
        ("if a; then while true; do b; done; fi", true, false, false),
        ("while true; do a; done &", true, false, false),
    ] {
        let script_read = read(script).unwrap();
        let [one] = script_read.loops.as_slice() else { panic!("{script}") };
        assert_eq!((one.endless, one.leaves, one.last), (endless, leaves, last), "{script}");
    }
}

#[test]
fn a_script_with_a_syntax_error_has_no_commands() {
    for script in [
        "a 'b",
        "a \"b",
        "a $(b",
        "a `b",
        "a ${b",
        "if a; then b",
        "if a; fi",
        "done",
        "a; }",
        "( a",
        "a )",
        "a | | b",
        "&& a",
        "for x in 1; b; done",
        "case x in a) b",
        "cat <<EOF\nx",
        "f() ",
        "[[ a",
        "a > ",
        "coproc a",
        "select x in a; do b; done",
        "a (b)",
        "while a; do b",
        ";; a",
        "$((1 + ",
    ] {
        assert_eq!(read(script), None, "{script}");
    }
}

#[test]
fn deep_nesting_is_not_read() {
    for (open, close) in [("$(", ")"), ("( ", ")"), ("{ ", "; }"), ("\"$(", ")\""), ("if a; then ", "; fi")] {
        let nested = |depth: usize| {
            format!("x {}a{}", open.repeat(depth), close.repeat(depth))
                .replace("x (", "(")
                .replace("x {", "{")
                .replace("x if", "if")
        };
        assert!(read(&nested(10)).is_some(), "{}", nested(10));
        assert_eq!(read(&nested(100_000)), None, "{open}");
    }
}

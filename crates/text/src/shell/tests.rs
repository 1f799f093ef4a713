use super::{After, Bound, End, MAX_COMMAND_BYTES, MAX_NESTING, MAX_VARIABLES, Place};
use crate::meter;
use crate::shell::variables::Variables;
use crate::shell::word::Word;

/// What was shown of a script.
#[derive(Debug, PartialEq)]
struct Script {
    commands: Vec<Command>,
    end: End,
    last: Option<usize>,
}

#[derive(Debug, PartialEq)]
struct Command {
    words: Vec<Word>,
    after: After,
    place: Place,
}

/// Reads a script, and collects its commands.
fn read(script: &str) -> Option<Script> {
    let environment = |name: &str| match name {
        "N" => Some("4"),
        "LIST" => Some("a b"),
        _ => None,
    };
    let (mut commands, mut last, mut finals) = (Vec::new(), None, 0);
    let end = super::read(script, &mut Variables::new(&environment), &mut |simple| {
        finals += usize::from(simple.is_final);
        if simple.is_last {
            last = Some(commands.len());
        }
        let words = simple.words.iter().map(Word::kept).collect();
        commands.push(Command { words, after: simple.after, place: simple.place });
    });
    let end = end.ok()?;
    assert_eq!(finals, usize::from(!commands.is_empty()), "{script}");
    assert!(last.is_none_or(|last| last + 1 == commands.len()), "{script}");
    Some(Script { commands, end, last })
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
        ("AB=x; A=y; train $A\\\n\\\nB \"$A\\\nB\" $A\\\n-b", "train x x y-b"),
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
        ("X=1; X+=(2 3); echo $X", "*"),
        ("X=1; declare X+=2; echo $X", "*"),
        ("X=1; declare -a X=(2 [1]='a b'); echo $X", "*"),
        ("X=1; declare -A Y=([x]=1 [y]=$(z)); echo $X", "1"),
        ("export X=1 Y=(2\n 3 # 4\n) Z=5; echo $X$Z", "15"),
        ("X=1; select X in 2 3; do y; done; echo $X", "*"),
        ("REPLY=1; select x in 2 3; do y; done; echo $REPLY", "*"),
        ("X=1; coproc X { y; }; echo $X", "*"),
        ("X=1; coproc { X=2; }; echo $X", "*"),
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
    assert!(script.end.errexit && script.end.pipefail);
    let branches: String =
        script.commands.iter().filter(|one| one.place.branch).map(|one| shown(&one.words)).collect();
    assert_eq!(branches, "abcdghlu");
}

#[test]
fn arrays_selections_and_coprocesses_are_read() {
    for (script, expected) in [
        ("declare -A D=([x]=1)\na | b", "declare -A D=?, a, b"),
        ("declare -a A=()\na", "declare -a A=?, a"),
        ("typeset -a A=(x \"y z\")\na", "typeset -a A=?, a"),
        ("f() { local A=(x) B=1; }; a", "local A=? B=1, a"),
        ("export A=(x) && readonly B=(y); a", "export A=?, readonly B=?, a"),
        ("A=(a b); A+=(c); D[x]+=1; a", "a"),
        ("select x in a b; do c; break; done; d", "c, break, d"),
        ("select x\ndo c; done", "c"),
        ("coproc x { a; b; }; c", "a, b, c"),
        ("coproc x (a); coproc (b); coproc while c; do d; done; e", "a, b, c, d, e"),
        ("coproc a b; coproc a \\\n for i; do c; done; d", "a b, c, d"),
    ] {
        assert_eq!(commands(script).join(", "), expected, "{script}");
    }
    let script = read("coproc a b; c").unwrap();
    let first = &script.commands[0];
    assert_eq!((first.after, first.place.depth, script.last), (After::Background, 1, Some(1)));
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
    for (script, endless, leaves) in [
        ("a; while true; do sleep 60; done", true, false),
        ("while :; do a; done", true, false),
        ("until false; do a; done", true, false),
        ("for ((;;)); do a; done", true, false),
        ("for ((i=0; i<3; i++)); do a; done", false, false),
        ("while sleep 60; do a; done", true, false),
        ("while true; do a && break; done", true, true),
        ("while true; do if a; then exit 0; fi; done", true, true),
        ("while a; do b; done", false, false),
        ("while a; do b; done; while true; do c; done", true, false),
        ("while true; do a $(exit 1); done", true, true),
        ("while true; do while a; do break; done; done", true, false),
    ] {
        let last = read(script).unwrap().end.last_loop.unwrap_or_else(|| panic!("{script}"));
        assert_eq!((last.endless, last.leaves), (endless, leaves), "{script}");
    }
    for script in [
        "while true; do a; done; b",
        "if a; then while true; do b; done; fi",
        "while true; do a; done &",
        "a $(while true; do b; done)",
    ] {
        assert_eq!(read(script).unwrap().end.last_loop, None, "{script}");
    }
}

#[test]
fn the_first_command_of_a_loop_at_the_top_is_known() {
    let heads = |script: &str| {
        let (mut heads, nothing) = (Vec::new(), |_: &str| None);
        let end = super::read(script, &mut Variables::new(&nothing), &mut |simple| {
            if simple.heads_loop {
                heads.push(simple.words[0].text.to_string());
            }
        });
        (heads.join(" "), end.unwrap().last_loop.is_some_and(|last| last.has_head))
    };
    for (script, expected, has_head) in [
        ("while a; do b; c; done", "b", true),
        ("while a; do b; done; for i in 1; do $(x) d; e; done", "b \u{E001}", true),
        ("while a; do while b; do c; done; d; done", "b", true),
        ("while a; do for i in 1; do c; done; done", "", false),
        ("while a; do b; done; while c; do [[ x ]]; done", "b", false),
        ("if a; then while b; do c; done; fi", "", false),
    ] {
        assert_eq!(heads(script), (expected.to_owned(), has_head), "{script}");
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
        "coproc",
        "coproc a b (c)",
        "select x in a; b; done",
        "select ((a; b; c)); do b; done",
        "declare -A x=(a",
        "declare x= (a)",
        "echo x=(a)",
        "x+=(a | b)",
        "a (b)",
        "while a; do b",
        ";; a",
        "$((1 + ",
    ] {
        assert_eq!(read(script), None, "{script}");
    }
}

/// Returns a script with a command so deep in compound commands.
fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("x {}a{}", open.repeat(depth), close.repeat(depth))
        .replace("x (", "(")
        .replace("x {", "{")
        .replace("x if", "if")
}

#[test]
fn what_is_nested_too_deeply_ends_the_reading_and_is_said() {
    for (open, close) in [("$(", ")"), ("( ", ")"), ("{ ", "; }"), ("\"$(", ")\""), ("if a; then ", "; fi")] {
        let at_most = read(&nested(open, close, MAX_NESTING)).unwrap_or_else(|| panic!("{open}"));
        assert_eq!((at_most.end.beyond, at_most.end.is_cut), (None, false), "{open}");
        for depth in [MAX_NESTING + 1, 100_000] {
            let script = format!("b 1; c 2\n{}; d", nested(open, close, depth));
            let read = read(&script).unwrap_or_else(|| panic!("{open}"));
            assert_eq!((read.end.beyond, read.end.is_cut), (Some(Bound::Nesting), true), "{open}");
            let shown: Vec<String> = read.commands.iter().map(|one| shown(&one.words)).collect();
            assert_eq!(shown[..2], ["b 1", "c 2"], "what comes before it counts");
            assert_eq!((read.last, read.end.last_loop), (None, None), "{open}");
        }
    }
}

#[test]
fn words_behind_the_longest_command_are_unknown() {
    let whole = format!("a {}", "b ".repeat(MAX_COMMAND_BYTES / 2 - 1));
    let read_whole = read(&format!("{whole}; c")).unwrap();
    assert_eq!((read_whole.end.beyond, read_whole.commands[0].words.len()), (None, MAX_COMMAND_BYTES / 2));
    for long in [
        format!("{whole} d"),
        format!("a {}", "b ".repeat(1 << 19)),
        format!("a 'x' '{}' b", "c".repeat(1 << 20)),
        format!("a x \"{}\" b", "é\\$".repeat(1 << 18)),
        format!("a x {}", "$N".repeat(1 << 19)),
    ] {
        let read = read(&format!("{long}; c\nX=1; d $X")).unwrap();
        assert_eq!(read.end.beyond, Some(Bound::Command));
        let (last, first) = (read.commands[0].words.last().unwrap(), &read.commands[0].words[0]);
        assert!(last.spreads() && first.text == "a");
        let bytes: usize = read.commands[0].words.iter().map(|word| word.text.len()).sum();
        assert!(bytes <= MAX_COMMAND_BYTES + 3, "{bytes}");
        assert_eq!(
            read.commands[1..].iter().map(|one| shown(&one.words)).collect::<Vec<_>>(),
            ["c", "", "d 1"]
        );
    }
    // What a command beyond the bound sets is unknown, and so is everything else after it.
    for long in ["X=2 ", "read X ", "export X=2 "] {
        let long = long.repeat(1 << 15);
        let read = read(&format!("X=1; {long}; c $X")).unwrap();
        assert_eq!(shown(&read.commands.last().unwrap().words), "c *", "{}", &long[..10]);
    }
    let program = read(&format!("{} torchrun x", "X=1 ".repeat(1 << 15))).unwrap();
    assert_eq!(shown(&program.commands[0].words), "*", "it is not an assignment alone");
    let value = read(&format!("X='{}'; a $X \"$X\" ${{X:-b}}", "x".repeat(1 << 20))).unwrap();
    assert_eq!(shown(&value.commands[1].words), "a * ? *");
}

#[test]
fn with_more_variables_than_are_kept_all_are_unknown() {
    let assign = |count: usize| (0..count).map(|nth| format!("V{nth}=1\n")).collect::<String>();
    let last = |script: String| {
        let read = read(&script).unwrap();
        (read.end.beyond, shown(&read.commands.last().unwrap().words))
    };
    assert_eq!(last(assign(MAX_VARIABLES) + "a $V0 $N"), (None, "a 1 4".to_owned()));
    // Those that were set come again.
    assert_eq!(last(assign(MAX_VARIABLES).repeat(2) + "a $V0"), (None, "a 1".to_owned()));
    let beyond = (Some(Bound::Variables), "a * *".to_owned());
    assert_eq!(last(assign(MAX_VARIABLES + 1) + "a $V0 $N"), beyond);
    assert_eq!(last(format!("{}=1; a $V0 $N", "V".repeat(1 << 10))), beyond);
    let nothing = |_: &str| None;
    let mut many = Variables::new(&nothing);
    super::read(&assign(MAX_VARIABLES + 1), &mut many, &mut |_| ()).unwrap();
    assert!(many.assigned().contains("anything"));
}

#[test]
fn values_that_grow_stay_small() {
    let read = read(&format!("X=aaaa\n{}\nb $X \"$X\"", "X=$X$X\n".repeat(1000))).unwrap();
    assert_eq!(shown(&read.commands.last().unwrap().words), "b * ?");
}

/// Shapes of scripts, of about so many bytes: all that a script can have many of, or something long.
fn shapes(bytes: usize) -> Vec<(&'static str, String)> {
    let many = |part: &'static str| (part, part.repeat(bytes / part.len()));
    let deep = |open: &'static str, close: &str| {
        let times = bytes / (open.len() + close.len());
        let before = if open.starts_with(['$', '"', '<']) { "a " } else { "" };
        (open, format!("{before}{}b{}", open.repeat(times), close.repeat(times)))
    };
    let repeated = [
        "a;",
        "a|",
        "a&",
        "a\n",
        "a||true;",
        "a&&b;",
        "a;b&&c|d;",
        "x=1;",
        "x=$x$x;",
        "x+=1;",
        "x=(1 2);",
        "x+=(1 2);",
        "declare x=(1 2);",
        "select i in a;do b;done;",
        "coproc a;",
        "coproc a { b;};",
        "$(a);",
        "`a`;",
        "$((1+x));",
        "((x++));",
        "${x:-$(a)};",
        "x=1 a;",
        "read x;",
        "export x=1 y=$x;",
        "if a;then b;fi;",
        "case a in b)c;;esac;",
        "f(){ a;};",
        "function f { a; };",
        "(a);",
        "{ a;};",
        "while a;do b;done;",
        "for i in a b;do c;done;",
        "[[ a ]];",
        "a <<E\nb\nE\n",
        "<<E\nE\n",
        "a>b;",
        "torchrun a;",
        "exec a;",
        "trap a b;",
        "exit;",
        "set -e;",
        "unset x;",
        "eval a;",
        "'a';",
        "\"a\";",
        "\"$x\" ",
        "a\\;",
        "#a\n",
        "! a;",
        "a{b,c}d ",
        "[a]* ",
        "$x ",
        "$'a' ",
        "<(a) ",
        "a \\\n",
        "é;",
        "local $x;",
        "p $y;",
    ];
    let mut all: Vec<(&'static str, String)> = repeated.into_iter().map(many).collect();
    // Each name once.
    let names = |what: &'static str, one: &dyn Fn(usize) -> String| {
        (what, (0..bytes / one(100_000).len()).map(one).collect::<String>())
    };
    all.push(names("names", &|nth| format!("v{nth}=1;")));
    all.push(names("names in branches", &|nth| format!("a&&v{nth}=1;")));
    all.push(names("names in a sum", &|nth| format!("((v{nth}));")));
    all.push(("y", format!("y={};{}", "x".repeat(4000), "p $y \"$y\";".repeat(bytes / 11))));
    all.extend([
        deep("$(", ")"),
        deep("(", ")"),
        deep("((", "))"),
        deep("{ ", ";}"),
        deep("\"$(", ")\""),
        deep("${x:-", "}"),
        deep("if a;then ", ";fi"),
        deep("while a;do ", ";done"),
        deep("f() ", ""),
        deep("coproc ", ""),
        deep("declare x=(", ")"),
        deep("<<a ", ""),
        deep("! ", ""),
        deep("$((", "))"),
        deep("case a in a) ", ";;esac"),
    ]);
    all.extend([
        ("one word", "a".repeat(bytes)),
        ("one word in quotes", format!("a '{}'", "b".repeat(bytes))),
        ("one command", "a ".repeat(bytes / 2)),
        ("a comment", format!("#{}", "a".repeat(bytes))),
        ("blanks", format!("a{}b", " ".repeat(bytes))),
        ("digits", "1".repeat(bytes)),
        ("an open quote", format!("a; '{}", "b".repeat(bytes))),
        ("an open document", format!("a <<E\n{}", "b\n".repeat(bytes / 2))),
        ("a long name", format!("{}=1; b", "a".repeat(bytes))),
        ("assignments", "a=1 ".repeat(bytes / 4)),
    ]);
    all
}

#[test]
fn reading_costs_no_more_than_the_bytes_of_a_script() {
    let environment = |name: &str| (name == "x").then_some("a");
    let cost = |script: &str| {
        let read = || super::read(script, &mut Variables::new(&environment), &mut |_| ());
        let (end, steps) = meter::run(meter::Bounds::default(), read).unwrap();
        (end.is_ok_and(|end| !end.is_cut), steps)
    };
    let mut to_the_end = 0;
    for ((name, small), (_, large)) in shapes(16 << 10).into_iter().zip(shapes(64 << 10)) {
        let ((is_whole, small_cost), (_, large_cost)) = (cost(&small), cost(&large));
        to_the_end += usize::from(is_whole);
        assert!(large_cost <= 8 * large.len() as u64, "{name}: {large_cost} steps");
        assert!(!is_whole || small_cost >= small.len() as u64 / 1024, "{name}: only {small_cost} steps");
        let most = small_cost * 6 + 1000;
        assert!(large_cost <= most, "{name}: {small_cost} steps, and {large_cost} of four times as much");
    }
    assert!(to_the_end > 60, "only {to_the_end} shapes are scripts");
}

//! Properties of every report in every format.

use std::sync::Arc;

use proptest::prelude::*;
use pulldown_cmark::{Event, Parser, Tag};

use crate::answer::Answered;
use crate::impact::{Impact, Tally};
use crate::located::{Located, Location, Related};
use crate::object::ObjectId;
use crate::options::Options;
use crate::results::Report;
use crate::sample;
use crate::unjudged::{Kustomized, Reason, Render, Unjudged};
use crate::{Format, write};
use jobgate_core::admission::dry_run::Predicted;
use jobgate_core::judge::finding::Level;
use jobgate_core::judge::policy::Policy;
use jobgate_core::text::lines::Lines;
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::Value;

/// Text as bad as it can be: quotes, markup, escapes, line breaks, invisible and turning characters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z \"'<>&%:,\\[\\](){}\\\\/~]{0,12}",
        "[a1 <>`*_#@|.:!/=+$^~-]{0,16}",
        "(</?(script|pre|p|code|details|a|img|!--)[ />=a]{0,3}|[|`]|&lt;|www.a.b|http://a.b|@a|#1|- |\\]\\(x\\)){0,4}",
        "[\u{0}-\u{1f}\u{7f}-\u{9f}\u{200b}-\u{202e}\u{f8ff}\u{feff}\u{ffff}ß漢🚀a]{0,12}",
        ".{0,12}"
    ]
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::Deny), Just(Level::Warn), Just(Level::Note)]
}

prop_compose! {
    fn report()(
        sources in prop::collection::vec((text(), "[a: \t\r\n\u{1b}\u{9b}é🚀]{0,60}"), 1..3),
        found in prop::collection::vec((text(), text(), text(), level(), any::<bool>(), (0..90usize, 0..90usize), any::<prop::sample::Index>()), 0..50),
    ) -> Report {
        let mut report = Report::default();
        let places: Vec<(Arc<str>, Arc<String>)> = sources.iter().map(|(file, source)| (Arc::from(&**file), Arc::new(source.clone()))).collect();
        report.sources = places.iter().cloned().collect();
        for (message, help, name, level, fills, (a, b), which) in found {
            let file = which.get(&places).0.clone();
            let lines = Lines::new(report.sources[&file].as_bytes());
            let span = a.min(b)..a.max(b);
            let location = Location { file, start: lines.position(span.start), end: lines.position(span.end), span };
            let mut finding = sample::finding("deadline", level, Pointer::root().key(&name), message.clone(), help.clone());
            finding.fills = fills;
            finding.path = finding.pointer.key("x");
            finding.part = jobgate_core::judge::finding::Part::Key;
            let reason = match location.span.len() % 4 {
                0 => Reason::Kind,
                1 => Reason::Chart(message.as_str().into()),
                2 => Reason::Patch(Kustomized { path: name.as_str().into(), render: Render::Build }),
                _ => Reason::Unknown(message.as_str().into()),
            };
            let unjudged = ObjectId { api_version: help.clone(), kind: name.clone(), namespace: None, name: Some(message.clone()) };
            report.unjudged.push(Unjudged { location: Some(location.clone()), document: None, object: Some(Arc::new(unjudged)), reason });
            if fills {
                let object = ObjectId { api_version: help.clone(), kind: message.clone(), namespace: Some(name.clone()), name: Some(message.clone()) };
                let source = Some(name.clone());
                report.answers.push(Answered { location: location.clone(), document: 0, source, object: object.into(), answer: sample::predicted(Predicted::Denied), operator_refuses: true, pods: Vec::new() });
                report.holdings.add(&sample::job(&message, 3600 * location.span.len() as i64, 1 + a as i64), &name, &Policy::default());
            }
            let object = ObjectId { api_version: help, kind: message.clone(), namespace: None, name: Some(name) };
            let related = vec![Related { location: fills.then(|| location.clone()), object: Some(message.clone()), text: message.into() }];
            report.findings.push(Located { location, document: 0, object: fills.then(|| Arc::new(object)), finding, related, withheld: None, by_name: None, items: None });
        }
        report
    }
}

fn written(report: &Report, format: Format, options: &Options) -> String {
    let mut out = Vec::new();
    write(report, format, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Counts the entries of a format besides the findings.
fn said(report: &Report) -> usize {
    report.unjudged.iter().filter(|unjudged| !unjudged.reason.is_found()).count()
}

/// Returns what an audit says besides, with the texts of a report.
fn impact(report: &Report) -> Impact {
    let mut impact = Impact::default();
    for located in &report.findings {
        impact.server.push_str(&located.finding.message);
        impact.policy.push_str(&located.finding.help);
        impact
            .namespaces
            .insert(located.finding.message.to_string(), Tally { objects: 1, denied: 1, ..Tally::default() });
        impact.holding.insert(located.finding.message.as_ref().into());
    }
    impact.left_out.finished = report.findings.len();
    impact
}

/// Returns what stands between `<` and `>`.
fn tags(html: &str) -> impl Iterator<Item = &str> {
    html.split('<').skip(1).map(|rest| rest.split_once('>').map_or(rest, |(tag, _)| tag))
}

fn plain(report: &Report, format: Format) -> String {
    written(report, format, &Options::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_same_report_is_the_same_bytes(report in report()) {
        for format in Format::ALL.iter().copied() {
            prop_assert_eq!(plain(&report, format), plain(&report.clone(), format));
        }
    }

    #[test]
    fn json_is_valid_and_whole(report in report()) {
        let json: Value = serde_json::from_str(&plain(&report, Format::Json)).unwrap();
        let sarif: Value = serde_json::from_str(&plain(&report, Format::Sarif)).unwrap();
        let gitlab: Value = serde_json::from_str(&plain(&report, Format::Gitlab)).unwrap();
        let findings = json["findings"].as_array().unwrap();
        let results = sarif["runs"][0]["results"].as_array().unwrap();
        prop_assert_eq!(findings.len(), report.findings.len());
        prop_assert_eq!(results.len(), report.findings.len());
        for (located, (finding, result)) in report.findings.iter().zip(findings.iter().zip(results)) {
            prop_assert_eq!(finding["message"].as_str(), Some(&*located.finding.message));
            prop_assert_eq!(finding["file"].as_str(), Some(&*located.location.file));
            let uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap();
            prop_assert!(uri.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/%:".contains(&byte)), "{}", uri);
        }
        let mut fingerprints: Vec<_> = gitlab.as_array().unwrap().iter().map(|issue| issue["fingerprint"].as_str().unwrap()).collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        prop_assert_eq!(fingerprints.len(), report.findings.len() + said(&report));
        let notifications = sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"].as_array().map_or(0, Vec::len);
        prop_assert_eq!((json["unjudged"].as_array().map_or(0, Vec::len), notifications), (report.unjudged.len(), report.unjudged.len()));
    }

    #[test]
    fn policy_reports_count_everything_once(mut report in report(), audit in any::<bool>()) {
        if audit {
            report.impact = Some(impact(&report));
        }
        let list: Value = serde_json::from_str(&plain(&report, Format::OpenReports)).unwrap();
        let reports = list["items"].as_array().unwrap();
        let sum = |key: &str| reports.iter().filter_map(|report| report["summary"][key].as_u64()).sum::<u64>() as usize;
        prop_assert_eq!(sum("fail"), report.count(Level::Deny));
        prop_assert_eq!(sum("warn"), report.count(Level::Warn) + report.count(Level::Note));
        prop_assert_eq!(sum("skip"), said(&report));
        let results: usize = reports.iter().filter_map(|report| report["results"].as_array()).map(Vec::len).sum();
        prop_assert_eq!(results, report.findings.len() + said(&report));
        // One of a namespace, and no text that steers a terminal.
        let mut names: Vec<String> = reports.iter().map(|report| format!("{} {}", report["kind"], report["metadata"]["namespace"])).collect();
        let all = names.len();
        names.dedup();
        prop_assert_eq!(names.len(), all);
        for result in reports.iter().flat_map(|report| report["results"].as_array().unwrap()) {
            let message = result["message"].as_str().unwrap();
            prop_assert_eq!(message.find(char::is_control), None);
        }
    }

    #[test]
    fn junit_is_xml_that_reads_back(report in report()) {
        let xml = plain(&report, Format::Junit);
        prop_assert_eq!(xml.find(|char: char| matches!(char, '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')), None);
        let read = quick_junit::Report::deserialize_from_str(&xml).unwrap();
        prop_assert_eq!(read.tests, (report.findings.len() + said(&report)).max(1));
        prop_assert_eq!(read.failures, report.count(Level::Deny));
    }

    #[test]
    fn github_has_one_line_for_each_finding(report in report()) {
        let text = plain(&report, Format::Github);
        prop_assert_eq!(text.find(|char: char| char.is_control() && char != '\n'), None);
        let lines: Vec<_> = text.lines().collect();
        prop_assert_eq!(lines.len(), report.findings.len() + said(&report) + 1);
        for line in &lines[..lines.len() - 1] {
            let (properties, _) = line[2..].split_once("::").unwrap();
            let (_, properties) = properties.split_once(' ').unwrap();
            let keys: Vec<_> = properties.split(',').map(|property| property.split_once('=').unwrap().0).collect();
            let known: [&[&str]; 3] =
                [&["file", "line", "endLine", "col", "endColumn", "title"], &["file", "line", "endLine", "title"], &["file", "line", "title"]];
            prop_assert!(known.contains(&&keys[..]), "{}", line);
        }
    }

    #[test]
    fn concise_has_one_line_for_each_finding(report in report()) {
        let text = plain(&report, Format::Concise);
        let lines: Vec<_> = text.lines().collect();
        let answers = report.answers.len();
        prop_assert_eq!(lines.len(), answers + report.findings.len() + said(&report) + 1);
        for (line, located) in lines[answers..].iter().zip(&report.findings) {
            let level = located.finding.level.word();
            prop_assert!(line.contains(&format!("{}: {level}[deadline]: ", located.location)), "{}", line);
        }
    }

    #[test]
    fn markdown_has_the_structure_of_the_report_alone(mut report in report(), full in any::<bool>(), audit in any::<bool>()) {
        if audit {
            report.impact = Some(impact(&report));
        }
        let text = written(&report, Format::Markdown, &Options { full, ..Options::default() });
        prop_assert!(text.len() <= 65_536 && !text.chars().any(|char| char.is_control() && char != '\n'));
        let (mut items, mut code) = (0, false);
        for event in Parser::new_ext(&text, pulldown_cmark::Options::all()) {
            match event {
                Event::Html(html) | Event::InlineHtml(html) => {
                    let mut tags = tags(&html);
                    let known = ["details", "/details", "summary", "/summary", "code", "/code", "br"];
                    prop_assert!(tags.all(|tag| known.contains(&tag)), "{}", html);
                    code = &*html == "<code>";
                }
                Event::Start(Tag::Link { dest_url, .. }) => prop_assert!(dest_url.starts_with(crate::page::DOCS), "{}", dest_url),
                Event::Start(Tag::Item) => items += 1,
                Event::Start(tag) => {
                    let known = matches!(tag, Tag::Paragraph | Tag::Heading { .. } | Tag::List(None) | Tag::Strong | Tag::HtmlBlock
                        | Tag::Table(_) | Tag::TableHead | Tag::TableRow | Tag::TableCell);
                    prop_assert!(known, "{:?} in {}", tag, text);
                }
                Event::End(_) | Event::SoftBreak | Event::HardBreak => {}
                // GitHub would make links of them.
                Event::Text(text) => prop_assert!(code || !(text.contains("@a") || text.contains("#1")), "{}", text),
                Event::Code(code) => prop_assert!(code.starts_with("jobgate ") || code.starts_with("--") || &*code == "deadline", "{}", code),
                other => prop_assert!(false, "{:?} in {}", other, text),
            }
        }
        prop_assert!(items >= report.findings.len());
    }

    #[test]
    fn html_has_the_structure_of_the_report_alone(mut report in report(), full in any::<bool>(), audit in any::<bool>()) {
        if audit {
            report.impact = Some(impact(&report));
        }
        let text = written(&report, Format::Html, &Options { full, ..Options::default() });
        prop_assert_eq!(text.find(|char: char| char.is_control() && char != '\n'), None);
        let (head, rest) = text.split_once("<body>").unwrap();
        prop_assert!(head.contains("default-src 'none'"));
        let (body, script) = rest.split_once("<script>").unwrap();
        prop_assert!(script.ends_with("</script>\n</body>\n</html>\n"));
        let mut open = Vec::new();
        for tag in tags(body) {
            let (name, mut rest) = tag.split_at(tag.find(' ').unwrap_or(tag.len()));
            let known = ["h1", "h2", "h3", "h4", "p", "ul", "li", "b", "code", "pre", "mark", "span", "i", "div", "section", "table", "tr", "th", "td", "svg",
                "a", "details", "summary", "article", "form", "label", "select", "option", "output"];
            prop_assert!(known.contains(&name.trim_start_matches('/')) || ["input", "rect"].contains(&name), "{}", tag);
            match name.strip_prefix('/') {
                Some(name) => prop_assert_eq!(open.pop(), Some(name), "{}", text),
                None if known.contains(&name) => open.push(name),
                None => {}
            }
            while let Some((attribute, value)) = rest.split_once("=\"") {
                let name = attribute.trim_start_matches([' ', '"']).trim_start_matches("open ").trim();
                let (value, behind) = value.split_once('"').unwrap();
                let known = ["class", "href", "title", "id", "data-n", "value", "type", "name", "aria-label", "aria-hidden",
                    "placeholder", "viewBox", "preserveAspectRatio", "x", "width", "height"];
                prop_assert!(known.contains(&name), "{} in {}", name, tag);
                prop_assert!(name != "href" || value == "#deadline" || value.starts_with(crate::page::DOCS), "{}", value);
                rest = behind;
            }
            prop_assert!(["", " hidden", " open", " checked", "/"].contains(&rest), "{:?} in {}", rest, tag);
        }
        prop_assert!(open.is_empty(), "{:?}", open);
        prop_assert_eq!(body.matches("<article>").count(), report.findings.len());
    }

    #[test]
    fn no_manifest_steers_the_terminal(report in report(), full in any::<bool>(), width in 0..200usize) {
        let columns = (width % 3 > 0).then_some(width);
        for format in [Format::Human, Format::Concise] {
            let text = written(&report, format, &Options { full, width, columns, ..Options::default() });
            prop_assert_eq!(text.find(|char: char| char.is_control() && char != '\n'), None);
            let colored = written(&report, format, &Options { full, width, columns, color: true, ..Options::default() });
            for escape in colored.split('\u{1b}').skip(1) {
                let codes = escape.strip_prefix('[').and_then(|rest| rest.split_once('m'));
                prop_assert!(codes.is_some_and(|(codes, _)| codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';')), "{:?}", escape);
            }
        }
    }
}

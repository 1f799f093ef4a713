//! Pages of the documentation, and what is in them.

use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// The root of the repository.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A page.
pub(super) struct Page {
    /// Its path from the root of the repository.
    pub(super) name: String,
    pub(super) text: String,
    /// Its blocks of code.
    pub(super) blocks: Vec<Block>,
    /// Code within sentences.
    pub(super) code: Vec<String>,
    /// Where its links and pictures lead.
    pub(super) links: Vec<String>,
    /// The anchors of its headings, as GitHub makes them.
    pub(super) anchors: Vec<String>,
}

/// A block of code.
pub(super) struct Block {
    /// Its language; empty if it has none.
    pub(super) language: String,
    pub(super) text: String,
    /// The file that it shows: the sentence before it ends with the name of one (``in `train.yaml`:``).
    pub(super) file: Option<String>,
}

/// Returns every page: those at the root, and those in these folders.
pub(super) fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut folders = vec![root().join("docs"), root().join("certs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    for entry in fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            Page::read(name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

impl Page {
    fn read(name: String, text: String) -> Self {
        let mut page = Self {
            name,
            text: String::new(),
            blocks: Vec::new(),
            code: Vec::new(),
            links: Vec::new(),
            anchors: Vec::new(),
        };
        let mut heading: Option<String> = None;
        let mut block: Option<Block> = None;
        // What came last before a block: a piece of code, then a colon.
        let (mut last_code, mut last) = (String::new(), String::new());
        for event in Parser::new_ext(&text, pulldown_cmark::Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let same = page.anchors.iter().filter(|other| **other == anchor).count();
                    page.anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    let language = match kind {
                        CodeBlockKind::Fenced(language) => language.to_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    let is_run = ["console", "sh"].contains(&language.as_str());
                    let file = (last == ":" && !is_run).then(|| last_code.clone());
                    block = Some(Block { language, text: String::new(), file });
                }
                Event::End(TagEnd::CodeBlock) => {
                    page.blocks.extend(block.take());
                    last.clear();
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.to_string());
                }
                Event::Text(text) => match (&mut block, &mut heading) {
                    (Some(block), _) => block.text.push_str(&text),
                    (None, Some(heading)) => heading.push_str(&text),
                    (None, None) => last = text.to_string(),
                },
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    last_code = code.to_string();
                    last.clear();
                    page.code.push(last_code.clone());
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    for attribute in [" src=\"", " srcset=\""] {
                        let values = html.split(attribute).skip(1).filter_map(|rest| rest.split_once('"'));
                        page.links.extend(values.map(|(value, _)| value.to_owned()));
                    }
                }
                _ => {}
            }
        }
        page.text = text;
        page
    }

    /// Returns the files that the page shows.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.blocks.iter().filter_map(|block| Some((block.file.as_deref()?, block.text.as_str())))
    }
}

/// Returns the anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|char| if char == ' ' { '-' } else { char }).collect()
}

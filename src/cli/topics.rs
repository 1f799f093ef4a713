//! Pages on common patterns, and on what is wrong with them.

/// A topic.
#[derive(Debug)]
pub struct Topic {
    /// Its name, the argument of `jobgate explain`.
    pub id: &'static str,
    /// The page, in Markdown.
    source: &'static str,
}

macro_rules! topics {
    ($($id:literal)*) => {
        &[$(Topic { id: $id, source: include_str!(concat!("../../docs/topics/", $id, ".md")) }),*]
    };
}

/// All topics, sorted by name.
pub static TOPICS: &[Topic] = topics! {
    "checkpoints"
    "cron-pipelines"
    "indexes"
    "pod-failure-policy"
    "spot"
    "torchrun"
};

impl Topic {
    /// Returns its title.
    #[must_use]
    pub(crate) fn title(&self) -> &'static str {
        self.source.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    /// Returns the page without its title.
    #[must_use]
    pub fn page(&self) -> &'static str {
        self.source.split_once('\n').map_or("", |(_, page)| page.trim_start())
    }
}

//! The origins of rendered documents, as the tools report them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The origin of a document, as far as the tool reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A file that is included.
    File(PathBuf),
    /// A kustomization that generates it.
    Generated(PathBuf),
}

/// Removes kustomize's origin annotations from its output, and returns them by document. Paths in them are relative to
/// a directory.
///
/// kustomize prints them in one form only, at one place only, so lines are enough.
#[must_use]
pub(crate) fn without_origins(text: &[u8], directory: &Path) -> (Vec<u8>, Vec<Option<Origin>>) {
    const METADATA: &[u8] = b"metadata:";
    const ANNOTATIONS: &[u8] = b"  annotations:";
    const ORIGIN: &[u8] = b"    config.kubernetes.io/origin: |";
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut origins = vec![None];
    let (mut in_metadata, mut in_annotations, mut in_origin) = (false, false, false);
    // The offset of the line `annotations:` in the output, as long as nothing is below it.
    let mut opened: Option<usize> = None;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let bare = line.trim_ascii_end();
        if in_origin {
            if let Some(field) = bare.strip_prefix(b"      ") {
                if let Some(origin) = origin(&String::from_utf8_lossy(field), directory)
                    && let Some(last @ None) = origins.last_mut()
                {
                    *last = Some(origin);
                }
                continue;
            }
            in_origin = false;
        }
        let indent = bare.iter().take_while(|byte| **byte == b' ').count();
        if !bare.is_empty() && indent < 4 {
            // The annotations end, and with them a mapping that has become empty.
            if let Some(start) = opened.take() {
                out.truncate(start);
            }
            in_annotations = false;
        }
        if !bare.is_empty() && indent == 0 {
            in_metadata = bare == METADATA;
        }
        match bare {
            b"---" => origins.push(None),
            ANNOTATIONS if in_metadata => {
                in_annotations = true;
                opened = Some(out.len());
            }
            ORIGIN if in_annotations => {
                in_origin = true;
                continue;
            }
            _ if in_annotations => opened = None,
            _ => {}
        }
        out.extend_from_slice(line);
    }
    if let Some(start) = opened {
        out.truncate(start);
    }
    (out, origins)
}

fn origin(field: &str, directory: &Path) -> Option<Origin> {
    let at = |path: &str| crate::local::paths::normal(&directory.join(path.trim().trim_matches(['"', '\''])));
    match field.split_once(": ")? {
        ("path", path) => Some(Origin::File(at(path))),
        ("configuredIn", path) => Some(Origin::Generated(at(path))),
        _ => None,
    }
}

/// Returns the template that Helm's comment at the start of a document names, in the directory of the chart. `None` if
/// it names no file in the chart.
#[must_use]
pub(crate) fn of_chart(
    comment: &str,
    chart: &Path,
    known: &mut BTreeMap<String, Option<PathBuf>>,
) -> Option<PathBuf> {
    if let Some(found) = known.get(comment) {
        return found.clone();
    }
    let found = file_of_chart(comment, chart);
    known.insert(comment.to_owned(), found.clone());
    found
}

fn file_of_chart(comment: &str, chart: &Path) -> Option<PathBuf> {
    // The first part is the chart's name, which need not be that of its directory.
    let (_, inside) = comment.split_once('/')?;
    let inside = Path::new(inside);
    if !inside.components().all(|part| matches!(part, Component::Normal(_))) || inside.as_os_str().is_empty()
    {
        return None;
    }
    let file = chart.join(inside);
    file.is_file().then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_taken_out_where_kustomize_puts_them_and_nowhere_else() {
        let text = "\
apiVersion: v1
data:
  a: |
    metadata:
      annotations:
        config.kubernetes.io/origin: |
          path: no
kind: ConfigMap
metadata:
  annotations:
    config.kubernetes.io/origin: |
      configuredIn: ../o/kustomization.yaml
      configuredBy:
        kind: ConfigMapGenerator
  name: c
---
kind: Job
metadata:
  annotations:
    a: b
    config.kubernetes.io/origin: |
      path: ../b/job.yaml
    z: |
      x
  name: j
---
kind: Other
metadata:
  annotations:
    config.kubernetes.io/origin: |
      path: base/x.yaml
      ref: main
      repo: https://x
";
        let (out, origins) = without_origins(text.as_bytes(), Path::new("/s/t"));
        let expected = "\
apiVersion: v1
data:
  a: |
    metadata:
      annotations:
        config.kubernetes.io/origin: |
          path: no
kind: ConfigMap
metadata:
  name: c
---
kind: Job
metadata:
  annotations:
    a: b
    z: |
      x
  name: j
---
kind: Other
metadata:
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(
            origins,
            [
                Some(Origin::Generated("/s/o/kustomization.yaml".into())),
                Some(Origin::File("/s/b/job.yaml".into())),
                Some(Origin::File("/s/t/base/x.yaml".into())),
            ]
        );
        assert_eq!(without_origins(b"", Path::new("/")), (Vec::new(), vec![None]));
    }

    #[test]
    fn a_comment_names_files_of_the_chart_only() {
        let dir = tempfile::tempdir().unwrap();
        let chart = dir.path().join("chart");
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        std::fs::write(chart.join("templates/a b.yaml"), "").unwrap();
        std::fs::write(dir.path().join("outside.yaml"), "").unwrap();
        let mut known = BTreeMap::new();
        let mut of = |comment: &str| of_chart(comment, &chart, &mut known);
        assert_eq!(of("name/templates/a b.yaml"), Some(chart.join("templates/a b.yaml")));
        for comment in [
            "",
            "name",
            "name/",
            "name/templates",
            "name/templates/gone.yaml",
            "../outside.yaml",
            "name/../outside.yaml",
            "name/templates/../../outside.yaml",
            "../../../etc/passwd",
            "name//etc/passwd",
            "/etc/passwd",
        ] {
            assert_eq!(of(comment), None, "{comment}");
        }
    }
}

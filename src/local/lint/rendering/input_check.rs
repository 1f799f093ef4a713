//! Checks what the rendering tools are given: nothing of the user that is outside of the tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::WalkBuilder;

use super::plan::RenderJob;
use crate::local::files::{self, MAX_SETTINGS_BYTES, Tree};
use crate::local::lint::kustomization;
use crate::local::lint::options::Rendering;
use crate::local::paths::shown;
use crate::report::{Kustomized, NotRendered, Render, Rendered, helm};

/// Fails if a chart, or its files of values, would give Helm something outside of the tree: it follows links, and what
/// it reads would be in the report. This fails the run like a chart that does not render: nobody has looked at what is
/// in it.
pub(super) fn harmless(job: &RenderJob, rendering: &Rendering, trees: &Tree) -> Result<(), NotRendered> {
    let (dir, values) = match job {
        RenderJob::Chart { dir, values, .. } => (dir, values),
        RenderJob::Kustomization(tree) => return own_kustomization(tree, trees),
    };
    let failed = |why: String| NotRendered {
        thing: Rendered::Chart,
        dir: shown(dir).into(),
        why: why.into(),
        help: helm(&shown(dir)).into(),
        failed: true,
    };
    let (own, more) = (Tree::new([&**dir]), rendering.within.as_ref());
    for file in values {
        let read = match more {
            Some(tree) => tree.read(file, MAX_SETTINGS_BYTES),
            None => files::named(file, MAX_SETTINGS_BYTES),
        };
        read.map_err(|why| failed(format!("cannot read {}: {why}", shown(file))))?;
    }
    let has = |path: &Path| own.has(path) || trees.has(path) || more.is_some_and(|tree| tree.has(path));
    let mut walk = WalkBuilder::new(dir);
    walk.standard_filters(false);
    for entry in walk.build().filter_map(Result::ok) {
        let path = entry.path();
        let inside = shown(path.strip_prefix(dir).unwrap_or(path));
        if entry.path_is_symlink() && path.exists() && !has(path) {
            return Err(failed(format!("`{inside}` is a link that leads out of the directory")));
        }
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            return Err(failed(format!("`{inside}` is not a regular file")));
        }
    }
    Ok(())
}

/// Fails if a kustomization of a repository includes something that is neither in the repository nor named by the user:
/// kustomize confines files, but not directories.
fn own_kustomization(tree: &kustomization::KustomizationTree, trees: &Tree) -> Result<(), NotRendered> {
    let real = std::fs::canonicalize(&tree.path).unwrap_or_default();
    let Some(root) = real.ancestors().find(|above| above.join(".git").exists()) else { return Ok(()) };
    let repository = Tree::new([root]);
    let is_outside = |file: &&PathBuf| file.exists() && !repository.has(file) && !trees.has(file);
    let Some(outside) = tree.files.iter().find(is_outside) else { return Ok(()) };
    let path: Arc<str> = shown(&tree.path).into();
    let render = if tree.with_helm { Render::WithHelm } else { Render::Build };
    Err(NotRendered {
        thing: Rendered::Kustomization,
        dir: shown(tree.path.parent().unwrap_or(Path::new(""))).into(),
        why: format!("`{}` is outside the repository", shown(outside)).into(),
        help: Kustomized { path, render }.help().into(),
        failed: true,
    })
}

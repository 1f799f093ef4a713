//! `jobgate certs`: certificates by hand, for development and for clusters without another way to get them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};

use super::Exit;
use crate::cli::args::CertsInit;
use crate::serve::certs::Names;
use crate::serve::certs::authority::Authority;

/// Writes an authority and a certificate, and prints how to use them.
///
/// # Errors
/// If files exist and may not be replaced, or cannot be written, or a name is not valid for a Service.
pub fn init(args: &CertsInit, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let names = Names::new(&args.service, &args.namespace)?;
    let (now, life) = (SystemTime::now(), Duration::from_secs(86_400) * args.days);
    let authority = Authority::generate(&names, now, life)?;
    let leaf = authority.sign(&names, now, life)?;
    let files = [
        ("ca.crt", authority.root().pem(), 0o644),
        ("ca.key", authority.key_pem(), 0o600),
        ("tls.crt", leaf.certificate_pem(), 0o644),
        ("tls.key", leaf.key_pem().to_owned(), 0o600),
    ];
    fs::create_dir_all(&args.out).with_context(|| format!("make the directory {}", args.out.display()))?;
    let there: Vec<&str> = files
        .iter()
        .map(|(name, _, _)| *name)
        .filter(|name| args.out.join(name).symlink_metadata().is_ok())
        .collect();
    if !args.force && !there.is_empty() {
        bail!("{} already has {}; --force replaces them", args.out.display(), there.join(", "));
    }
    for (name, text, mode) in &files {
        write(&args.out.join(name), text, *mode, args.force)?;
    }
    explain(args, &names, out)?;
    Ok(Exit::Clean)
}

/// Writes a file atomically, never with wider permissions than `mode`. On Windows, where files have those of their
/// directory, `mode` has no effect.
fn write(path: &Path, text: &str, mode: u32, replace: bool) -> anyhow::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".jobgate-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
        #[cfg(not(unix))]
        let _ = mode;
        let mut file = builder.tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        if replace {
            file.persist(path).map_err(|error| error.error)?
        } else {
            file.persist_noclobber(path).map_err(|error| error.error)?
        };
        Ok(())
    };
    write().with_context(|| format!("write {}", path.display()))
}

/// The commands that set an authority in every webhook of both configurations; there may be more than one.
const PUBLISH: &str = r#"ca=$(base64 < "{dir}/ca.crt" | tr -d '\n')
for kind in mutating validating; do
  for name in $(kubectl get ${kind}webhookconfiguration jobgate -o jsonpath='{.webhooks[*].name}'); do
    kubectl patch ${kind}webhookconfiguration jobgate -p "{\"webhooks\":[{\"name\":\"$name\",\"clientConfig\":{\"caBundle\":\"$ca\"}}]}"
  done
done
"#;

fn explain(args: &CertsInit, names: &Names, out: &mut dyn Write) -> std::io::Result<()> {
    let dir = args.out.display();
    writeln!(
        out,
        "# Written to {dir}: ca.crt, ca.key, tls.crt, tls.key, for {}, good for {} days.",
        names.server_name(),
        args.days
    )?;
    writeln!(
        out,
        "# Keep ca.key out of the cluster and out of version control; it is needed only to sign again.\n#"
    )?;
    writeln!(
        out,
        "# 1. The certificate, where the Deployment mounts it (jobgate serve --tls-cert … --tls-key …):\n#"
    )?;
    writeln!(
        out,
        "kubectl create secret tls jobgate-tls -n {} --cert=\"{dir}/tls.crt\" --key=\"{dir}/tls.key\"\n",
        names.namespace()
    )?;
    writeln!(out, "# 2. The authority, in every webhook of the configurations:\n#")?;
    writeln!(out, "{}", PUBLISH.replace("{dir}", &dir.to_string()))?;
    writeln!(
        out,
        "# Before {} days are over: run this again, publish both authorities, then replace the Secret (certs/README.md).",
        args.days
    )
}

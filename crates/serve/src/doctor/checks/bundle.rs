//! Certificates: what the API server trusts, what the pods serve, and what the Secret contains.

use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::super::examination::{CheckOutcome, Note, Status};
use super::super::observations::{Certificates, Entry, Observed, Seen, Unread};
use super::{dates, entries, list, need, or_fine};
use crate::certs::authority::{Root, verify};
use crate::certs::driver::data;
use crate::certs::state::{Contents, ROTATE, Slot};
use crate::certs::{Distrust, Names};
use crate::server::certificate::check_pair;
use jobgate_cluster::chain as chain_of;
use jobgate_core::text::value::Value;

/// The remedy for a broken certificate that Jobgate does not manage.
const PAIR: &str = "write the chain and its key into the Secret together: cert-manager does, or use jobgate certs init --service {service} --namespace {ns}";
/// The remedy for a caBundle that Jobgate does not write.
const PUBLISH: &str = "write the authority that signed the certificate into every caBundle: cert-manager's injector does, and jobgate certs init prints how";
/// The remedy for a broken certificate that Jobgate manages.
const REPLACED: &str = "Jobgate replaces it within ten seconds if it has permission; see why it does not: kubectl -n {ns} logs deployment/{deployment} --tail=50";

/// The remedy if a certificate cannot be reached from here, though perhaps from the API server.
const FROM_HERE: &str = "nothing, if `canary-denied` is ok: then the API server reaches it; otherwise see where the pods listen: kubectl -n {ns} describe pods -l app.kubernetes.io/name=jobgate";

pub(super) fn bundle(observed: &Observed) -> CheckOutcome {
    let mut notes = Vec::new();
    let mut best: Option<Note> = None;
    for entry in entries(observed)? {
        let name = entry.name();
        let pem = match entry.bundle() {
            None if entry.url().is_some() => {
                notes.push(Note::warning(format!(
                    "{name} has no caBundle: the API server uses its own roots"
                )));
                continue;
            }
            None => {
                notes.push(Note::problem(format!(
                    "the caBundle of {name} is empty: the API server does not trust Jobgate"
                )));
                continue;
            }
            Some(Err(_)) => {
                notes.push(Note::problem(format!("the caBundle of {name} is not base64")));
                continue;
            }
            Some(Ok(pem)) => pem,
        };
        let (roots, clean) = Root::read_all(&pem);
        if roots.is_empty() {
            notes.push(Note::problem(format!("the caBundle of {name} contains no certificate")));
            continue;
        }
        if !clean {
            notes.push(Note::warning(format!(
                "the caBundle of {name} contains something that is not a certificate"
            )));
        }
        // During a rotation there are several: the one that lasts longest counts.
        let judged = roots.iter().map(|root| dates(&format!("the caBundle of {name}"), root, observed.now));
        let Some(note) = judged.min_by_key(|note| note.status) else { continue };
        match note.status {
            Status::Ok => best = best.or(Some(note)),
            _ => notes.push(note),
        }
    }
    let fine = best.map_or_else(|| "nothing is wrong with it".to_owned(), |note| note.text);
    or_fine(notes, fine)
}

pub(super) fn agrees(observed: &Observed) -> CheckOutcome {
    let entries = entries(observed)?;
    let sets: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let mut ids: Vec<String> = entry.roots().iter().map(Root::id).collect();
            ids.sort_unstable();
            ids
        })
        .collect();
    if sets.iter().all(Vec::is_empty) {
        return Ok(vec![Note::not_checked("none has an authority")]);
    }
    if sets.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(vec![Note::ok(format!("all have {}", list(sets.first().into_iter().flatten())))]);
    }
    let parts = entries.iter().zip(&sets).map(|(entry, ids)| match ids.is_empty() {
        true => format!("{} none", entry.name()),
        false => format!("{} {}", entry.name(), list(ids)),
    });
    Ok(vec![Note::warning(format!("they differ: {}", list(parts)))])
}

/// Returns the source of the certificates, by the Deployment, or else by the contents of the Secret.
fn source(observed: &Observed, secret: &Value) -> Certificates {
    let has = |key: &str| !secret["data"][key].is_null();
    observed.certificates().unwrap_or_else(|| match has("tls.crt") && !has("ca.key") {
        true => {
            Certificates::Mounted(observed.secret_name(), "tls.crt".to_owned(), Some("tls.key".to_owned()))
        }
        false => Certificates::Own(observed.secret_name()),
    })
}

fn contents(observed: &Observed, secret: &Value) -> Result<Contents, Note> {
    let names = Names::new(&observed.service_name(), &observed.place.namespace);
    let names = names.map_err(|error| Note::problem(error.to_string()))?;
    let rotate = !secret["metadata"]["annotations"][ROTATE].is_null();
    Ok(Contents::from_data(&data(secret), rotate, &names))
}

fn no_secret(observed: &Observed) -> Note {
    let (name, namespace) = (observed.secret_name(), &observed.place.namespace);
    Note::problem(format!("there is no Secret {name} in {namespace}"))
        .remedy("create it, empty, with the manifests: kubectl apply -f deploy/install.yaml")
}

/// Returns whether there is a caBundle to verify with.
fn has_bundle(entries: &[Entry<'_>]) -> bool {
    entries.iter().any(|entry| entry.server_name().is_some() && entry.bundle().is_some())
}

/// Verifies a certificate as the API server does for each webhook, and returns the reasons for distrust, each
/// with the names of the webhooks.
fn distrust<'a>(
    entries: &[Entry<'a>],
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: SystemTime,
) -> Vec<(Distrust, Vec<&'a str>)> {
    let mut all: Vec<(Distrust, Vec<&str>)> = Vec::new();
    for entry in entries {
        // Without a bundle the API server uses its own roots, which are unknown; `ca-bundle` reports that.
        let (Some(name), Some(_)) = (entry.server_name(), entry.bundle()) else { continue };
        let Err(why) = verify(leaf, intermediates, &entry.roots(), &name, now) else { continue };
        match all.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(entry.name()),
            None => all.push((why, vec![entry.name()])),
        }
    }
    all
}

pub(super) fn ours(observed: &Observed) -> CheckOutcome {
    let entries = entries(observed)?;
    let secret = need(&observed.secret, || {
        Note::not_checked("there is no Secret").remedy("see `certificate-secret`")
    })?;
    let nothing = |what: &str| {
        Note::not_checked(format!("the Secret has no {what}")).remedy("see `certificate-secret`")
    };
    let without = |root: &Root| -> Vec<&str> {
        entries.iter().filter(|entry| !entry.roots().contains(root)).map(|entry| entry.name()).collect()
    };
    if let Certificates::Mounted(name, certificate, _) = source(observed, secret) {
        let data = data(secret);
        let pem = |key: &str| data.get(key).map(Vec::as_slice).unwrap_or_default();
        if let Some(root) = Root::read_all(pem("ca.crt")).0.first() {
            let what = format!("ca.crt in the Secret {name} ({})", root.id());
            let notes = match &without(root)[..] {
                [] => Vec::new(),
                missing => vec![
                    Note::problem(format!("{what} is not in the caBundle of {}", list(missing)))
                        .remedy(PUBLISH),
                ],
            };
            return or_fine(notes, format!("{what} is in every caBundle"));
        }
        let chain: Vec<CertificateDer<'_>> =
            CertificateDer::pem_slice_iter(pem(&certificate)).filter_map(Result::ok).collect();
        let (leaf, intermediates) = chain.split_first().ok_or_else(|| nothing("certificate"))?;
        let what = format!("{certificate} in the Secret {name}");
        if !has_bundle(&entries) {
            return Err(Note::not_checked(format!("no webhook has a caBundle to verify {what}"))
                .remedy("see `ca-bundle`"));
        }
        let mut notes = Vec::new();
        for (why, names) in distrust(&entries, leaf, intermediates, observed.now) {
            notes.push(match why {
                Distrust::Unsigned => Note::problem(format!(
                    "no authority in the caBundle of {} has signed {what}",
                    list(names)
                ))
                .remedy(PUBLISH),
                Distrust::Expired | Distrust::Early => {
                    Note::not_checked(format!("{what}: {why}")).remedy("see `certificate-secret`")
                }
                why => {
                    Note::problem(format!("{what}: {why}, by the caBundle of {}", list(names))).remedy(PAIR)
                }
            });
        }
        return or_fine(notes, format!("{what} is signed by an authority in every caBundle"));
    }
    let root =
        contents(observed, secret)?.current.roots().into_iter().next().ok_or_else(|| nothing("authority"))?;
    let what = format!("the authority in the Secret ({})", root.id());
    let notes = match &without(&root)[..] {
        [] => Vec::new(),
        missing => vec![Note::problem(format!("{what} is not in the caBundle of {}", list(missing)))],
    };
    or_fine(notes, format!("{what} is in every caBundle"))
}

pub(super) fn served(observed: &Observed) -> CheckOutcome {
    let entries = entries(observed)?;
    let mut notes = Vec::new();
    let mut fine = Vec::new();
    for served in &observed.served {
        let at = &served.at;
        let chain = match &served.chain {
            Seen::Known(chain) => chain,
            Seen::Absent => continue,
            Seen::Unread(unread) if served.conclusive => {
                notes.push(Note::problem(format!("{at}: {unread}")));
                continue;
            }
            Seen::Unread(unread) => {
                let note = Note { text: format!("{at}: {unread}"), ..Note::unread(unread) };
                // It may be unreachable only from here.
                notes.push(if matches!(unread, Unread::Failed(_)) { note.remedy(FROM_HERE) } else { note });
                continue;
            }
        };
        let Some((leaf, intermediates)) = chain.split_first() else { continue };
        let Ok(root) = Root::from_der(leaf.clone()) else {
            notes.push(Note::problem(format!("{at}: the served certificate is not X.509")));
            continue;
        };
        let dated = dates("the certificate", &root, observed.now);
        if dated.status > Status::Ok {
            notes.push(Note { text: format!("{at}: {}", dated.text), ..dated });
        }
        if !has_bundle(&entries) {
            notes.push(
                Note::not_checked(format!("{at}: no webhook has a caBundle to verify it"))
                    .remedy("see `ca-bundle`"),
            );
            continue;
        }
        let distrusted = distrust(&entries, leaf, intermediates, observed.now);
        for (why, names) in &distrusted {
            let why = match why {
                Distrust::Unsigned => format!(
                    "no authority in the caBundle of {} has signed the certificate ({})",
                    list(names),
                    root.id()
                ),
                Distrust::Expired | Distrust::Early if dated.status == Status::Problem => continue,
                why => format!("the certificate ({}): {why}, by the caBundle of {}", root.id(), list(names)),
            };
            notes.push(Note::problem(format!("{at}: {why}")));
        }
        if distrusted.is_empty() {
            fine.push(format!("{at}: {}", dated.text));
        }
    }
    if observed.served.is_empty() {
        need(&observed.pods, || Note::not_checked("there is no pod").remedy("see `pods` and `service`"))?;
        return Err(Note::not_checked("no pod is running").remedy("see `pods` and `service`"));
    }
    or_fine(notes, list(fine))
}

pub(super) fn secret(observed: &Observed) -> CheckOutcome {
    if observed.certificates() == Some(Certificates::Memory) {
        return Ok(vec![Note::warning("it runs with --dev: the certificate is in memory and for localhost")]);
    }
    let secret = need(&observed.secret, || no_secret(observed))?;
    let mut notes = Vec::new();
    let fine;
    match source(observed, secret) {
        Certificates::Mounted(name, certificate, key) => {
            let data = data(secret);
            let pem = |key: &str| data.get(key).map(Vec::as_slice).unwrap_or_default();
            let chain = Root::read_all(pem(&certificate)).0;
            let Some(leaf) = chain.first() else {
                return Err(Note::problem(format!(
                    "there is no certificate at {certificate} in the Secret {name}"
                ))
                .remedy(PAIR));
            };
            match &key {
                Some(key) if pem(key).trim_ascii().is_empty() => {
                    notes.push(
                        Note::problem(format!("there is no key at {key} in the Secret {name}")).remedy(PAIR),
                    );
                }
                Some(key) => {
                    if let Err(error) = check_pair(pem(&certificate), pem(key)) {
                        let why = chain_of(&error);
                        notes.push(
                            Note::problem(format!(
                                "{certificate} and {key} in the Secret {name} cannot be served: {why}"
                            ))
                            .remedy(PAIR),
                        );
                    }
                }
                None => notes.push(
                    Note::not_checked(format!("the key is not in the Secret {name}, and was not checked"))
                        .remedy("nothing, unless you want this checked"),
                ),
            }
            let note = dates("the certificate", leaf, observed.now);
            fine = note.text.clone();
            if note.status > Status::Ok {
                notes.push(note);
            }
        }
        _ => {
            let contents = contents(observed, secret)?;
            notes.extend(contents.faults().into_iter().map(|fault| Note::problem(fault).remedy(REPLACED)));
            fine = match &contents.current {
                Slot::Empty => {
                    notes.push(Note::problem(
                        "it is empty: no replica has created an authority yet, or none may write it",
                    ));
                    String::new()
                }
                Slot::Broken(..) => String::new(),
                Slot::Good(authority) => {
                    let note = dates("the authority", authority.root(), observed.now);
                    let mut text = note.text.clone();
                    if note.status > Status::Ok {
                        notes.push(note);
                    }
                    if let Slot::Good(next) = &contents.next {
                        text += &format!("; the next one ({}) is ready", next.root().id());
                    }
                    if contents.rotate {
                        text += "; a rotation is requested";
                    }
                    text
                }
            };
        }
    }
    or_fine(notes, fine)
}

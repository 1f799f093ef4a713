//! The permissions of the pods' service account.

use super::super::examination::{CheckOutcome, Note};
use super::super::observations::{Observed, Right, Seen};
use super::{list, or_fine};
use jobgate_core::judge::facts::{FactDefinition, FactKind};
use jobgate_core::kinds::{ApiResource, Kind};
use jobgate_report::plural;

pub(super) fn permissions(observed: &Observed) -> CheckOutcome {
    if observed.deployment == Seen::Absent {
        return Err(
            Note::not_checked("there is no Deployment to name the service account").remedy("see `replicas`")
        );
    }
    if observed.rights.is_empty() {
        return Ok(vec![Note::ok("it needs none")]);
    }
    let mut notes = Vec::new();
    let lacks = |of: &dyn Fn(&Right) -> bool| -> Vec<String> {
        let missing = observed
            .rights
            .iter()
            .filter(|(right, seen)| of(right) && matches!(seen, Seen::Known(false) | Seen::Absent));
        let mut objects: Vec<(String, Vec<&str>)> = Vec::new();
        for (right, _) in missing {
            let object = right.object();
            match objects.iter_mut().find(|(known, _)| *known == object) {
                Some((_, verbs)) => verbs.push(right.verb),
                None => objects.push((object, vec![right.verb])),
            }
        }
        objects.into_iter().map(|(object, verbs)| format!("{} {object}", verbs.join("/"))).collect()
    };
    let is_of = |right: &Right, resource: ApiResource| {
        (right.group, right.resource) == (resource.group, resource.name)
    };
    let is_parent =
        |right: &Right| Kind::with_children().any(|kind| is_of(right, ApiResource::from_kind(kind)));
    let certificates = lacks(&|right| right.certificates);
    let parents = lacks(&is_parent);
    if !certificates.is_empty() {
        notes.push(Note::problem(format!(
            "it may not {}: certificates cannot be managed",
            list(certificates)
        )));
    }
    // Each rule once, with all that it misses.
    let rules = super::policy::rules(observed);
    let mut by_rules: Vec<(String, Vec<String>)> = Vec::new();
    for FactDefinition { resource, missed_by, .. } in FactKind::all().map(FactKind::definition) {
        let missing = lacks(&|right| is_of(right, resource));
        let rules = rules.names_needing(missed_by);
        match by_rules.iter_mut().find(|(known, _)| *known == rules) {
            Some((_, known)) => known.extend(missing),
            None => by_rules.push((rules, missing)),
        }
    }
    for (rules, missing) in by_rules.into_iter().filter(|(_, missing)| !missing.is_empty()) {
        notes.push(Note::warning(format!("it may not {}: {rules} cannot look them up", list(missing))));
    }
    if !parents.is_empty() {
        notes.push(Note::warning(format!(
            "it may not {}: a trusted controller is believed without a look at the parent that it names",
            list(parents)
        )));
    }
    if let Some(unread) = observed
        .rights
        .iter()
        .find_map(|(_, seen)| if let Seen::Unread(unread) = seen { Some(unread) } else { None })
    {
        notes.push(Note::unread(unread));
    }
    or_fine(notes, format!("it has all {} it needs", plural(observed.rights.len(), "permission")))
}

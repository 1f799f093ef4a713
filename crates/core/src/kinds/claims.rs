//! Claims that an object names or describes outside its pod templates.

use super::workload::Workload;
use crate::kinds::definition::{Mounted, OwnClaims};
use crate::kinds::field::Part;
use crate::kinds::pods::each_at;
use crate::text::value::Value;

/// One of the claims of an object.
#[derive(Clone, Debug)]
pub struct OwnClaim<'a> {
    /// Its form, from the definition of the kind.
    pub form: &'static OwnClaims,
    /// The text that identifies it to users.
    pub name: &'a str,
    /// The field with the name of a claim that exists.
    pub(crate) existing: Option<Part<'a>>,
    /// The access modes of a claim to be created, which needs no look-up.
    pub(crate) modes: Option<Part<'a>>,
    /// The path of the mounts that are added to every container.
    pub path: Option<&'a str>,
}

impl<'a> OwnClaim<'a> {
    /// Tells whether it both names an existing claim and describes a new one. The operator rejects that in a
    /// new object; in one that it knows, it has written the name of the claim that it created.
    #[must_use]
    pub(crate) fn is_refused(&self, object: &Part<'_>) -> bool {
        let is_known = || object.at(&["metadata", "uid"]).is_set() || object.get("status").is_set();
        self.existing.is_some() && self.modes.is_some() && !is_known()
    }

    /// Returns the name and field of the claim to look up: one that exists, and is not described.
    #[must_use]
    pub fn to_look_up(&self) -> Option<(&'a str, &Part<'a>)> {
        let part = self.existing.as_ref().filter(|_| self.modes.is_none())?;
        Some((part.value?.as_str()?, part))
    }
}

impl<'a> Workload<'a> {
    /// Returns the object's claims outside its pod templates.
    #[must_use]
    pub fn own_claims(&self) -> Vec<OwnClaim<'a>> {
        let mut all = Vec::new();
        for form in self.kind.claims {
            each_at(&self.object, form.at, &mut |claim| all.extend(OwnClaim::new(form, &claim)));
        }
        all
    }
}

impl<'a> OwnClaim<'a> {
    fn new(form: &'static OwnClaims, claim: &Part<'a>) -> Option<Self> {
        let text = |part: Part<'a>| part.value.and_then(Value::as_str).filter(|text| !text.is_empty());
        // A list may have thousands of entries without a name.
        let says = |path: &[&str]| path.iter().try_fold(claim.value?, |value, key| value.get(key))?.as_str();
        if says(form.name).is_none() && form.existing.is_none_or(|field| says(&[field]).is_none()) {
            return None;
        }
        let spec = claim.get(form.spec);
        let existing =
            form.existing.map(|field| claim.get(field)).filter(|field| text(field.clone()).is_some());
        let path = match form.mounted {
            Mounted::Everywhere(field) => text(claim.get(field)),
            Mounted::ByName => None,
        };
        let modes = spec.is_set().then(|| spec.get("accessModes"));
        let made = existing.clone().filter(|_| modes.is_some()).and_then(text);
        let name = made.or_else(|| text(claim.at(form.name)))?;
        Some(Self { form, name, existing, modes, path })
    }
}

//! Where an unknown field may belong.

use super::StructureWalk;
use crate::judge::api::schema::{Id, SchemaFields, SchemaShape};
use crate::kinds::{EACH, Kind};
use crate::text::meter;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

impl StructureWalk<'_> {
    /// Returns the nearest mapping of the object that may have a field of this name.
    pub(super) fn home(
        &self,
        (key, value): (&str, &Value),
        fields: &SchemaFields,
        parent: &Pointer,
    ) -> Option<Pointer> {
        if fields.get("limits").is_some() && (key.contains('/') || key == "cpu" || key == "memory") {
            return Some(parent.key("limits"));
        }
        let kind = Kind::from_object(self.object)?;
        let mut names: Vec<&'static str> = kind.paths().flatten().copied().collect();
        names.extend(["template", "containers", "securityContext"]);
        names.sort_unstable();
        names.dedup();
        names.retain(|name| *name != EACH);
        let mut levels = Vec::new();
        self.levels((kind, &names), parent, self.root, Pointer::root(), &mut levels);
        if let Some(above) = parent.parent()
            && let Some(fields) = self.fields_at(&above)
        {
            levels.push((above, fields));
        }
        let holders = levels.into_iter().filter(|(at, _)| at != parent);
        let (_, at, field) = holders
            .filter_map(|(at, fields)| Some((distance(&at, parent), at, fields.get(key)?)))
            .min_by(|left, right| left.0.cmp(&right.0))?;
        // The author did not mean a place that already has the field, nor one in another group of pods.
        let is_free = at.find(self.object).is_none_or(|home| home.get(key).is_none());
        (is_free && !is_beside(kind, &at, parent) && self.fits(field, value)).then_some(at)
    }

    /// Tells whether a value has the shape of a field, and no unknown keys.
    pub(super) fn fits(&self, id: Id, value: &Value) -> bool {
        meter::spend(1);
        match (self.schema.shape(id), value) {
            (SchemaShape::List(item), Value::Array(items)) => {
                items.iter().all(|value| self.fits(*item, value))
            }
            (SchemaShape::Map(item), Value::Object(entries)) => {
                entries.iter().all(|(_, value)| self.fits(*item, value))
            }
            (SchemaShape::Object(fields), Value::Object(entries)) => entries
                .iter()
                .all(|(key, value)| fields.get(key).is_some_and(|field| self.fits(field, value))),
            (SchemaShape::List(_) | SchemaShape::Map(_) | SchemaShape::Object(_), _) => value.is_null(),
            (SchemaShape::Any, _) => true,
            (_, value) => !value.is_array() && !value.is_object(),
        }
    }

    /// Returns the fields of the mapping at a place.
    fn fields_at(&self, place: &Pointer) -> Option<&'static SchemaFields> {
        let mut id = self.root;
        for token in place.tokens() {
            meter::spend(1);
            id = match (self.schema.shape(id), token) {
                (SchemaShape::Object(fields), Token::Key(key)) => fields.get(key)?,
                (SchemaShape::Map(item), Token::Key(_)) | (SchemaShape::List(item), Token::Index(_)) => *item,
                _ => return None,
            };
        }
        match self.schema.shape(id) {
            SchemaShape::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// Returns the item or entry around a place, or the first.
    fn one_inside(&self, at: &Pointer, place: &Pointer) -> Option<Pointer> {
        let around = place.below(at).and_then(|below| below.tokens().first().copied().cloned());
        let first = || at.find(self.object)?.as_object()?.keys().next().map(|key| at.key(key));
        around.map(|token| at.clone().then(token)).or_else(first)
    }

    /// Collects the mappings that authors confuse: the object, its specs, templates and containers. All items
    /// of a list and all roles have the same fields, so one of them is enough: the one around the field, or
    /// the first. How many levels there are depends on the schema alone.
    fn levels(
        &self,
        (kind, names): (Kind, &[&'static str]),
        parent: &Pointer,
        id: Id,
        at: Pointer,
        out: &mut Vec<(Pointer, &'static SchemaFields)>,
    ) {
        match self.schema.shape(id) {
            SchemaShape::Object(fields) => {
                meter::spend(1);
                for name in names {
                    if let Some(field) = fields.get(name) {
                        self.levels((kind, names), parent, field, &at / *name, out);
                    }
                }
                out.push((at, fields));
            }
            SchemaShape::List(item) => {
                let next = self.one_inside(&at, parent).unwrap_or(&at / 0);
                self.levels((kind, names), parent, *item, next, out);
            }
            SchemaShape::Map(item) if kind.roles().is_some_and(|roles| at == Pointer::new(roles)) => {
                if let Some(next) = self.one_inside(&at, parent) {
                    self.levels((kind, names), parent, *item, next, out);
                }
            }
            _ => {}
        }
    }
}

/// Tells whether two places are in different groups of pods of a kind, such as the head and the workers of a
/// Ray cluster.
fn is_beside(kind: Kind, one: &Pointer, other: &Pointer) -> bool {
    let group = |place: &Pointer| {
        let steps = place.tokens();
        let around = kind.pods.iter().map(|pods| pods.at).filter(|at| {
            at.len() <= steps.len()
                && at
                    .iter()
                    .zip(&steps)
                    .all(|(key, step)| *key == EACH || matches!(step, Token::Key(own) if **own == **key))
        });
        around.max_by_key(|at| at.len())
    };
    let (Some(one), Some(other)) = (group(one), group(other)) else { return false };
    !one.starts_with(other) && !other.starts_with(one)
}

/// Returns the number of steps between two places; on a tie, a place below is nearer than one above.
fn distance(from: &Pointer, to: &Pointer) -> (usize, usize) {
    let common = from.tokens().into_iter().zip(to.tokens()).take_while(|(left, right)| left == right).count();
    let (up, down) = (to.depth() - common, from.depth() - common);
    (up + down, up)
}

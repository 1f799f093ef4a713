//! The places of objects that rules may fill.

use crate::text::pointer::Token;
use crate::text::value::Value;

/// The paths that rules may fill, as steps; `None` matches any step.
#[derive(Debug)]
pub(crate) struct FillablePaths(Vec<Vec<Option<String>>>);

impl FillablePaths {
    pub(super) fn new(patterns: impl IntoIterator<Item = String>) -> Self {
        let step = |step: &str| (step != "*").then(|| step.replace("~1", "/").replace("~0", "~"));
        Self(patterns.into_iter().map(|pattern| pattern.split('/').skip(1).map(step).collect()).collect())
    }

    /// Tells whether a place is one of them, or lies in one.
    fn cover(&self, at: &[Token]) -> bool {
        let fits = |(want, have): (&Option<String>, &Token)| match (want, have) {
            (None, _) => true,
            (Some(want), Token::Key(have)) => want == &**have,
            (Some(want), Token::Index(have)) => want.parse() == Ok(*have),
        };
        self.0.iter().any(|pattern| pattern.len() <= at.len() && pattern.iter().zip(at).all(fits))
    }

    /// Tells whether an object has changed in these places only. Lists may only grow at the end.
    pub(crate) fn allow_change(&self, before: &Value, after: &Value) -> bool {
        self.allow(&mut Vec::new(), Some(before), Some(after))
    }

    fn allow(&self, at: &mut Vec<Token>, before: Option<&Value>, after: Option<&Value>) -> bool {
        match (before, after) {
            (before, after) if before == after => true,
            (Some(Value::Object(before)), Some(Value::Object(after))) => before
                .keys()
                .chain(after.keys().filter(|key| !before.contains_key(key)))
                .all(|key| self.step(at, Token::Key(key.to_owned().into()), before.get(key), after.get(key))),
            (Some(Value::Array(before)), Some(Value::Array(after))) => {
                before.len() <= after.len()
                    && after.iter().enumerate().all(|(index, item)| match before.get(index) {
                        Some(before) => before == item || self.within(at, index, before, item),
                        None => self.step(at, Token::Index(index), None, Some(item)),
                    })
            }
            // A mapping or list that is new or replaces null is checked by its contents; an empty one by
            // itself.
            (None | Some(Value::Null), Some(Value::Object(after)))
                if !after.is_empty() && !self.cover(at) =>
            {
                after
                    .iter()
                    .all(|(key, value)| self.step(at, Token::Key(key.to_owned().into()), None, Some(value)))
            }
            (None | Some(Value::Null), Some(Value::Array(after))) if !after.is_empty() && !self.cover(at) => {
                after
                    .iter()
                    .enumerate()
                    .all(|(index, item)| self.step(at, Token::Index(index), None, Some(item)))
            }
            _ => self.cover(at),
        }
    }

    /// Tells whether an existing item of a list has changed only in covered places below it: an item that may be
    /// new may not replace another.
    fn within(&self, at: &mut Vec<Token>, index: usize, before: &Value, after: &Value) -> bool {
        at.push(Token::Index(index));
        let allowed = !self.cover(at) && self.allow(at, Some(before), Some(after));
        at.pop();
        allowed
    }

    fn step(&self, at: &mut Vec<Token>, token: Token, before: Option<&Value>, after: Option<&Value>) -> bool {
        at.push(token);
        let allowed = self.allow(at, before, after);
        at.pop();
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    fn allows(list: &[&str], before: &Value, after: &Value) -> bool {
        FillablePaths::new(list.iter().map(|place| (*place).to_owned())).allow_change(before, after)
    }

    #[test]
    fn only_listed_places_may_change() {
        let list =
            ["/spec/ttl", "/spec/*/tolerations/*", "/spec/runPolicy/ttl", "/metadata/annotations/a~1b"];
        let before =
            json!({"spec": {"x": {"tolerations": [{"key": "a"}]}, "y": 1}, "metadata": {"annotations": {}}});
        let change = |edit: &dyn Fn(&mut Value)| {
            let mut after = before.clone();
            edit(&mut after);
            allows(&list, &before, &after)
        };
        assert!(change(&|_| ()));
        assert!(change(&|v| v["spec"]["ttl"] = 1.into()));
        assert!(
            change(&|v| v["spec"]["x"]["tolerations"] = json!([{"key": "a"}, {"key": "b", "deep": [1]}]))
        );
        assert!(
            change(&|v| v["spec"]["z"] = json!({"tolerations": [{}]})),
            "a mapping of listed places only may be new"
        );
        assert!(change(&|v| v["spec"]["runPolicy"] = json!({"ttl": 1})));
        assert!(change(&|v| v["metadata"]["annotations"]["a/b"] = "c".into()));
        assert!(!change(&|v| v["spec"]["runPolicy"] = json!({"ttl": 1, "suspend": true})));
        assert!(!change(&|v| v["spec"]["runPolicy"] = json!({})), "an empty mapping is a change too");
        assert!(!change(&|v| v["spec"]["y"] = 2.into()));
        assert!(
            !change(&|v| v["spec"]["x"]["tolerations"] = json!([{"key": "b"}])),
            "nobody's toleration is replaced"
        );
        assert!(
            !change(&|v| v["spec"]["x"]["tolerations"] = json!([{"key": "b"}, {"key": "a"}])),
            "nor moved"
        );
        assert!(!change(&|v| v["spec"]["x"]["tolerations"] = json!([])), "nor taken out");
        assert!(!change(&|v| v["spec"] = Value::Null));
        assert!(!change(&|v| *v = json!([])));
    }

    #[test]
    fn items_of_lists_may_change_in_listed_places_below_them() {
        let list = ["/spec/tasks/*/ttl", "/spec/tasks/*/tolerations", "/spec/tasks/*/tolerations/*"];
        let before =
            json!({"spec": {"tasks": [{"name": "a"}, {"name": "b", "tolerations": [{"key": "x"}]}]}});
        let change = |edit: &dyn Fn(&mut Value)| {
            let mut after = before.clone();
            edit(&mut after["spec"]["tasks"]);
            allows(&list, &before, &after)
        };
        assert!(change(&|tasks| tasks[0]["ttl"] = 1.into()));
        assert!(change(&|tasks| tasks[0]["tolerations"] = json!([{"key": "y"}])));
        assert!(change(&|tasks| tasks[1]["tolerations"] = json!([{"key": "x"}, {"key": "y"}])));
        assert!(!change(&|tasks| tasks[1]["tolerations"] = json!([{"key": "y"}])));
        assert!(!change(&|tasks| tasks[1]["tolerations"][0]["operator"] = "Exists".into()));
        assert!(!change(&|tasks| tasks[0]["name"] = "b".into()));
        assert!(!change(
            &|tasks| *tasks = json!([{"name": "b", "tolerations": [{"key": "x"}]}, {"name": "a"}])
        ));
        assert!(!change(&|tasks| *tasks = json!([{"name": "a"}])));
        assert!(!change(&|tasks| tasks.as_array_mut().expect("a list").push(json!({"name": "c"}))));
    }

    #[test]
    fn a_null_gives_way_to_listed_places_only() {
        assert!(allows(&["/a/b"], &json!({"a": null}), &json!({"a": {"b": 1}})));
        assert!(!allows(&["/a/b"], &json!({"a": null}), &json!({"a": {"c": 1}})));
        assert!(
            !allows(&["/a/b"], &json!({"a": "text"}), &json!({"a": {"b": 1}})),
            "a value of another type stays"
        );
    }
}

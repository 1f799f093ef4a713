//! Label selectors.

use crate::text::value::Value;

/// Tells whether a `LabelSelector` matches labels, whose values `label` returns. An empty or missing selector
/// matches everything, an unknown operator nothing.
pub fn selects<'a>(selector: &Value, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.into_iter().all(|(key, value)| label(key).is_some_and(|have| value == have))
        && expressions.into_iter().all(|expression| {
            let have = expression["key"].as_str().and_then(&label);
            let listed = |have| {
                expression["values"].as_array().is_some_and(|values| values.iter().any(|value| value == have))
            };
            match expression["operator"].as_str() {
                Some("In") => have.is_some_and(listed),
                Some("NotIn") => !have.is_some_and(listed),
                Some("Exists") => have.is_some(),
                Some("DoesNotExist") => have.is_none(),
                _ => false,
            }
        })
}

/// Returns a lookup of the labels of an object, for [`selects`].
pub fn labels<'o>(object: &'o Value) -> impl Fn(&str) -> Option<&'o str> + use<'o> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    move |key| labels?.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn selectors_select_as_the_api_server_does() {
        let object = json!({"metadata": {"labels": {"a": "1", "b": ""}}});
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, selected) in [
            (json!(null), true),
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "1", "c": "1"}}), false),
            (expression("a", "In", &["1", "2"]), true),
            (expression("a", "In", &["2"]), false),
            (expression("c", "In", &["2"]), false),
            (expression("a", "NotIn", &["1"]), false),
            (expression("c", "NotIn", &["1"]), true),
            (expression("b", "Exists", &[]), true),
            (expression("b", "DoesNotExist", &[]), false),
            (expression("c", "DoesNotExist", &[]), true),
            (expression("a", "Gt", &["0"]), false),
        ] {
            assert_eq!(selects(&selector, labels(&object)), selected, "{selector}");
        }
    }
}

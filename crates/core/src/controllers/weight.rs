//! How large a value is: what a simulation makes of one, it may make thousands of times.

use crate::text::value::Value;

/// How many bytes of text are as much as one more value.
const TEXT_A_VALUE: usize = 64;

/// Returns how many values there are in a value, itself among them; long texts count as several.
pub(super) fn weight(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() / TEXT_A_VALUE + weight(value)).sum()
        }
        Value::String(text) => text.len() / TEXT_A_VALUE,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    inner + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn values_inside_and_long_texts_count() {
        assert_eq!(weight(&json!(1)), 1);
        assert_eq!(weight(&json!({"a": [1, 2], "b": "x".repeat(640)})), 15);
    }
}

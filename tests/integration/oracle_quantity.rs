//! Holds [`Quantity`] to answers recorded from `k8s.io/apimachinery`.

use jobgate::k8s::quantity::Quantity;
use jobgate::text::value::{Value, json};

fn answer(input: &str) -> Value {
    match Quantity::parse(input) {
        Ok(quantity) => json!({
            "input": input,
            "canonical": quantity.canonical(),
            "is_integer": quantity.is_integer(),
            "is_zero": quantity.is_zero(),
            "milli_value": quantity.milli_value(),
            "value": quantity.value(),
        }),
        Err(error) => json!({"input": input, "error": error.to_string()}),
    }
}

#[test]
fn agrees_with_the_oracle() {
    let Some(rows) = crate::support::shared::rows("oracles/quantity.jsonl") else { return };
    assert!(rows.len() >= 50, "only {} rows", rows.len());
    let answers = rows.iter().map(|row| (row, answer(row["input"].as_str().expect("input is text"))));
    let wrong: Vec<String> = answers
        .filter(|(row, given)| *row != given)
        .map(|(row, given)| format!("expected {row}\n   given {given}"))
        .collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

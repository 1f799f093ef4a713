//! A quantity is worth what its canonical form is worth, and quantities are in one order.

use std::cmp::Ordering;

use jobgate::k8s::quantity::Quantity;
use jobgate::text::value::Value;

/// Amounts of each representation and sign, to compare with.
const OTHERS: [&str; 11] =
    ["-1000E", "-1", "-1n", "0", "0.000000001", "1m", "999m", "1023", "1Ki", "9223372036854775808", "1e100"];

/// Takes two quantities, in a line each.
pub fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    let read: Vec<Quantity> = [first, second].into_iter().filter_map(one).collect();
    in_one_order(&read.into_iter().chain(OTHERS.map(known)).collect::<Vec<_>>());
}

fn known(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn one(text: &str) -> Option<Quantity> {
    let read = Quantity::parse(text);
    let of_json = Quantity::from_json(&Value::String(format!(" {text}\t").into()));
    if text == text.trim() {
        assert_eq!(read, of_json, "blanks around {text:?}");
    }
    let quantity = read.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()?;
    let signs = [quantity.is_negative(), quantity.is_zero(), quantity.is_positive()];
    assert_eq!(signs.iter().filter(|sign| **sign).count(), 1, "{text:?}");
    let to_zero = [Ordering::Less, Ordering::Equal, Ordering::Greater]
        .map(|order| quantity.amount_cmp(&known("0")) == order);
    assert_eq!(signs, to_zero, "{text:?}");
    let _ = (quantity.value(), quantity.milli_value(), quantity.is_integer());
    if quantity.is_positive() {
        rounds_up(text, &quantity);
    }
    reads_as_written(text, &quantity);
    Some(quantity)
}

fn reads_as_written(text: &str, quantity: &Quantity) {
    let canonical = quantity.canonical();
    let again = known(&canonical);
    // Beyond the last suffix Kubernetes loses the exponent.
    let beyond = |limit: &str| quantity.amount_cmp(&known(limit)) != Ordering::Less;
    if !beyond("1000E") && quantity.amount_cmp(&known("-1000E")) == Ordering::Greater {
        assert_eq!(quantity.amount_cmp(&again), Ordering::Equal, "{text:?} is not {canonical:?}");
    }
    assert_eq!(again.canonical(), canonical, "{text:?}");
}

fn rounds_up(text: &str, quantity: &Quantity) {
    // Within 64 bits; beyond, both overflow as the original does.
    if quantity.amount_cmp(&known("9e18")) == Ordering::Less {
        let value = quantity.value();
        assert_ne!(quantity.amount_cmp(&known(&value.to_string())), Ordering::Greater, "{text:?} is {value}");
        assert_eq!(
            quantity.amount_cmp(&known(&(value - 1).to_string())),
            Ordering::Greater,
            "{text:?} is {value}"
        );
    }
    if quantity.amount_cmp(&known("9e15")) == Ordering::Less {
        let milli = quantity.milli_value();
        assert_ne!(
            quantity.amount_cmp(&known(&format!("{milli}m"))),
            Ordering::Greater,
            "{text:?} is {milli}m"
        );
        assert_eq!(
            quantity.amount_cmp(&known(&format!("{}m", milli - 1))),
            Ordering::Greater,
            "{text:?} is {milli}m"
        );
    }
    let rounded = quantity.clone().rounded_to_milli();
    assert_ne!(rounded.amount_cmp(quantity), Ordering::Less, "{text:?}");
    assert_eq!(rounded.clone().rounded_to_milli().amount_cmp(&rounded), Ordering::Equal, "{text:?}");
}

fn in_one_order(all: &[Quantity]) {
    let mut sorted: Vec<&Quantity> = all.iter().collect();
    sorted.sort_by(|left, right| left.amount_cmp(right));
    for (at, left) in sorted.iter().enumerate() {
        for right in &sorted[at..] {
            assert_ne!(left.amount_cmp(right), Ordering::Greater, "{left:?} {right:?}");
            assert_eq!(left.amount_cmp(right), right.amount_cmp(left).reverse(), "{left:?} {right:?}");
        }
        assert_eq!(left.amount_cmp(left), Ordering::Equal, "{left:?}");
    }
}

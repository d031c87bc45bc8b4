//! Differences between two JSON documents.

use std::fmt;

use serde_json::{Number, Value};

/// Maximum number of characters of a displayed value.
const MAX_DISPLAYED_CHARS: usize = 300;

/// Handling of keys that only the second document has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraKeys {
    /// They are no difference.
    Ignored,
    /// They are differences, too.
    Reported,
}

/// A difference between two documents.
#[derive(Debug, PartialEq)]
pub struct Difference {
    /// A path such as `contents[0].parts[0].text`; empty for the whole document.
    pub path: String,
    /// The value in the first document, if any.
    pub first: Option<Value>,
    /// The value in the second document, if any.
    pub second: Option<Value>,
}

/// Returns all differences, in the order of the first document.
pub fn differences(first: &Value, second: &Value, extra: ExtraKeys) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(
        String::new(),
        (Some(first), Some(second)),
        extra,
        &mut found,
    );
    found
}

fn compare(
    path: String,
    pair: (Option<&Value>, Option<&Value>),
    extra: ExtraKeys,
    found: &mut Vec<Difference>,
) {
    match pair {
        (Some(Value::Object(first)), Some(Value::Object(second))) => {
            for (key, value) in first {
                let pair = (Some(value), second.get(key));
                compare(child_path(&path, key), pair, extra, found);
            }
            let extra_keys = second.iter().filter(|(key, _)| !first.contains_key(*key));
            for (key, value) in extra_keys.filter(|_| extra == ExtraKeys::Reported) {
                compare(child_path(&path, key), (None, Some(value)), extra, found);
            }
        }
        (Some(Value::Array(first)), Some(Value::Array(second))) => {
            let (start, first, second) = without_common_ends(first, second);
            for index in 0..first.len().max(second.len()) {
                let pair = (first.get(index), second.get(index));
                let index = start + index;
                compare(format!("{path}[{index}]"), pair, extra, found);
            }
        }
        (Some(first), Some(second)) if is_equal(first, second) => (),
        (first, second) => found.push(Difference {
            path,
            first: first.cloned(),
            second: second.cloned(),
        }),
    }
}

/// Returns two lists without the elements with which both begin or end, and the number of those
/// at the beginning: a removed element is not compared with the one behind it.
fn without_common_ends<'a>(
    first: &'a [Value],
    second: &'a [Value],
) -> (usize, &'a [Value], &'a [Value]) {
    let pairs = first.iter().zip(second);
    let start = pairs.take_while(|(one, other)| one == other).count();
    let rest = |list: &'a [Value]| list.get(start..).unwrap_or_default();
    let (first, second) = (rest(first), rest(second));
    let pairs = first.iter().rev().zip(second.iter().rev());
    let end = pairs.take_while(|(one, other)| one == other).count();
    let rest = |list: &'a [Value]| list.get(..list.len() - end).unwrap_or_default();
    (start, rest(first), rest(second))
}

/// Compares two values. Numbers are compared by value, not by notation: integers exactly, others
/// as floating-point numbers.
fn is_equal(first: &Value, second: &Value) -> bool {
    let (Value::Number(one), Value::Number(other)) = (first, second) else {
        return first == second;
    };
    if is_integer(one) && is_integer(other) {
        let are_zero = [one, other].map(Number::as_i64) == [Some(0); 2];
        return one == other || are_zero;
    }
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= f64::EPSILON * one.abs(),
        _ => one == other,
    }
}

fn is_integer(number: &Number) -> bool {
    !number.to_string().contains(['.', 'e', 'E'])
}

fn child_path(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Displays `path: expected …, found …`.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = display_value(self.first.as_ref());
        let second = display_value(self.second.as_ref());
        write!(f, "{}: expected {first}, found {second}", self.path)
    }
}

/// Returns a value in one line, truncated if it is long.
pub fn display_value(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let text = value.to_string();
    match text.char_indices().nth(MAX_DISPLAYED_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn display(first: &Value, second: &Value, extra: ExtraKeys) -> String {
        let all = differences(first, second, extra);
        let all: Vec<String> = all.iter().map(Difference::to_string).collect();
        all.join("\n")
    }

    #[test]
    fn extra_keys_are_differences_only_if_reported() {
        let expected = json!({ "a": { "b": [1, { "c": "x" }] }, "n": 1.0 });
        let found = json!({ "a": { "b": [1, { "c": "x", "d": 1 }], "e": 2 }, "n": 1 });

        assert_eq!(display(&expected, &found, ExtraKeys::Ignored), "");
        assert_eq!(
            display(&expected, &found, ExtraKeys::Reported),
            "a.b[1].d: expected nothing, found 1\na.e: expected nothing, found 2"
        );
    }

    #[test]
    fn integers_are_compared_exactly_and_other_numbers_by_value() {
        let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        for (first, second, is_same) in [
            ("5555555555554444", "5555555555554445", false),
            ("1234567890123456789", "1234567890123456700", false),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567891",
                false,
            ),
            ("18446744073709551615", "18446744073709551615", true),
            ("-0", "0", true),
            ("-0.0", "0", true),
            ("-0", "1", false),
            ("100", "1e2", true),
            ("1.50", "1.5", true),
            ("1.5", "1.6", false),
        ] {
            assert_eq!(
                is_equal(&number(first), &number(second)),
                is_same,
                "{first} {second}"
            );
        }
    }

    #[test]
    fn only_removed_and_added_elements_of_a_list_differ() {
        let full = json!([{ "name": "a" }, { "name": "b" }, { "name": "b" }, { "name": "c" }]);
        let without = |index: usize| {
            let mut list = full.as_array().unwrap().clone();
            list.remove(index);
            Value::Array(list)
        };

        let removed = [0, 1, 3].map(|index| display(&full, &without(index), ExtraKeys::Reported));
        let added = display(&without(0), &full, ExtraKeys::Reported);

        assert_eq!(
            removed,
            [
                r#"[0]: expected {"name":"a"}, found nothing"#,
                r#"[2]: expected {"name":"b"}, found nothing"#,
                r#"[3]: expected {"name":"c"}, found nothing"#,
            ]
        );
        assert_eq!(added, r#"[0]: expected nothing, found {"name":"a"}"#);
    }

    #[test]
    fn every_difference_has_its_path() {
        let expected = json!({ "a": [1, 2], "b": "x", "c": null, "d": { "e": 1 } });
        let found = json!({ "a": [1], "b": 5, "d": [] });

        assert_eq!(
            display(&expected, &found, ExtraKeys::Ignored),
            "a[1]: expected 2, found nothing\nb: expected \"x\", found 5\n\
             c: expected null, found nothing\nd: expected {\"e\":1}, found []"
        );
    }
}

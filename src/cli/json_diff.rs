//! How one JSON document differs from another, place by place. Pure.

use std::fmt;

use serde_json::Value;

/// What becomes of keys that only the second document has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Further {
    /// They are no difference: the first document says what must be there.
    Allowed,
    /// They are.
    Told,
}

/// One place where two documents differ.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    /// Such as `contents[0].parts[0].text`; empty for the whole.
    pub(super) path: String,
    /// What stands in the first document, if anything.
    pub(super) first: Option<Value>,
    /// What stands in the second.
    pub(super) second: Option<Value>,
}

/// Every difference, in order.
pub(super) fn differences(first: &Value, second: &Value, further: Further) -> Vec<Difference> {
    let mut comparison = Comparison {
        further,
        found: Vec::new(),
    };
    comparison.compare(String::new(), Some(first), Some(second));
    comparison.found
}

struct Comparison {
    further: Further,
    found: Vec<Difference>,
}

impl Comparison {
    fn compare(&mut self, path: String, first: Option<&Value>, second: Option<&Value>) {
        match (first, second) {
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                for (key, value) in one {
                    self.compare(field(&path, key), Some(value), other.get(key));
                }
                let told = self.further == Further::Told;
                let further = other.iter().filter(|it| told && !one.contains_key(it.0));
                for (key, value) in further {
                    self.compare(field(&path, key), None, Some(value));
                }
            }
            (Some(Value::Array(one)), Some(Value::Array(other))) => {
                for index in 0..one.len().max(other.len()) {
                    let path = format!("{path}[{index}]");
                    self.compare(path, one.get(index), other.get(index));
                }
            }
            (Some(one), Some(other)) if same(one, other) => (),
            (first, second) => self.found.push(Difference {
                path,
                first: first.cloned(),
                second: second.cloned(),
            }),
        }
    }
}

/// Numbers are the same if they have the same value, however they are written.
fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(_), Some(_)) if one.as_i64().is_some() && one.as_i64() == other.as_i64() => true,
        (Some(first), Some(second)) => (first - second).abs() <= f64::EPSILON * first.abs(),
        _ => one == other,
    }
}

fn field(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// `path: expected …, found …`
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            first,
            second,
        } = self;
        let (first, second) = (shown(first.as_ref()), shown(second.as_ref()));
        write!(f, "{path}: expected {first}, found {second}")
    }
}

/// The most characters that are shown of a value.
const MOST: usize = 300;

/// A value in one line, cut if it is long.
pub(super) fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(first: &Value, second: &Value, further: Further) -> String {
        let all = differences(first, second, further);
        let all: Vec<String> = all.iter().map(Difference::to_string).collect();
        all.join("\n")
    }

    #[test]
    fn what_is_expected_must_be_there_and_more_may_be() {
        let expected = json!({ "a": { "b": [1, { "c": "x" }] }, "n": 1.0 });
        let found = json!({ "a": { "b": [1, { "c": "x", "d": 1 }], "e": 2 }, "n": 1 });

        assert_eq!(told(&expected, &found, Further::Allowed), "");
        assert_eq!(
            told(&expected, &found, Further::Told),
            "a.b[1].d: expected nothing, found 1\na.e: expected nothing, found 2"
        );
    }

    #[test]
    fn every_difference_is_told_with_its_place() {
        let expected = json!({ "a": [1, 2], "b": "x", "c": null, "d": { "e": 1 } });
        let found = json!({ "a": [1], "b": 5, "d": [] });

        assert_eq!(
            told(&expected, &found, Further::Allowed),
            "a[1]: expected 2, found nothing\nb: expected \"x\", found 5\n\
             c: expected null, found nothing\nd: expected {\"e\":1}, found []"
        );
    }
}

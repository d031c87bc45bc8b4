//! Values without positions. Numbers in test cases are as they are written, since their content is
//! that of agents and model APIs.

use serde_json::{Map, Number, Value};
use serde_saphyr::Span;

use super::{SpannedYaml, YamlContent, YamlEntry, YamlNode};
use crate::config::settings::proofs::PROOF_KEYS;

/// Key of the cases in a file for `hookgate test`.
const CASES_KEY: &str = "cases";

impl SpannedYaml {
    /// Returns the document without positions. An empty one is an empty mapping; of
    /// duplicate keys, the last one is kept. Only numbers in cases are as they are written.
    pub(crate) fn value(&self) -> Value {
        match self.root.value(setting) {
            Value::Null => Value::Object(Map::new()),
            value => value,
        }
    }
}

impl YamlNode {
    /// Returns the value. `of_leaf` is for scalars outside of test cases.
    fn value(&self, of_leaf: fn(&Value) -> Value) -> Value {
        match &self.content {
            YamlContent::Leaf(value) => of_leaf(value),
            YamlContent::List(items) => items.iter().map(|item| item.value(of_leaf)).collect(),
            YamlContent::Map(entries) => {
                let pair = |entry: &YamlEntry| {
                    let key = entry.key.as_str();
                    let is_case = key == CASES_KEY || PROOF_KEYS.contains(&key);
                    let of_leaf = if is_case { Value::clone } else { of_leaf };
                    (entry.key.clone(), entry.value.value(of_leaf))
                };
                entries.iter().map(pair).collect()
            }
        }
    }

    /// Restores the notation of numbers, such as `1.0`, of which the parser has only the value.
    pub(super) fn restore_numbers(&mut self, text: &str) {
        match &mut self.content {
            YamlContent::Leaf(Value::Number(number)) => {
                if let Some(written) = written_number(text, self.source) {
                    *number = written;
                }
            }
            YamlContent::Leaf(_) => (),
            YamlContent::List(items) => {
                for item in items {
                    item.restore_numbers(text);
                }
            }
            YamlContent::Map(entries) => {
                for entry in entries {
                    entry.value.restore_numbers(text);
                }
            }
        }
    }
}

/// Returns a value as settings have it: the numbers `1e3` and `1000.0` are integers.
fn setting(value: &Value) -> Value {
    let Value::Number(number) = value else {
        return value.clone();
    };
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(number), ..) => number.into(),
        (_, Some(number), _) => number.into(),
        (_, _, Some(number)) => {
            let decimal: Result<Number, _> = number.to_string().parse();
            decimal.map_or_else(|_| value.clone(), Value::Number)
        }
        _ => value.clone(),
    }
}

/// Returns the number at a place of the text; `None` if JSON has another notation for it.
fn written_number(text: &str, place: Span) -> Option<Number> {
    let start = usize::try_from(place.byte_offset()?).ok()?;
    let length = usize::try_from(place.byte_len()?).ok()?;
    text.get(start..start + length)?.parse().ok()
}

//! JSON as values, as fields, and as the places of elements.

use std::{fmt, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use super::DialectError;
use crate::json::{self, FreeField, JsonError, Names};

/// Fields of the API under which anything may stand, so that their keys mean
/// nothing to it: arguments, results, schemas, labels.
const FREE: &[FreeField] = &[
    free("args"),
    free("customMetadata"),
    free("default"),
    free("example"),
    free("inputSchema"),
    free("labels"),
    free("parameters"),
    free("parametersJsonSchema"),
    free("properties"),
    FreeField {
        name: "response",
        // At the top it is no function's, but an answer in its envelope.
        from_depth: 2,
    },
    free("responseJsonSchema"),
    free("responseSchema"),
    free("schema"),
];

const fn free(name: &'static str) -> FreeField {
    let from_depth = 1;
    FreeField { name, from_depth }
}

/// Checks that a request or an answer of the model API means one thing.
pub(super) fn check_document(text: &[u8]) -> Result<(), DialectError> {
    Ok(json::check(text, Names::Fields(FREE))?)
}

impl From<JsonError> for DialectError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Broken { .. } => Self::Json(error.to_string()),
            JsonError::Twice(field) => Self::Ambiguous(field),
            JsonError::TwiceWithin(field) => Self::Twice(field),
        }
    }
}

/// Parses `text`, which may come from anybody. Keys keep their order and numbers
/// their precision; what does not mean one thing is an error.
pub fn parse(text: &str) -> Result<Value, DialectError> {
    json::check(text.as_bytes(), Names::Free)?;
    read(text)
}

/// The same for text that is known to mean one thing.
pub(super) fn read(text: &str) -> Result<Value, DialectError> {
    serde_json::from_str(text).map_err(|error| DialectError::Json(error.to_string()))
}

/// The fields of an object in order, with their texts still unparsed.
#[derive(Debug)]
pub(super) struct Fields<'a>(pub(super) Vec<(String, &'a serde_json::value::RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor).map(Self)
    }
}

#[derive(Debug)]
struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Vec<(String, &'de serde_json::value::RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}

/// The places of the elements of an array that is known to be JSON. Conversations
/// are long, and only what stands between their strings is looked at.
pub(super) fn places(array: &[u8]) -> Vec<Range<usize>> {
    let mut split = Split::default();
    let mut outside = Some(0);
    for quote in memchr::memchr_iter(b'"', array) {
        let before = array.get(..quote).unwrap_or_default();
        match outside {
            Some(from) => {
                split.scan(before, from);
                split.meet(quote);
                outside = None;
            }
            None if is_escaped(before) => (),
            None => {
                split.meet(quote);
                outside = Some(quote + 1);
            }
        }
    }
    if let Some(from) = outside {
        split.scan(array, from);
    }
    split.places.extend(split.open);
    split.places
}

/// Whether what follows these bytes of a string is escaped.
fn is_escaped(before: &[u8]) -> bool {
    let escapes = before.iter().rev().take_while(|it| **it == b'\\');
    escapes.count() % 2 == 1
}

/// An array on the way to its elements.
#[derive(Debug, Default)]
struct Split {
    places: Vec<Range<usize>>,
    depth: usize,
    /// The element under way, as far as it was read.
    open: Option<Range<usize>>,
}

impl Split {
    /// Reads from `from` to the end; no string is there.
    fn scan(&mut self, bytes: &[u8], from: usize) {
        for (at, byte) in bytes.iter().enumerate().skip(from) {
            match byte {
                b'[' | b'{' => {
                    self.meet(at);
                    self.depth += 1;
                }
                b']' | b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.meet(at);
                }
                b',' if self.depth == 1 => self.places.extend(self.open.take()),
                b' ' | b'\t' | b'\n' | b'\r' => (),
                _ => self.meet(at),
            }
        }
    }

    /// The byte at `at` is of an element, unless it begins or ends the array.
    fn meet(&mut self, at: usize) {
        if self.depth > 0 {
            self.open.get_or_insert(at..at).end = at + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[\\[\\]{},\\\\\"a-c\u{e9}\n]{0,9}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let key = "[\\[,\\\\\"a-c]{0,3}";
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..4)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn elements_stand_where_they_were_written(
            list in prop::collection::vec(any_json(), 0..5),
            pretty in any::<bool>(),
        ) {
            let written = if pretty {
                serde_json::to_string_pretty(&list).unwrap()
            } else {
                serde_json::to_string(&list).unwrap()
            };
            let found = places(written.as_bytes()).into_iter();
            let found = found.map(|it| parse(written.get(it).unwrap()).unwrap());
            prop_assert_eq!(found.collect::<Vec<_>>(), list);
        }
    }

    #[test]
    fn numbers_keep_their_precision_and_keys_their_order() {
        for text in [
            r#"{"z":1.0,"a":[-0,12345678901234567890123,0.10],"m":null}"#,
            r#""x""#,
            "true",
            "0",
            "[0,-1,2.5]",
            "[]",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_means_two_things_is_refused() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"x":[{"b":1,"\u0062":2}]}"#,
            r#"{"$serde_json::private::Number":"1"}"#,
            "{} {}",
            "\u{feff}{}",
            "{",
            r#""\ud800""#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

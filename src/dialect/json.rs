//! JSON as values, as fields, and as the places of elements.

use std::ops::Range;

use compact_str::CompactString;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::DialectError;
use strict_json::{self, FreeField, FreeFields, JsonError, Layout, Names};

/// Fields of the API under which anything may stand, so that their keys mean
/// nothing to it: arguments, results, schemas, labels.
const FREE: &FreeFields = &FreeFields::new(&[
    free("args"),
    free("customMetadata"),
    free("default"),
    free("example"),
    free("inputSchema"),
    free("labels"),
    free("parameters"),
    free("parametersJsonSchema"),
    free("properties"),
    // At the top it is no function's, but an answer in its envelope.
    FreeField::new("response", 2),
    free("responseJsonSchema"),
    free("responseSchema"),
    free("schema"),
]);

/// How deep values are taken down; the document is 0. Deeper than that are the
/// arguments of calls and the schemas of tools.
const DEEPEST: usize = 6;

const fn free(name: &'static str) -> FreeField {
    FreeField::new(name, 1)
}

/// Checks that a request or an answer of the model API means one thing.
pub(super) fn check_document(text: &[u8]) -> Result<(), DialectError> {
    Ok(strict_json::check(text, Names::Fields(FREE))?)
}

/// The same, and where its values stand.
pub(super) fn lay_out_document(text: &[u8]) -> Result<Layout, DialectError> {
    Ok(strict_json::lay_out(text, Names::Fields(FREE), DEEPEST)?)
}

/// What stands around an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapping {
    None,
    /// It is the field `response` of an object.
    Response,
}

/// The same, down to the texts of an answer.
pub(super) fn lay_out_answer(text: &[u8], wrapping: Wrapping) -> Result<Layout, DialectError> {
    let deepest = match wrapping {
        Wrapping::None => DEEPEST,
        Wrapping::Response => DEEPEST + 1,
    };
    Ok(strict_json::lay_out(text, Names::Fields(FREE), deepest)?)
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
    strict_json::check(text.as_bytes(), Names::Free)?;
    read(text)
}

/// The same for text that is known to mean one thing.
pub(super) fn read(text: &str) -> Result<Value, DialectError> {
    serde_json::from_str(text).map_err(|error| DialectError::Json(error.to_string()))
}

/// The fields of an object that is known to be JSON, in order: keys, and the
/// places of what stands under them.
pub(super) fn fields(object: &[u8]) -> Result<Vec<(CompactString, Range<usize>)>, DialectError> {
    let places = places(object).into_iter();
    places.map(|it| field(object, it)).collect()
}

/// The field at `place`, which begins with its key.
fn field(
    object: &[u8],
    place: Range<usize>,
) -> Result<(CompactString, Range<usize>), DialectError> {
    let text = object.get(place.clone()).unwrap_or_default();
    let mut quotes = memchr::memchr_iter(b'"', text).skip(1);
    let ends_key = |at: &usize| !is_escaped(text.get(..*at).unwrap_or_default());
    let key_ends = quotes.find(ends_key).map_or(text.len(), |it| it + 1);
    let (name, rest) = text.split_at_checked(key_ends).unwrap_or_default();
    let value = rest.trim_ascii_start();
    let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii_start();
    Ok((string(name)?, place.end - value.len()..place.end))
}

/// A string as it is meant, of its text in quotes, which is known to be JSON. Most
/// have no escape.
pub(super) fn string<S>(quoted: &[u8]) -> Result<S, DialectError>
where
    S: for<'a> From<&'a str> + DeserializeOwned,
{
    if let [b'"', inner @ .., b'"'] = quoted
        && let Some(plain) = unescaped(inner)
    {
        return Ok(plain.into());
    }
    serde_json::from_slice(quoted).map_err(|error| DialectError::Json(error.to_string()))
}

/// What stands in the quotes of a string in which nothing is escaped. Most strings are
/// keys and names, and shorter than what makes a wide look at them worth its beginning.
fn unescaped(inner: &[u8]) -> Option<&str> {
    const SHORT: usize = 64;
    if inner.len() < SHORT {
        let text = || std::str::from_utf8(inner).ok();
        return (!inner.contains(&b'\\')).then(text)?;
    }
    let is_plain = memchr::memchr(b'\\', inner).is_none();
    is_plain.then(|| simdutf8::basic::from_utf8(inner).ok())?
}

/// The places of the elements of an array, or of the fields of an object, that is
/// known to be JSON. Conversations are long, and only what stands between their
/// strings is looked at.
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

        #[test]
        fn fields_stand_where_they_were_written(
            object in prop::collection::btree_map("[\\\\:{,\"a-c\u{e9}\n]{0,4}", any_json(), 0..5),
            pretty in any::<bool>(),
        ) {
            let written = if pretty {
                serde_json::to_string_pretty(&object).unwrap()
            } else {
                serde_json::to_string(&object).unwrap()
            };
            let found = fields(written.as_bytes()).unwrap().into_iter();
            let found = found.map(|(key, it)| (key.to_string(), parse(written.get(it).unwrap()).unwrap()));
            prop_assert_eq!(found.collect::<Vec<_>>(), object.into_iter().collect::<Vec<_>>());
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

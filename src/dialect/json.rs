//! Strict JSON: checked values, layouts, and the places of fields and elements.

use std::ops::Range;

use bytes::Bytes;
use compact_str::CompactString;
use serde::de::DeserializeOwned;
use serde_json::Value;
use strict_json::{FreeField, FreeFields, Layout, Names};

use crate::dialect::error::DialectError;

/// Fields with free-form keys: arguments, results, schemas, labels. Below them only exact
/// duplicates of keys are refused.
const FREE_FORM: &FreeFields = &FreeFields::new(&[
    free("args"),
    free("customMetadata"),
    free("default"),
    free("example"),
    free("inputSchema"),
    free("labels"),
    free("parameters"),
    free("parametersJsonSchema"),
    free("properties"),
    // At the top level it is the envelope of a model's response, not of a function's.
    FreeField::new("response", 2),
    free("responseJsonSchema"),
    free("responseSchema"),
    free("schema"),
]);

/// Depth of a layout; the document itself is 0. Arguments of calls and schemas of tools are
/// deeper.
pub const LAYOUT_DEPTH: usize = 6;

/// Length from which SIMD search pays off for a string, in bytes. Most strings are keys and
/// names, and shorter.
const MIN_SIMD_BYTES: usize = 64;

const fn free(name: &'static str) -> FreeField {
    FreeField::new(name, 1)
}

/// Checks that parsers cannot disagree about a request or response.
pub fn check_document(text: &[u8]) -> Result<(), DialectError> {
    Ok(strict_json::check(text, Names::Fields(FREE_FORM))?)
}

/// Checks a request or response and returns the places of its values.
pub fn document_layout(text: &[u8]) -> Result<Layout, DialectError> {
    layout_to_depth(text, LAYOUT_DEPTH)
}

pub fn layout_to_depth(text: &[u8], depth: usize) -> Result<Layout, DialectError> {
    Ok(strict_json::lay_out(text, Names::Fields(FREE_FORM), depth)?)
}

/// Parses a value from an untrusted source. Keys keep their order and numbers their
/// precision.
///
/// # Errors
///
/// Fails for invalid JSON, and for JSON that parsers could disagree about.
pub fn parse(text: &str) -> Result<Value, DialectError> {
    strict_json::check(text.as_bytes(), Names::Free)?;
    parse_checked(text)
}

/// Parses a value that was checked before.
pub fn parse_checked(text: &str) -> Result<Value, DialectError> {
    serde_json::from_str(text).map_err(|error| DialectError::Json(error.to_string()))
}

/// Returns the elements of a JSON array, or the value itself if it is no array.
///
/// # Errors
///
/// Fails for invalid JSON, and for JSON that parsers could disagree about.
pub fn elements(bytes: &Bytes) -> Result<Vec<Bytes>, DialectError> {
    check_document(bytes)?;
    if bytes.trim_ascii_start().first() != Some(&b'[') {
        return Ok(vec![bytes.clone()]);
    }
    let places = split(bytes).into_iter();
    Ok(places.map(|place| bytes.slice(place)).collect())
}

pub fn from_utf8(bytes: &[u8]) -> Result<&str, DialectError> {
    simdutf8::basic::from_utf8(bytes).map_err(|_| DialectError::Json("not UTF-8".to_owned()))
}

/// Returns key and place of each field of a checked object.
pub fn split_object(object: &[u8]) -> Result<Vec<(CompactString, Range<usize>)>, DialectError> {
    let fields = split(object).into_iter();
    fields.map(|place| split_field(object, place)).collect()
}

/// Splits the field at `place` into its key and the place of its value.
fn split_field(
    object: &[u8],
    place: Range<usize>,
) -> Result<(CompactString, Range<usize>), DialectError> {
    let text = object.get(place.clone()).unwrap_or_default();
    let mut quotes = memchr::memchr_iter(b'"', text).skip(1);
    let ends_key = |at: &usize| !is_escaped(text.get(..*at).unwrap_or_default());
    let key_end = quotes.find(ends_key).map_or(text.len(), |at| at + 1);
    let (key, rest) = text.split_at_checked(key_end).unwrap_or_default();
    let value = rest.trim_ascii_start();
    let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii_start();
    Ok((unquote(key)?, place.end - value.len()..place.end))
}

/// Decodes a checked string with its quotes.
pub fn unquote<S>(quoted: &[u8]) -> Result<S, DialectError>
where
    S: for<'a> From<&'a str> + DeserializeOwned,
{
    if let [b'"', inner @ .., b'"'] = quoted
        && let Some(plain) = without_escapes(inner)
    {
        return Ok(plain.into());
    }
    serde_json::from_slice(quoted).map_err(|error| DialectError::Json(error.to_string()))
}

/// Returns the text of a string without escapes.
fn without_escapes(inner: &[u8]) -> Option<&str> {
    if inner.len() < MIN_SIMD_BYTES {
        let text = || std::str::from_utf8(inner).ok();
        return (!inner.contains(&b'\\')).then(text)?;
    }
    let is_plain = memchr::memchr(b'\\', inner).is_none();
    is_plain.then(|| simdutf8::basic::from_utf8(inner).ok())?
}

/// Returns the places of the elements of a checked array, or of the fields of a checked
/// object. Strings are skipped by a search for their quotes.
pub fn split(array: &[u8]) -> Vec<Range<usize>> {
    let mut splitter = Splitter::default();
    // Start of the text outside of strings; `None` inside a string.
    let mut outside = Some(0);
    for quote in memchr::memchr_iter(b'"', array) {
        let before = array.get(..quote).unwrap_or_default();
        match outside {
            Some(from) => {
                splitter.scan(before, from);
                splitter.extend_element(quote);
                outside = None;
            }
            None if is_escaped(before) => (),
            None => {
                splitter.extend_element(quote);
                outside = Some(quote + 1);
            }
        }
    }
    if let Some(from) = outside {
        splitter.scan(array, from);
    }
    splitter.places.extend(splitter.current);
    splitter.places
}

/// Returns whether the byte after `before` is escaped.
fn is_escaped(before: &[u8]) -> bool {
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

#[derive(Debug, Default)]
struct Splitter {
    places: Vec<Range<usize>>,
    depth: usize,
    /// Place of the current element so far.
    current: Option<Range<usize>>,
}

impl Splitter {
    /// Scans from `from` to the end of `bytes`, where no string is.
    fn scan(&mut self, bytes: &[u8], from: usize) {
        for (at, byte) in bytes.iter().enumerate().skip(from) {
            match byte {
                b'[' | b'{' => {
                    self.extend_element(at);
                    self.depth += 1;
                }
                b']' | b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.extend_element(at);
                }
                b',' if self.depth == 1 => self.places.extend(self.current.take()),
                b' ' | b'\t' | b'\n' | b'\r' => (),
                _ => self.extend_element(at),
            }
        }
    }

    /// Adds the byte at `at` to the current element, unless it is a bracket of the array.
    fn extend_element(&mut self, at: usize) {
        if self.depth > 0 {
            self.current.get_or_insert(at..at).end = at + 1;
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
        fn elements_are_found_at_their_places(
            list in prop::collection::vec(any_json(), 0..5),
            pretty in any::<bool>(),
        ) {
            let written = if pretty {
                serde_json::to_string_pretty(&list).unwrap()
            } else {
                serde_json::to_string(&list).unwrap()
            };
            let found = split(written.as_bytes()).into_iter();
            let found = found.map(|it| parse(written.get(it).unwrap()).unwrap());
            prop_assert_eq!(found.collect::<Vec<_>>(), list);
        }

        #[test]
        fn fields_are_found_at_their_places(
            object in prop::collection::btree_map("[\\\\:{,\"a-c\u{e9}\n]{0,4}", any_json(), 0..5),
            pretty in any::<bool>(),
        ) {
            let written = if pretty {
                serde_json::to_string_pretty(&object).unwrap()
            } else {
                serde_json::to_string(&object).unwrap()
            };
            let found = split_object(written.as_bytes()).unwrap().into_iter();
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
    fn ambiguous_json_is_refused() {
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

//! Unambiguous JSON: the strict parser and `serde_json` accept the same documents, and edits
//! change only their field.

use bytes::Bytes;
use hookgate::dialect::{self, Document};
use serde_json::{Map, Value, json, value::RawValue};
use strict_json::{MAX_DEPTH, Names};

pub fn run(bytes: &[u8]) {
    let free = strict_json::check(bytes, Names::Free).is_ok();
    let text = str::from_utf8(bytes);
    let reserved = text.is_ok_and(|text| text.contains("serde_json"));
    if !reserved {
        let oracle = text.ok().and_then(|text| depth(text, 0));
        assert_eq!(free, oracle.is_some(), "{}", bytes.escape_ascii());
    }
    if let Ok(document) = dialect::parse_document(Bytes::copy_from_slice(bytes)) {
        assert!(free, "documents have stricter rules for names");
        splice(&document, bytes);
    }
}

/// Nesting depth of a text as `serde_json` parses it; none if it is invalid JSON, has a
/// duplicate key, or exceeds the maximum depth.
fn depth(text: &str, above: usize) -> Option<usize> {
    if above > MAX_DEPTH {
        return None;
    }
    // `serde_json` parses numbers and keys. Nested values are parsed here, because it would
    // drop duplicate keys.
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    let inner = match raw.get().as_bytes().first()? {
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
            items.iter().map(|item| item.get()).collect()
        }
        b'{' => {
            let keys = Keys::of(raw.get())?;
            let fields: Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
            if keys.0 != fields.len() {
                return None;
            }
            keys.1
        }
        _ => return serde_json::from_str::<Value>(raw.get()).ok().map(|_| 0),
    };
    let depths = inner.into_iter().map(|value| depth(value, above + 1));
    let deepest = depths.collect::<Option<Vec<_>>>()?.into_iter().max();
    let deepest = deepest.unwrap_or(0) + 1;
    (above + deepest <= MAX_DEPTH).then_some(deepest)
}

/// Number of an object's keys including duplicates, and its values.
struct Keys<'a>(usize, Vec<&'a str>);

impl<'a> Keys<'a> {
    fn of(text: &'a str) -> Option<Self> {
        use std::fmt;

        struct Values<'a>(Vec<&'a RawValue>);
        struct ValuesVisitor;
        impl<'de> serde::de::Visitor<'de> for ValuesVisitor {
            type Value = Values<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some((_, value)) = map.next_entry::<String, &'de RawValue>()? {
                    values.push(value);
                }
                Ok(Values(values))
            }
        }
        impl<'de> serde::Deserialize<'de> for Values<'de> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map(ValuesVisitor)
            }
        }
        let all: Values<'a> = serde_json::from_str(text).ok()?;
        let values: Vec<&str> = all.0.iter().map(|value| value.get()).collect();
        Some(Self(values.len(), values))
    }
}

/// Sets and removes each field in turn, and checks that the others are unchanged.
fn splice(document: &Document, bytes: &[u8]) {
    let whole: Map<String, Value> = serde_json::from_slice(bytes).unwrap();
    assert_eq!(document.to_bytes(), bytes);
    let keys = whole.keys().map(String::as_str).chain(["a new one"]);
    for key in keys {
        let mut set = document.clone();
        if set.set(&[key], &json!({ "new": 1 })).is_err() {
            // The document has the name in another spelling, and one of both would be lost.
            let is_spelled = |other: &String| normalized(other) == normalized(key);
            assert!(!whole.contains_key(key) && whole.keys().any(is_spelled));
            continue;
        }
        let mut expected = whole.clone();
        expected.insert(key.to_owned(), json!({ "new": 1 }));
        let written: Map<String, Value> = serde_json::from_slice(&set.to_bytes()).unwrap();
        assert_eq!(written, expected);

        let mut removed = document.clone();
        removed.remove(&[key]).unwrap();
        let mut expected = whole.clone();
        expected.shift_remove(key);
        let written: Map<String, Value> = serde_json::from_slice(&removed.to_bytes()).unwrap();
        assert_eq!(written, expected);
    }
}

/// Normal form of all spellings of a name.
fn normalized(name: &str) -> String {
    let kept = name
        .char_indices()
        .filter(|(at, letter)| *at == 0 || *letter != '_');
    kept.map(|(_, letter)| letter.to_ascii_lowercase())
        .collect()
}

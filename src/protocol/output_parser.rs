//! What a hook wrote, as JSON or as text.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value};

use strict_json::{self, Names};

/// What a trimmed output turns out to be.
#[derive(Debug, PartialEq)]
pub(super) enum Decoded {
    /// Nothing at all.
    Nothing,
    /// A JSON object.
    Object(Map<String, Value>),
    /// An object that says something twice, or is nested too deep: how those read
    /// it who take the first word, and those who take the last.
    Unclear([Map<String, Value>; 2]),
    /// JSON, but no object.
    OtherJson,
    /// Text.
    Plain,
}

/// Parses JSON; a JSON string is parsed once more, because some hooks encode
/// their answer twice.
pub(super) fn decode(text: &str) -> Decoded {
    if text.is_empty() {
        return Decoded::Nothing;
    }
    match parse(text) {
        Some((Value::String(inner), _)) => understand(parse(trim(&inner))),
        outer => understand(outer),
    }
}

fn understand(parsed: Option<(Value, Cow<'_, str>)>) -> Decoded {
    let Some((value, text)) = parsed else {
        return Decoded::Plain;
    };
    let Value::Object(last) = value else {
        return Decoded::OtherJson;
    };
    if strict_json::check(text.as_bytes(), Names::Free).is_ok() {
        return Decoded::Object(last);
    }
    let first = serde_json::from_str(&text).map_or_else(|_| Map::new(), |it: First| it.0);
    Decoded::Unclear([first, last])
}

/// An object as those read it who take a key's first value.
struct First(Map<String, Value>);

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FirstVisitor).map(Self)
    }
}

struct FirstVisitor;

impl<'de> Visitor<'de> for FirstVisitor {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            fields.entry(key).or_insert(value);
        }
        Ok(fields)
    }
}

/// As JavaScript trims: white space and the byte order mark.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|it: char| it.is_whitespace() || it == '\u{feff}')
}

/// The value, and the text that it was read from.
fn parse(text: &str) -> Option<(Value, Cow<'_, str>)> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some((value, text.into()));
    }
    let mended = mend(text);
    let value = serde_json::from_str(&mended).ok()?;
    Some((value, mended.into()))
}

/// Replaces escapes of lone surrogates by `\ufffd`.
///
/// JavaScript writes them when a hook quotes a prompt cut inside an emoji. No
/// Rust string can hold them, but a refusal must not be lost for that: the
/// prompt's author could choose where it is cut.
fn mend(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        let next = escape.get(ESCAPE..).and_then(code_unit);
        let (length, is_lone) = match (code_unit(escape), next) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (2 * ESCAPE, false),
            (Some(0xD800..=0xDFFF), _) => (ESCAPE, true),
            _ => (2, false),
        };
        let Some((escape, after)) = escape.split_at_checked(length) else {
            // Not JSON, whatever is mended.
            return text.to_owned();
        };
        mended.push_str(before);
        mended.push_str(if is_lone { "\\ufffd" } else { escape });
        rest = after;
    }
    mended + rest
}

/// The length of `\uXXXX`.
const ESCAPE: usize = 6;

/// The UTF-16 code unit that `text` begins with as an escape.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_mended(text: &str, expected: &str) {
        assert_eq!(mend(text), expected);
    }

    #[test]
    fn lone_surrogates_are_replaced_and_nothing_else() {
        check_mended(r#"{"a":"x\ud83d"}"#, r#"{"a":"x\ufffd"}"#);
        check_mended(r#"{"a":"\uDE00x"}"#, r#"{"a":"\ufffdx"}"#);
        check_mended(r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#);
        check_mended(r#""\\ud83d \u0041 \n ü""#, r#""\\ud83d \u0041 \n ü""#);
        check_mended(r#""\\\ud83d""#, r#""\\\ufffd""#);
        check_mended(r"\", r"\");
        check_mended(r"\ü", r"\ü");
        check_mended(r"\ud83", r"\ud83");
    }

    #[test]
    fn an_object_that_says_two_things_is_none() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(64), "]".repeat(64));
        for text in [
            r#"{"decision":"allow","decision":"deny"}"#,
            r#"{"a":{"b":[{"c":1,"\u0063":2}]}}"#,
            r#""{\"a\":1,\"a\":2}""#,
            r#"{"a":"\ud83d","a":1}"#,
            &deep,
        ] {
            assert!(matches!(decode(text), Decoded::Unclear(_)), "{text}");
        }
        let Decoded::Unclear([first, last]) = decode(r#"{"a":1,"a":2}"#) else {
            panic!("it says two things");
        };
        assert_eq!(
            (&first["a"], &last["a"]),
            (&Value::from(1), &Value::from(2))
        );
    }

    #[test]
    fn a_cut_emoji_does_not_cost_the_object() {
        let decoded = decode(r#"{"decision":"deny","reason":"no: \ud83d"}"#);

        let Decoded::Object(fields) = decoded else {
            panic!("{decoded:?}");
        };
        assert_eq!(fields["reason"], "no: \u{fffd}");
    }

    #[test]
    fn javascripts_white_space_and_byte_order_mark_are_trimmed() {
        assert_eq!(
            trim("\u{feff} \t\r\n\u{a0}\u{2028}x y\u{3000}\u{feff}\n"),
            "x y"
        );
    }

    #[test]
    fn an_answer_is_decoded_twice_at_most() {
        let object = Decoded::Object(Map::new());
        let thrice = serde_json::to_string(r#""{}""#).unwrap();

        assert_eq!(decode("{}"), object);
        assert_eq!(decode(r#""{}""#), object);
        assert_eq!(decode(r#"" \ufeff{} ""#), object);
        assert_eq!(decode(&thrice), Decoded::OtherJson);
        assert_eq!(decode(r#""no""#), Decoded::Plain);
        assert_eq!(decode(""), Decoded::Nothing);
    }
}

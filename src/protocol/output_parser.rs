//! Parses hook output as JSON or plain text (hook protocol, section 3).

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};
use strict_json::{Names, unescaped_chars};

/// Kind and content of a hook's trimmed output.
#[derive(Debug, PartialEq)]
pub(super) enum ParsedOutput {
    Empty,
    Object(Map<String, Value>),
    /// A JSON object with a duplicate key or nested too deeply: as parsers read it
    /// that keep the first value of a key, and as those that keep the last.
    Ambiguous([Map<String, Value>; 2]),
    /// Valid JSON other than an object.
    NonObject,
    /// Text that begins as JSON and is not one valid document.
    Malformed,
    /// Text that is not JSON.
    PlainText,
}

/// Parses trimmed output. A JSON string is parsed once more, because some hooks
/// encode their output twice.
pub(super) fn parse(text: &str) -> ParsedOutput {
    if text.is_empty() {
        return ParsedOutput::Empty;
    }
    match decode(text) {
        Ok((Value::String(inner), _)) => {
            let inner = trim(&inner);
            classify(inner, decode(inner))
        }
        decoded => classify(text, decoded),
    }
}

fn classify(text: &str, decoded: serde_json::Result<(Value, Cow<'_, str>)>) -> ParsedOutput {
    match decoded {
        Ok((Value::Object(last), text)) => {
            if strict_json::check(text.as_bytes(), Names::Free).is_ok() {
                return ParsedOutput::Object(last);
            }
            let first =
                serde_json::from_str(&text).map_or_else(|_| Map::new(), |First(fields)| fields);
            ParsedOutput::Ambiguous([first, last])
        }
        Ok(_) => ParsedOutput::NonObject,
        Err(error) if begins_as_json(text, &error) => ParsedOutput::Malformed,
        Err(_) => ParsedOutput::PlainText,
    }
}

/// Returns whether text that is not one JSON document was meant as JSON: it begins as an
/// object, or as an array of objects, arrays or strings; it is an array cut short;
/// or it is several documents, one of them an object or array.
///
/// A log line that begins with brackets, such as `[guard] ok`, is none of these.
fn begins_as_json(text: &str, error: &serde_json::Error) -> bool {
    if text.starts_with('{') {
        return true;
    }
    if let Some(rest) = text.strip_prefix('[')
        && (error.is_eof() || rest.trim_start().starts_with(['{', '[', '"']))
    {
        return true;
    }
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let has_container = documents.try_fold(false, |found, document| {
        document.map(|value| found || value.is_object() || value.is_array())
    });
    has_container.unwrap_or(false)
}

/// An object read by keeping the first value of each key, also in the objects inside.
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
        while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
            let json = value.get();
            let value = match serde_json::from_str(json) {
                Ok(First(inner)) => Value::Object(inner),
                Err(_) => serde_json::from_str(json).map_err(de::Error::custom)?,
            };
            fields.entry(key).or_insert(value);
        }
        Ok(fields)
    }
}

/// Trims as JavaScript does: white space and the byte order mark.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|char: char| char.is_whitespace() || char == '\u{feff}')
}

/// Returns the value and the text it was read from.
fn decode(text: &str) -> serde_json::Result<(Value, Cow<'_, str>)> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok((value, text.into()));
    }
    let repaired = replace_lone_surrogates(text);
    Ok((serde_json::from_str(&repaired)?, repaired.into()))
}

/// Replaces escapes of lone surrogates by `\ufffd`.
///
/// JavaScript writes them when a hook quotes a prompt cut inside an emoji. They
/// cannot be stored in a Rust string, but a refusal must not be lost for that:
/// the prompt's author could choose where it is cut.
fn replace_lone_surrogates(text: &str) -> String {
    let repaired = unescaped_chars(text).map(|(written, letter)| {
        let is_lone = letter == char::REPLACEMENT_CHARACTER && written.starts_with("\\u");
        if is_lone { "\\ufffd" } else { written }
    });
    repaired.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_repaired(text: &str, expected: &str) {
        assert_eq!(replace_lone_surrogates(text), expected);
    }

    #[test]
    fn only_lone_surrogates_are_replaced() {
        check_repaired(r#"{"a":"x\ud83d"}"#, r#"{"a":"x\ufffd"}"#);
        check_repaired(r#"{"a":"\uDE00x"}"#, r#"{"a":"\ufffdx"}"#);
        check_repaired(r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#);
        check_repaired(r#""\\ud83d \u0041 \n ü""#, r#""\\ud83d \u0041 \n ü""#);
        check_repaired(r#""\\\ud83d""#, r#""\\\ufffd""#);
        check_repaired(r"\", r"\");
        check_repaired(r"\ü", r"\ü");
        check_repaired(r"\ud83", r"\ud83");
    }

    #[test]
    fn an_object_that_parsers_read_differently_is_ambiguous() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(64), "]".repeat(64));
        for text in [
            r#"{"decision":"allow","decision":"deny"}"#,
            r#"{"a":{"b":[{"c":1,"\u0063":2}]}}"#,
            r#""{\"a\":1,\"a\":2}""#,
            r#"{"a":"\ud83d","a":1}"#,
            &deep,
        ] {
            assert!(matches!(parse(text), ParsedOutput::Ambiguous(_)), "{text}");
        }
        for text in [r#"{"a":1,"a":2}"#, r#"{"b":{"a":1,"a":2}}"#] {
            let ParsedOutput::Ambiguous(readings) = parse(text) else {
                panic!("the key is a duplicate");
            };
            let values = readings.map(|fields| {
                let inner = fields.get("b").unwrap_or(&Value::Null);
                fields.get("a").unwrap_or(&inner["a"]).clone()
            });
            assert_eq!(values, [Value::from(1), Value::from(2)], "{text}");
        }
    }

    #[test]
    fn a_lone_surrogate_does_not_make_an_object_malformed() {
        let parsed = parse(r#"{"decision":"deny","reason":"no: \ud83d"}"#);

        let ParsedOutput::Object(fields) = parsed else {
            panic!("{parsed:?}");
        };
        assert_eq!(fields["reason"], "no: \u{fffd}");
    }

    #[test]
    fn text_that_begins_as_json_is_malformed() {
        for text in [
            "{",
            "{'decision': 'deny'}",
            "{decision: deny}",
            r#"{"decision":"deny""#,
            "{}{}",
            "{} done",
            "[",
            "[1, 2",
            r#"["deny", "#,
            r#"[ {"decision":"deny"} "#,
            "[1]\n{}",
            "null {}",
            r#""x" {"decision":"deny"}"#,
            r#""{\"decision\":""#,
        ] {
            assert_eq!(parse(text), ParsedOutput::Malformed, "{text}");
        }
    }

    #[test]
    fn other_text_is_plain() {
        for text in [
            "ok",
            "[guard] ok",
            "[1234] ok",
            "[2026-11-24] ok",
            "1 2 3",
            "log\n{}",
            r#""no""#,
            r#""""#,
        ] {
            assert_eq!(parse(text), ParsedOutput::PlainText, "{text}");
        }
    }

    #[test]
    fn white_space_and_byte_order_marks_are_trimmed_as_in_javascript() {
        assert_eq!(
            trim("\u{feff} \t\r\n\u{a0}\u{2028}x y\u{3000}\u{feff}\n"),
            "x y"
        );
    }

    #[test]
    fn output_is_decoded_at_most_twice() {
        let object = ParsedOutput::Object(Map::new());
        let thrice = serde_json::to_string(r#""{}""#).unwrap();

        assert_eq!(parse("{}"), object);
        assert_eq!(parse(r#""{}""#), object);
        assert_eq!(parse(r#"" \ufeff{} ""#), object);
        assert_eq!(parse(&thrice), ParsedOutput::NonObject);
        assert_eq!(parse(""), ParsedOutput::Empty);
    }
}

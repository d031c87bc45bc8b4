//! Removes the fields that only hookgate needs, for people and hooks.

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

use crate::dialect::google::fields::{PRECEDING, SOURCE};

/// Returns compact JSON in the content form without the fields that only hookgate needs.
pub fn without_private_fields(json: &Bytes) -> Bytes {
    let mut json = json.clone();
    for name in [SOURCE, PRECEDING] {
        // A name inside a text is followed by an escaped quote.
        let field = format!("\"{name}\":");
        if memmem::find(&json, field.as_bytes()).is_some() {
            json = without_field(&json, field.as_bytes());
        }
    }
    json
}

/// Returns a document in the content form as hooks see it.
pub fn shown_to_hooks(document: Box<RawValue>) -> Option<Box<RawValue>> {
    let json = Bytes::from(Box::<str>::from(document).into_string());
    let shown = without_private_fields(&json);
    RawValue::from_string(String::from_utf8(shown.into()).ok()?).ok()
}

fn without_field(json: &[u8], field: &[u8]) -> Bytes {
    let mut kept = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = memmem::find(rest, field) {
        let (before, found) = rest.split_at(at);
        let value = found.get(field.len()..).unwrap_or_default();
        let mut behind = value.get(value_length(value)..).unwrap_or_default();
        kept.extend_from_slice(before);
        if kept.last() == Some(&b',') {
            kept.pop();
        } else if let Some(next) = behind.strip_prefix(b",") {
            behind = next;
        }
        rest = behind;
    }
    kept.extend_from_slice(rest);
    kept.into()
}

/// Returns the length of the JSON value at the start of a text.
fn value_length(text: &[u8]) -> usize {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match byte {
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => (),
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth > 0 => depth -= 1,
            b',' | b']' | b'}' if depth == 0 => return at,
            _ => (),
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> String {
        let bytes = without_private_fields(&Bytes::copy_from_slice(json.as_bytes()));
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn private_fields_are_removed_wherever_they_are() {
        for (json, expected) in [
            (r#"{"a":1,"hookgateSource":12}"#, r#"{"a":1}"#),
            (r#"{"hookgateSource":12,"a":1}"#, r#"{"a":1}"#),
            (r#"[{"hookgateSource":12},{"hookgateSource":0}]"#, "[{},{}]"),
            (
                r#"{"b":1,"hookgatePreceding":[{"x":"]\"}"},{"hookgateSource":1}],"c":2}"#,
                r#"{"b":1,"c":2}"#,
            ),
            (r#"{"hookgateSource":1,"hookgatePreceding":[]}"#, "{}"),
        ] {
            assert_eq!(shown(json), expected);
        }
    }

    #[test]
    fn a_text_about_private_fields_stays() {
        let text = serde_json::json!({ "text": "{\"hookgateSource\":1}" }).to_string();
        assert_eq!(shown(&text), text);
    }
}

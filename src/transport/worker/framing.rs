//! What goes over a worker's pipes: one JSON object per line. Pure.

use std::fmt::Write;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::transport::TransportError;

/// What some reader or other takes for the end of a line. A hook's input has
/// the first two between its parts at most, and the others inside texts.
const BREAKS: &[char] = &['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// `{"id":…,"input":…}` and the end of the line. `input` is a JSON document.
pub(super) fn write(id: &str, input: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(input.len() + 64);
    line.extend_from_slice(br#"{"id":""#);
    line.extend_from_slice(id.as_bytes());
    line.extend_from_slice(br#"","input":"#);
    if has_breaks(input) {
        let one_line = as_one_line(&String::from_utf8_lossy(input));
        line.extend_from_slice(one_line.as_bytes());
    } else {
        line.extend_from_slice(input);
    }
    line.extend_from_slice(b"}\n");
    line
}

fn as_one_line(input: &str) -> String {
    let mut line = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.find(BREAKS) {
        let (before, after) = rest.split_at(at);
        let mut after = after.chars();
        line.push_str(before);
        match after.next() {
            Some(separator) if !separator.is_ascii() => {
                // Writing into a `String` cannot fail.
                let _infallible = write!(&mut line, "\\u{:04x}", u32::from(separator));
            }
            _ => line.push(' '),
        }
        rest = after.as_str();
    }
    line.push_str(rest);
    line
}

/// Whether there is any at all. Inputs are long and hardly ever have one, and to
/// look for each by itself is many times faster than character by character.
fn has_breaks(input: &[u8]) -> bool {
    // What the others begin with, which hardly any text has.
    let may_have_others = memchr::memchr2(0xC2, 0xE2, input).is_some();
    let contains = |it: &str| memmem::find(input, it.as_bytes()).is_some();
    memchr::memchr2(b'\n', b'\r', input).is_some()
        || (may_have_others && ["\u{85}", "\u{2028}", "\u{2029}"].into_iter().any(contains))
}

#[derive(Deserialize)]
struct Line<'a> {
    id: String,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
}

/// The output as the worker wrote it, if the line answers the call of this id;
/// empty if it has none.
pub(super) fn read(id: &str, line: &[u8]) -> Result<Vec<u8>, TransportError> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|_| TransportError::Unasked)?;
    if line.id != id {
        return Err(TransportError::Unasked);
    }
    let output = line.output.map_or("", RawValue::get);
    Ok(output.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(id: &str, input: &str) -> String {
        String::from_utf8(write(id, input.as_bytes())).unwrap()
    }

    #[test]
    fn whatever_ends_a_line_somewhere_is_escaped() {
        for end in BREAKS {
            let line = written("7", &format!("{{\"a\":\"é{end}\"}}"));
            assert_eq!(line.find(BREAKS), Some(line.len() - 1), "{end:?}");
        }
    }

    #[test]
    fn a_document_is_one_line_for_every_reader() {
        let input = "{\r\n \"a\": \"x\u{2028}y\u{2029}\u{85}\\n\",\n\"b\": 1.0e5}";

        let line = written("7", input);

        assert_eq!(
            line,
            "{\"id\":\"7\",\"input\":{   \"a\": \"x\\u2028y\\u2029\\u0085\\n\", \"b\": 1.0e5}}\n"
        );
        let parsed: Value = serde_json::from_str(&line).unwrap();
        let input: Value = serde_json::from_str(input).unwrap();
        assert_eq!(parsed, json!({ "id": "7", "input": input }));
    }

    #[test]
    fn an_answer_is_read_as_it_is_written() {
        let output = |line: &str| String::from_utf8(read("7", line.as_bytes()).unwrap()).unwrap();

        assert_eq!(
            output("{ \"output\": { \"a\": 1.0 }, \"id\": \"7\" }\r\n"),
            "{ \"a\": 1.0 }"
        );
        assert_eq!(
            output("{\"id\":\"7\",\"output\":{\"reason\":\"\\ud83d\"}}"),
            "{\"reason\":\"\\ud83d\"}"
        );
        assert_eq!(output("{\"id\":\"7\",\"output\":null}"), "");
        assert_eq!(output("{\"id\":\"7\",\"error\":\"no\"}"), "");
    }

    #[test]
    fn a_line_that_does_not_fit_is_no_answer() {
        for line in [
            "",
            "listening",
            "{}",
            "[]",
            "{\"id\":7,\"output\":{}}",
            "{\"id\":\"8\",\"output\":{}}",
            "{\"id\":\"7\",\"output\":{}",
            "{\"id\":\"7\",\"output\":{}} {}",
        ] {
            let refused = read("7", line.as_bytes());
            assert!(matches!(refused, Err(TransportError::Unasked)), "{line}");
        }
    }
}

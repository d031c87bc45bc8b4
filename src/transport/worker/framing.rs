//! Line framing of a worker's calls and outputs: one JSON object per line. Pure.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::transport::error::TransportError;

/// Characters that readers may take for line breaks, and their escapes. In a hook's input they
/// occur only inside strings.
const LINE_BREAKS: &[(char, &str)] = &[
    ('\u{85}', "\\u0085"),
    ('\u{2028}', "\\u2028"),
    ('\u{2029}', "\\u2029"),
];

/// Writes `{"id":…,"input":…}` and a line feed. `input` is a JSON document without white space
/// between tokens.
pub(super) fn write(id: &str, input: &[u8]) -> String {
    let mut input = String::from_utf8_lossy(input);
    for (line_break, escape) in LINE_BREAKS {
        if input.contains(*line_break) {
            input = input.replace(*line_break, escape).into();
        }
    }
    format!("{{\"id\":\"{id}\",\"input\":{input}}}\n")
}

/// Outputs of a worker for one call, as written. A line with several is ambiguous: parsers read
/// different ones.
pub(super) type WorkerOutputs = Vec<Vec<u8>>;

/// A line, with all its outputs.
struct OutputLine<'a> {
    id: String,
    outputs: Vec<&'a RawValue>,
}

impl<'de> Deserialize<'de> for OutputLine<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LineVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = OutputLine<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut id, mut outputs) = (None, Vec::new());
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "id" if id.is_some() => return Err(A::Error::duplicate_field("id")),
                "id" => id = Some(map.next_value()?),
                "output" => outputs.push(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let id = id.ok_or_else(|| A::Error::missing_field("id"))?;
        Ok(OutputLine { id, outputs })
    }
}

/// Returns the outputs of a line with this id.
pub(super) fn read(id: &str, line: &[u8]) -> Result<WorkerOutputs, TransportError> {
    let text = with_ascii_for_invalid_utf8(line);
    let object = text.trim_start_matches('\u{feff}');
    let parsed: OutputLine<'_> =
        serde_json::from_str(object).map_err(|_| TransportError::UnexpectedLine)?;
    if parsed.id != id {
        return Err(TransportError::UnexpectedLine);
    }
    let written = |output: &str| -> Vec<u8> {
        let start = output.as_ptr().addr().saturating_sub(text.as_ptr().addr());
        let written = line.iter().skip(start).take(output.len());
        written.copied().collect()
    };
    let outputs = parsed.outputs.iter().map(|output| written(output.get()));
    Ok(outputs.collect())
}

/// Returns a line in which each byte that is not UTF-8 is a `?`, so that all offsets stay.
fn with_ascii_for_invalid_utf8(line: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(line) {
        return text.into();
    }
    let mut text = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_document_is_one_line_for_every_reader() {
        let input = "{\"a\":\"x\u{2028}y\u{2029}\u{85}\\n\",\"b\":1.0e5}";

        let line = write("7", input.as_bytes());

        assert_eq!(
            line,
            "{\"id\":\"7\",\"input\":{\"a\":\"x\\u2028y\\u2029\\u0085\\n\",\"b\":1.0e5}}\n"
        );
        let parsed: Value = serde_json::from_str(&line).unwrap();
        let input: Value = serde_json::from_str(input).unwrap();
        assert_eq!(parsed, json!({ "id": "7", "input": input }));
    }

    #[test]
    fn output_is_returned_as_written() {
        let output = |line: &str| {
            let outputs = read("7", line.as_bytes()).unwrap();
            String::from_utf8(outputs.concat()).unwrap()
        };

        assert_eq!(
            output("{ \"output\": { \"a\": 1.0 }, \"id\": \"7\" }\r\n"),
            "{ \"a\": 1.0 }"
        );
        assert_eq!(
            output("{\"id\":\"7\",\"output\":{\"reason\":\"\\ud83d\"}}"),
            "{\"reason\":\"\\ud83d\"}"
        );
        assert_eq!(output("\u{feff}{\"id\":\"7\",\"output\":{}}"), "{}");
        assert_eq!(output("{\"id\":\"7\",\"output\":null}"), "null");
        assert_eq!(output("{\"id\":\"7\",\"error\":\"no\"}"), "");
    }

    #[test]
    fn output_that_is_not_utf8_is_returned_as_written() {
        let line = b"{\"x\":\"\xe2\x82\",\"id\":\"7\",\"output\":{\"reason\":\"\xc3\"}}\n";

        let written = b"{\"reason\":\"\xc3\"}".to_vec();
        assert_eq!(read("7", line).unwrap(), [written]);
        assert!(read("8", line).is_err());
    }

    #[test]
    fn an_unexpected_line_is_an_error() {
        for line in [
            "",
            "listening",
            "{}",
            "[]",
            "{\"id\":7,\"output\":{}}",
            "{\"id\":\"8\",\"output\":{}}",
            "{\"id\":\"7\",\"output\":{}",
            "{\"id\":\"7\",\"output\":{}} {}",
            "{\"id\":\"8\",\"output\":{},\"id\":\"7\"}",
            "[\"7\",{}]",
        ] {
            let refused = read("7", line.as_bytes());
            assert!(
                matches!(refused, Err(TransportError::UnexpectedLine)),
                "{line}"
            );
        }
    }
}

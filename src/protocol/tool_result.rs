//! Results of tools in the shapes that Claude Code and Codex give them in hooks. What a
//! model reads of a result is its text. Pure.

use serde_json::{Map, Value, json};

/// Fields with the text of a result: of a shell, a file, content blocks, or a fetched page.
const TEXT_FIELDS: [&str; 4] = ["stdout", "file", "content", "result"];

/// Fields that a model reads beside the text. Codex gives its model the structured content alone.
const FURTHER_FIELDS: [&str; 2] = ["stderr", "structuredContent"];

/// Fields that describe a result of Claude Code's own tools or of an MCP server.
const DESCRIPTIONS: &[&str] = &[
    "_meta",
    "agentId",
    "appliedLimit",
    "appliedOffset",
    "bytes",
    "code",
    "codeText",
    "durationMs",
    "filePath",
    "mode",
    "numFiles",
    "numLines",
    "numMatches",
    "prompt",
    "startLine",
    "status",
    "totalDurationMs",
    "totalLines",
    "totalTokens",
    "totalToolUseCount",
    "type",
    "url",
    "usage",
];

/// Returns the text of a result; its JSON if a model may read more of it.
pub(super) fn text(result: &Value) -> String {
    known_text(result).unwrap_or_else(|| result.to_string())
}

/// Returns `text` in the shape of the `original` result; `None` if the shape is unknown,
/// since an agent ignores a result in another one.
pub(super) fn in_shape_of(original: &Value, text: &str) -> Option<Value> {
    match original {
        Value::Null | Value::String(_) => Some(json!(text)),
        Value::Array(_) => Some(json!([{ "type": "text", "text": text }])),
        Value::Object(fields) => edited_json(original, text).or_else(|| with_text(fields, text)),
        Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Returns the text of a result in a known shape.
fn known_text(result: &Value) -> Option<String> {
    let fields = match result {
        Value::String(text) => return Some(text.clone()),
        Value::Object(fields) => fields,
        blocks => return text_of_blocks(blocks),
    };
    let name = text_field(fields)?;
    if fields.keys().any(|other| is_unknown(fields, name, other)) {
        return None;
    }
    let text = known_text(fields.get(name)?)?;
    let further = FURTHER_FIELDS.iter().filter_map(|name| fields.get(*name));
    let further = further.filter_map(|value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        // A server repeats its structured content as text.
        value if serde_json::from_str(&text).is_ok_and(|repeated: Value| repeated == *value) => {
            None
        }
        value => Some(value.to_string()),
    });
    let mut texts: Vec<String> = further.collect();
    texts.insert(0, text);
    texts.retain(|text| !text.is_empty());
    Some(texts.join("\n"))
}

/// Returns the name of the field with the text.
fn text_field(fields: &Map<String, Value>) -> Option<&'static str> {
    TEXT_FIELDS
        .into_iter()
        .find(|name| match fields.get(*name) {
            Some(Value::String(_) | Value::Array(_)) => true,
            Some(Value::Object(inner)) => text_field(inner).is_some(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => false,
        })
}

/// Returns whether a model may read the field `other` of a result with its text in `name`.
fn is_unknown(fields: &Map<String, Value>, name: &str, other: &str) -> bool {
    let is_known =
        other == name || FURTHER_FIELDS.contains(&other) || DESCRIPTIONS.contains(&other);
    !is_known && fields.get(other).is_some_and(has_content)
}

fn has_content(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Returns the edited JSON of a result that is shown as JSON, if it has the same fields.
fn edited_json(original: &Value, text: &str) -> Option<Value> {
    if known_text(original).is_some() {
        return None;
    }
    let edited: Value = serde_json::from_str(text).ok()?;
    let has_same_fields = original.as_object()?.keys().eq(edited.as_object()?.keys());
    has_same_fields.then_some(edited)
}

/// Returns a result with another text, and nothing else that a model may read.
fn with_text(original: &Map<String, Value>, text: &str) -> Option<Value> {
    let name = text_field(original)?;
    let mut fields = original.clone();
    // An agent may prefer it to the text.
    fields.shift_remove("structuredContent");
    for (other, value) in &mut fields {
        if other == "stderr" || is_unknown(original, name, other) {
            clear(value);
        }
    }
    fields.insert(name.to_owned(), in_shape_of(original.get(name)?, text)?);
    Some(Value::Object(fields))
}

/// Removes the content of a value, which keeps its type.
fn clear(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) => (),
        Value::Number(_) => *value = json!(0),
        Value::String(text) => text.clear(),
        Value::Array(items) => items.clear(),
        Value::Object(fields) => fields.values_mut().for_each(clear),
    }
}

/// Returns the texts of a list of content blocks, if it is one.
fn text_of_blocks(blocks: &Value) -> Option<String> {
    let texts = blocks.as_array()?.iter().map(|block| {
        let fields = block.as_object()?;
        let has_more = fields.keys().any(|other| is_unknown(fields, "text", other));
        fields.get("text")?.as_str().filter(|_| !has_more)
    });
    let texts: Option<Vec<&str>> = texts.collect();
    Some(texts?.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_one_text_in_every_shape() {
        for (shape, expected, replaced) in [
            (json!("text"), "text", Some(json!("new"))),
            (
                json!({ "stdout": "a", "stderr": "b", "interrupted": false }),
                "a\nb",
                Some(json!({ "stdout": "new", "stderr": "", "interrupted": false })),
            ),
            (
                json!({ "type": "text", "file": { "content": "c", "numLines": 1 } }),
                "c",
                Some(json!({ "type": "text", "file": { "content": "new", "numLines": 1 } })),
            ),
            (
                json!([{ "type": "text", "text": "d" }]),
                "d",
                Some(json!([{ "type": "text", "text": "new" }])),
            ),
            (
                json!({ "content": [{ "text": "e" }, { "text": "f" }] }),
                "e\nf",
                Some(json!({ "content": [{ "type": "text", "text": "new" }] })),
            ),
            (
                json!({ "content": [{ "text": "g" }], "structuredContent": { "h": 1 } }),
                "g\n{\"h\":1}",
                Some(json!({ "content": [{ "type": "text", "text": "new" }] })),
            ),
            (
                json!({ "content": [{ "text": "{\"h\": 1}" }], "structuredContent": { "h": 1 } }),
                "{\"h\": 1}",
                Some(json!({ "content": [{ "type": "text", "text": "new" }] })),
            ),
            (
                json!({ "result": "i", "note": "j", "code": 200 }),
                r#"{"result":"i","note":"j","code":200}"#,
                Some(json!({ "result": "new", "note": "", "code": 200 })),
            ),
            (json!({ "own": 1 }), r#"{"own":1}"#, None),
        ] {
            assert_eq!(text(&shape), expected);
            assert_eq!(in_shape_of(&shape, "new"), replaced);
        }
    }
}

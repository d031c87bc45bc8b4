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

/// Maximum length of a number that only describes a result, such as a status or a priority.
const MAX_COUNT_CHARS: usize = 3;

/// Returns the text of a result, and behind it the JSON of what else a model may read.
pub(super) fn text(result: &Value) -> String {
    texts(result).join("\n")
}

/// Returns the texts of a result, one for each content block, in lines of [`text`].
pub(super) fn texts(result: &Value) -> Vec<String> {
    let known = match result {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(blocks) => texts_of_blocks(blocks),
        Value::Object(fields) => texts_of_object(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    };
    let mut texts = known.unwrap_or_else(|| vec![result.to_string()]);
    texts.retain(|text| !text.is_empty());
    texts
}

/// Returns `text` in the shape of the `original` result, since an agent ignores a result in
/// another one. One without a place for the text loses its content; `None` if it has none.
pub(super) fn in_shape_of(original: &Value, text: &str) -> Option<Value> {
    match original {
        Value::Null | Value::String(_) => Some(json!(text)),
        Value::Array(elements) => {
            let block = || vec![json!({ "type": "text", "text": text })];
            let edited = edited_elements(elements, text);
            Some(Value::Array(edited.unwrap_or_else(block)))
        }
        Value::Object(fields) => {
            let edited = match text_field(fields) {
                Some(name) => with_text(fields, name, text)?,
                None => edited_fields(fields, text).or_else(|| without_content(fields, text))?,
            };
            Some(Value::Object(edited))
        }
        Value::Bool(_) | Value::Number(_) => has_content(original).then(|| json!(0)),
    }
}

/// Returns the texts of a list of content blocks, if it is one.
fn texts_of_blocks(blocks: &[Value]) -> Option<Vec<String>> {
    let blocks = blocks.iter().map(Value::as_object);
    blocks.map(|block| block.map(text_of_block)).collect()
}

/// Returns the text of a content block, and behind it the JSON of its other fields; the JSON of one
/// without a text.
fn text_of_block(block: &Map<String, Value>) -> String {
    let Some(Value::String(text)) = block.get("text") else {
        return Value::Object(block.clone()).to_string();
    };
    join([text.clone(), json_of(fields_beside_text(block))])
}

/// Returns the fields of a content block that a model may read beside its text. Codex gives its
/// model the JSON of whole blocks.
fn fields_beside_text(block: &Map<String, Value>) -> Map<String, Value> {
    contents(block, |name| name != "text" && name != "type")
}

/// Returns the elements of a list that is shown as `text`, edited; `None` if they cannot be found
/// in it.
fn edited_elements(elements: &[Value], text: &str) -> Option<Vec<Value>> {
    if elements.iter().any(|element| !element.is_object()) {
        let edited: Vec<Value> = serde_json::from_str(text).ok()?;
        return (edited.len() == elements.len()).then_some(edited);
    }
    let mut lines = text.split('\n');
    let blocks = elements.iter().filter_map(Value::as_object);
    let edited = blocks.map(|block| {
        let shown = text_of_block(block);
        let count = if shown.is_empty() {
            0
        } else {
            shown.split('\n').count()
        };
        let own: Vec<&str> = lines.by_ref().take(count).collect();
        (own.len() == count).then(|| edited_block(block, &own.join("\n")))?
    });
    let edited = edited.collect::<Option<Vec<_>>>()?;
    lines.next().is_none().then_some(edited)
}

fn edited_block(block: &Map<String, Value>, text: &str) -> Option<Value> {
    if !block.get("text").is_some_and(Value::is_string) {
        return serde_json::from_str(text).map(Value::Object).ok();
    }
    let mut edited = block.clone();
    let text = write_fields(&mut edited, &fields_beside_text(block), text);
    edited.insert("text".to_owned(), json!(text));
    Some(Value::Object(edited))
}

/// Returns the texts of an object in a known shape. The last one ends with its further fields.
fn texts_of_object(fields: &Map<String, Value>) -> Option<Vec<String>> {
    let name = text_field(fields)?;
    let mut texts = texts(fields.get(name)?);
    // A server repeats its structured content as text.
    let text = texts.join("\n");
    let is_repeated =
        |value: &Value| serde_json::from_str(&text).is_ok_and(|text: Value| text == *value);
    let further = FURTHER_FIELDS.map(|name| match fields.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) if !value.is_null() && !is_repeated(value) => value.to_string(),
        Some(_) | None => String::new(),
    });
    let others = json_of(unknown_fields(fields, name));
    let last = texts.pop();
    texts.push(join(last.into_iter().chain(further).chain([others])));
    Some(texts)
}

fn join(texts: impl IntoIterator<Item = String>) -> String {
    let texts = texts.into_iter().filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the JSON of an object; an empty text if it has no fields.
fn json_of(fields: Map<String, Value>) -> String {
    if fields.is_empty() {
        return String::new();
    }
    Value::Object(fields).to_string()
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

/// Returns the fields that a model may read of a result with its text in `name`, beside the known
/// ones.
fn unknown_fields(fields: &Map<String, Value>, name: &str) -> Map<String, Value> {
    contents(fields, |other| {
        other != name && !FURTHER_FIELDS.contains(&other) && !DESCRIPTIONS.contains(&other)
    })
}

/// Returns the fields with content among those that are selected.
fn contents(fields: &Map<String, Value>, is_selected: impl Fn(&str) -> bool) -> Map<String, Value> {
    let fields = fields.iter();
    let contents = fields.filter(|(name, value)| is_selected(name) && has_content(value));
    contents
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn has_content(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => number.to_string().len() > MAX_COUNT_CHARS,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        // A content block may have a priority among its annotations.
        Value::Object(fields) => {
            let mut fields = fields.iter();
            fields.any(|(name, value)| name != "priority" || has_content(value))
        }
    }
}

/// Returns the edited fields of an object that is shown as JSON, if it has the same ones.
fn edited_fields(original: &Map<String, Value>, text: &str) -> Option<Map<String, Value>> {
    let edited: Map<String, Value> = serde_json::from_str(text).ok()?;
    original.keys().eq(edited.keys()).then_some(edited)
}

/// Returns a result with another text in the field `name`, and nothing else that a model may
/// read but edited fields.
fn with_text(original: &Map<String, Value>, name: &str, text: &str) -> Option<Map<String, Value>> {
    let mut fields = original.clone();
    // An agent may prefer it to the text.
    fields.shift_remove("structuredContent");
    if let Some(errors) = fields.get_mut("stderr") {
        clear(errors, "");
    }
    let text = write_fields(&mut fields, &unknown_fields(original, name), text);
    fields.insert(name.to_owned(), in_shape_of(original.get(name)?, text)?);
    Some(fields)
}

/// Writes `shown` fields, whose JSON is the last line of a text, as they are edited there. Without
/// a JSON of the same names, they lose their content. Returns the text that is left.
fn write_fields<'a>(
    fields: &mut Map<String, Value>,
    shown: &Map<String, Value>,
    text: &'a str,
) -> &'a str {
    if shown.is_empty() {
        return text;
    }
    let (first, last) = text.rsplit_once('\n').unwrap_or(("", text));
    if let Some(edited) = edited_fields(shown, last) {
        fields.extend(edited);
        return first;
    }
    clear_shown(fields, shown, last);
    text
}

/// Returns a result without a text field, and without the content that a model may read; `None`
/// if it has none. A description keeps its content, unless the JSON of the result is edited there.
fn without_content(original: &Map<String, Value>, edited: &str) -> Option<Map<String, Value>> {
    let is_kept = |name: &str| {
        let field = original
            .get(name)
            .map(|value| format!("{}:{value}", json!(name)));
        DESCRIPTIONS.contains(&name)
            && (!edited.starts_with('{') || field.is_some_and(|field| edited.contains(&field)))
    };
    let mut shown = contents(original, |name| !is_kept(name));
    // A field without content may have a name that is masked.
    let is_renamed =
        |name: &str| edited.starts_with('{') && !edited.contains(&json!(name).to_string());
    let renamed = original.iter().filter(|(name, _)| is_renamed(name));
    shown.extend(renamed.map(|(name, value)| (name.clone(), value.clone())));
    let mut fields = original.clone();
    clear_shown(&mut fields, &shown, edited);
    (!shown.is_empty()).then_some(fields)
}

/// Clears the fields among `fields` that are `shown`.
fn clear_shown(fields: &mut Map<String, Value>, shown: &Map<String, Value>, edited: &str) {
    let mut cleared = shown.clone();
    clear_fields(&mut cleared, edited);
    fields.retain(|name, _| cleared.contains_key(name) || !shown.contains_key(name));
    fields.extend(cleared);
}

/// Removes the content of fields, which keep their types, and fields whose names are edited in
/// their JSON.
fn clear_fields(fields: &mut Map<String, Value>, edited: &str) {
    if edited.starts_with('{') {
        fields.retain(|name, _| edited.contains(&json!(name).to_string()));
    }
    fields.values_mut().for_each(|value| clear(value, edited));
}

fn clear(value: &mut Value, edited: &str) {
    match value {
        Value::Null | Value::Bool(_) => (),
        Value::Number(_) => *value = json!(0),
        Value::String(text) => text.clear(),
        Value::Array(items) => items.clear(),
        Value::Object(fields) => clear_fields(fields, edited),
    }
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
                Some(json!({ "content": [{ "text": "new" }] })),
            ),
            (
                json!({ "content": [{ "text": "{\"h\": 1}" }], "structuredContent": { "h": 1 } }),
                "{\"h\": 1}",
                Some(json!({ "content": [{ "text": "new" }] })),
            ),
            (
                json!({ "result": "i", "note": "j", "code": 200 }),
                "i\n{\"note\":\"j\"}",
                Some(json!({ "result": "new", "note": "", "code": 200 })),
            ),
            (
                json!([{ "type": "text", "text": "k", "url": "l" }, { "type": "image" }]),
                "k\n{\"url\":\"l\"}\n{\"type\":\"image\"}",
                Some(json!([{ "type": "text", "text": "new" }])),
            ),
            (
                json!({ "own": ["m"], "mode": "n", "numFiles": 1 }),
                r#"{"own":["m"],"mode":"n","numFiles":1}"#,
                Some(json!({ "own": [], "mode": "n", "numFiles": 1 })),
            ),
            (json!(1234), "1234", Some(json!(0))),
            (
                json!({ "own": 1, "other": "o" }),
                r#"{"own":1,"other":"o"}"#,
                Some(json!({ "own": 1, "other": "" })),
            ),
            (json!({ "own": 1 }), r#"{"own":1}"#, None),
        ] {
            assert_eq!(text(&shape), expected);
            assert_eq!(in_shape_of(&shape, "new"), replaced);
        }
    }
}

//! Results of tools in the shapes that Claude Code and Codex give them in hooks. What a
//! model reads of a result is its text. Pure.

use serde_json::{Value, json};

/// Returns the text of a result: of a shell, a file, a fetched page, or content blocks.
pub(super) fn text(result: &Value) -> String {
    let field = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    if let Value::String(text) = result {
        return text.clone();
    }
    if let Some(stdout) = field(result, "stdout") {
        let stderr = field(result, "stderr").unwrap_or_default();
        let texts = [stdout, stderr].into_iter();
        let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        return texts.join("\n");
    }
    let file = result.get("file").and_then(|file| field(file, "content"));
    file.or_else(|| field(result, "content"))
        .or_else(|| field(result, "result"))
        .or_else(|| text_of_blocks(result.get("content").unwrap_or(result)))
        .unwrap_or_else(|| result.to_string())
}

/// Returns `text` in the shape of the `original` result; `None` if the shape is unknown,
/// since an agent ignores a result in another one.
pub(super) fn in_shape_of(original: &Value, text: &str) -> Option<Value> {
    let mut shaped = original.clone();
    let replace = |value: Option<&mut Value>| {
        let value = value.filter(|value| value.is_string())?;
        *value = json!(text);
        Some(())
    };
    let blocks = json!([{ "type": "text", "text": text }]);
    match &mut shaped {
        Value::Null | Value::String(_) => shaped = json!(text),
        Value::Array(_) => shaped = blocks,
        Value::Object(fields) => {
            if replace(fields.get_mut("stdout")).is_some() {
                fields.insert("stderr".to_owned(), json!(""));
            } else if fields.get("content").is_some_and(Value::is_array) {
                fields.insert("content".to_owned(), blocks);
            } else {
                let file = fields.get_mut("file");
                replace(file.and_then(|file| file.get_mut("content")))
                    .or_else(|| replace(fields.get_mut("content")))
                    .or_else(|| replace(fields.get_mut("result")))?;
            }
        }
        Value::Bool(_) | Value::Number(_) => return None,
    }
    Some(shaped)
}

/// Returns the texts of a list of content blocks, if it is one.
fn text_of_blocks(blocks: &Value) -> Option<String> {
    let texts = blocks.as_array()?.iter();
    let texts: Option<Vec<&str>> = texts.map(|block| block.get("text")?.as_str()).collect();
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
            (json!({ "own": 1 }), r#"{"own":1}"#, None),
        ] {
            assert_eq!(text(&shape), expected);
            assert_eq!(in_shape_of(&shape, "new"), replaced);
        }
    }
}

//! Edits of every text in a request that a model reads. Signatures, ids, media and names
//! are excluded.

use serde_json::Value;

use crate::{
    dialect::{
        call::Call,
        document::{Document, edit_repeated},
        error::Result,
        google::{
            content::Content,
            fields::{
                CONTENT, CONTENTS, FUNCTION_RESPONSE, LABELS, PARTS, REQUESTS, RESPONSE, SOURCE,
                SYSTEM_INSTRUCTION, WRAPPED_REQUEST,
            },
            part::Part,
            part_text::{NAME_FIELDS, edit_fields, edit_other_fields},
        },
        method::Operation,
        text_edit::{TextEditor, TextKind},
    },
    model::Role,
};

const BLOCK: &[&str] = &["block"];

/// Fields of an embedding request that hold no text, or are edited otherwise.
const EMBEDDING_FIELDS: &[&str] = &[
    "model",
    "content",
    "taskType",
    "task_type",
    "outputDimensionality",
    "output_dimensionality",
];

/// Edits every text of a request that a model reads.
pub fn edit_request_texts(
    call: &Call,
    document: &mut Document,
    editor: &mut dyn TextEditor,
) -> Result<()> {
    match call.operation {
        Operation::Embed => edit_embedding(document, editor),
        Operation::BatchEmbed => {
            edit_repeated(document, REQUESTS, |request| {
                edit_embedding(request, editor)
            })?;
            edit_labels(document, editor)
        }
        Operation::CountTokens => {
            document.edit_child(WRAPPED_REQUEST, |inner| edit_conversation(inner, editor))?;
            edit_conversation(document, editor)
        }
        Operation::Generate
        | Operation::Stream(_)
        | Operation::CreateCache
        | Operation::UseCache
        | Operation::Other => edit_conversation(document, editor),
    }
}

/// Edits the content to embed, and its title.
fn edit_embedding(document: &mut Document, editor: &mut dyn TextEditor) -> Result<()> {
    document.edit_child(CONTENT, |content| edit_content(content, editor))?;
    edit_other_fields(document, EMBEDDING_FIELDS, &mut |text| {
        editor.edit(TextKind::Speech, text)
    })
}

fn edit_conversation(document: &mut Document, editor: &mut dyn TextEditor) -> Result<()> {
    document.edit_child(SYSTEM_INSTRUCTION, |content| edit_content(content, editor))?;
    edit_repeated(document, CONTENTS, |content| edit_content(content, editor))?;
    edit_labels(document, editor)
}

fn edit_labels(document: &mut Document, editor: &mut dyn TextEditor) -> Result<()> {
    document.edit_child(LABELS, |labels| {
        edit_other_fields(labels, &[], &mut |text| editor.edit(TextKind::Speech, text))
    })
}

fn edit_content(document: &mut Document, editor: &mut dyn TextEditor) -> Result<()> {
    let content = Content::read(document.clone())?;
    // Only the model has thoughts, even if a part of the user is marked as one.
    let has_thoughts = content.role() == Role::Model;
    let mut parts = content.parts;
    for run in parts.chunk_by_mut(|part, next| part.text.is_some() && next.text.is_some()) {
        for is_thought in [false, true] {
            let alike = run.iter_mut().filter(|part| {
                part.text.is_some() && (has_thoughts && part.is_thought) == is_thought
            });
            edit_joined(alike.collect(), editor)?;
        }
    }
    for part in &mut parts {
        part.document.edit_child(FUNCTION_RESPONSE, |result| {
            edit_lists(TextKind::ToolResult, result, RESPONSE, editor)
        })?;
        edit_lists(TextKind::Block, &mut part.document, BLOCK, editor)?;
        edit_fields(&mut part.document, NAME_FIELDS, &mut |kind, text| {
            editor.edit(kind, text)
        })?;
    }
    if parts.iter().any(|part| part.document.is_edited()) {
        document.set_children(PARTS, parts.iter().map(|part| &part.document))?;
    }
    edit_other_fields(document, &["role", "parts", SOURCE], &mut |text| {
        editor.edit(TextKind::Speech, text)
    })
}

/// Edits parts that a model reads as one text.
fn edit_joined(parts: Vec<&mut Part>, editor: &mut dyn TextEditor) -> Result<()> {
    let mut texts: Vec<String> = parts.iter().filter_map(|part| part.text.clone()).collect();
    if texts.is_empty() || !editor.edit_joined(TextKind::Speech, &mut texts) {
        return Ok(());
    }
    for (part, text) in parts.into_iter().zip(&texts) {
        if part.text.as_ref() != Some(text) {
            *part = part.with_text(text)?;
        }
    }
    Ok(())
}

/// Edits lists of texts in a field, such as the passages of a document. A model reads each list
/// as one text.
fn edit_lists(
    kind: TextKind,
    document: &mut Document,
    field: &[&str],
    editor: &mut dyn TextEditor,
) -> Result<()> {
    if let Some(mut value) = document.get(field)?
        && edit_lists_in(kind, &mut value, editor)
    {
        document.set(field, &value)?;
    }
    Ok(())
}

/// Edits the lists of texts below a value. Returns whether any was edited.
fn edit_lists_in(kind: TextKind, value: &mut Value, editor: &mut dyn TextEditor) -> bool {
    let mut is_edited = false;
    match value {
        Value::Array(items) => is_edited = edit_runs(kind, "", items, editor),
        Value::Object(fields) => {
            for (key, value) in fields {
                is_edited |= match value {
                    Value::Array(items) => edit_runs(kind, key, items, editor),
                    value => edit_lists_in(kind, value, editor),
                };
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
    is_edited
}

/// Edits the runs of texts in a list, and in the lists below it. A text that is no more than the
/// end of a secret goes. Returns whether any was edited.
fn edit_runs(
    kind: TextKind,
    key: &str,
    items: &mut Vec<Value>,
    editor: &mut dyn TextEditor,
) -> bool {
    let mut is_edited = false;
    let is_text = |item: &Value| text_of(key, item).is_some();
    for run in items.chunk_by_mut(|item, next| is_text(item) && is_text(next)) {
        let texts = run.iter().filter_map(|item| text_of(key, item));
        let mut texts: Vec<String> = texts.map(str::to_owned).collect();
        if texts.len() < 2 || !editor.edit_joined(kind, &mut texts) {
            continue;
        }
        is_edited = true;
        for (item, text) in run.iter_mut().zip(texts) {
            match item {
                Value::Object(block) => {
                    block.insert("text".to_owned(), text.into());
                }
                shown => *shown = text.into(),
            }
        }
    }
    if is_edited {
        items.retain(|item| text_of(key, item) != Some(""));
    }
    for item in items {
        is_edited |= edit_lists_in(kind, item, editor);
    }
    is_edited
}

/// Returns the text of an element of a result: a block with a text, or one that is shown as its
/// text.
fn text_of<'a>(key: &str, item: &'a Value) -> Option<&'a str> {
    match item {
        Value::String(text) if key == "output" => Some(text),
        Value::Object(block) => {
            let text = block.get("text")?.as_str();
            let kind = block.get("type").and_then(Value::as_str);
            text.filter(|_| block.len() == 1 || kind.is_some_and(|kind| kind.ends_with("text")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{RequestLine, document::parse_document, recognize_call};

    /// Puts `*` for every `s` where a run of texts holds `ss`.
    struct Stars;

    impl TextEditor for Stars {
        fn edit_joined(&mut self, _kind: TextKind, texts: &mut [String]) -> bool {
            let found = texts.concat().contains("ss");
            for text in texts.iter_mut().filter(|_| found) {
                *text = text.replace('s', "*");
            }
            found
        }

        fn edit(&mut self, kind: TextKind, text: &str) -> Option<String> {
            text.contains("ss").then(|| format!("{kind:?}"))
        }
    }

    #[track_caller]
    fn check(operation: &str, body: &str, expected: &str) {
        let line = RequestLine {
            method: &http::Method::POST,
            path: &format!("/v1beta/models/m:{operation}"),
            query: "",
            api: None,
        };
        let call = recognize_call(line).unwrap().unwrap().call.unwrap();
        let mut document = parse_document(body.to_owned().into()).unwrap();
        edit_request_texts(&call, &mut document, &mut Stars).unwrap();
        assert_eq!(document.to_text(), expected);
    }

    #[test]
    fn every_text_is_edited_and_nothing_else() {
        check(
            "generateContent",
            r#"{"system_instruction":{"parts":[{"text":"ss"}]}, "contents":[{"role":"uss","parts":[{"text":"as"},{"text":"sb"},{"thought":true,"text":"s"}]},{"parts":[{"functionCall":{"id":"ss","name":"ss","args":{"k":["ss",1.0]}},"thoughtSignature":"ss"},{"functionResponse":{"name":"ss","response":{"ss":1}}},{"inlineData":{"data":"ss"}},{"executableCode":{"language":"ss","code":"ss"}},{"toolCall":{"toolType":"ss","args":{"k":"ss"},"id":"ss"}},{"toolResponse":{"response":{"k":"ss"},"id":"ss"}},{"new":"ss"}]}]}"#,
            r#"{"system_instruction":{"parts":[{"text":"**"}]}, "contents":[{"role":"uss","parts":[{"text":"a*"},{"text":"*b"},{"thought":true,"text":"*"}]},{"parts":[{"functionCall":{"id":"ss","name":"ss","args":{"k":["ToolCall",1.0]}},"thoughtSignature":"ss"},{"functionResponse":{"name":"ss","response":{"ToolResult":1}}},{"inlineData":{"data":"ss"}},{"executableCode":{"language":"ss","code":"ToolCall"}},{"toolCall":{"toolType":"ss","args":{"k":"ToolCall"},"id":"ss"}},{"toolResponse":{"response":{"k":"ToolResult"},"id":"ss"}},{"new":"Speech"}]}]}"#,
        );
    }

    #[test]
    fn the_texts_of_a_result_are_edited_as_one() {
        let body = |output: &str, content: &str| {
            let response = format!(r#"{{"output":{output},"content":{content},"n":[1.0]}}"#);
            let part = format!(r#"{{"functionResponse":{{"name":"f","response":{response}}}}}"#);
            format!(r#"{{"contents":[{{"parts":[{part}]}}]}}"#)
        };
        check(
            "generateContent",
            &body(
                r#"["as","s"]"#,
                r#"[{"type":"text","text":"s"},{"type":"x","text":"s"},{"type":"text","text":"s"},{"type":"text","text":"sb"},"s","s"]"#,
            ),
            &body(
                r#"["a*","*"]"#,
                r#"[{"type":"text","text":"s"},{"type":"x","text":"s"},{"type":"text","text":"*"},{"type":"text","text":"*b"},"s","s"]"#,
            ),
        );
    }

    #[test]
    fn unknown_fields_of_media_are_edited() {
        let body = |speech: &str, result: &str| {
            let medium = |new: &str| {
                format!(
                    r#"{{"inlineData":{{"mimeType":"ss","data":"ss","displayName":"ss","new":{{"k":"{new}"}}}}}}"#
                )
            };
            let file = format!(
                r#"{{"file_data":{{"file_uri":"ss","mime_type":"ss","new":"{speech}"}},"videoMetadata":{{"startOffset":"ss","new":["{speech}"]}}}}"#
            );
            let (medium, printed) = (medium(speech), medium(result));
            format!(
                r#"{{"contents":[{{"parts":[{medium},{file},{{"functionResponse":{{"name":"f","parts":[{printed}]}}}}]}}]}}"#
            )
        };
        check(
            "generateContent",
            &body("ss", "ss"),
            &body("Speech", "ToolResult"),
        );
    }

    #[test]
    fn texts_to_count_and_to_embed_are_edited() {
        check(
            "countTokens",
            r#"{"generateContentRequest":{"contents":[{"parts":[{"text":"ss"}]}]}}"#,
            r#"{"generateContentRequest":{"contents":[{"parts":[{"text":"**"}]}]}}"#,
        );
        check(
            "embedContent",
            r#"{"content":{"parts":[{"text":"ss"}]}}"#,
            r#"{"content":{"parts":[{"text":"**"}]}}"#,
        );
        check(
            "batchEmbedContents",
            r#"{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"ss"}]}}]}"#,
            r#"{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"**"}]}}]}"#,
        );
    }

    #[test]
    fn fields_with_a_matching_name_are_removed() {
        check(
            "generateContent",
            r#"{"labels":{"ss":"a","b":"c"},"contents":[{"ss":1,"parts":[{"ss":"a","functionCall":{"name":"f","args":{},"ss":"a"}}]}]}"#,
            r#"{"labels":{"b":"c"},"contents":[{"parts":[{"functionCall":{"name":"f","args":{}}}]}]}"#,
        );
    }

    #[test]
    fn a_request_without_matches_keeps_its_bytes() {
        let body = r#" {"contents": [ {"parts":[ {"text":"a\u00e9"} , {"functionCall":{"args":{"n":1e5}}}]} ] }"#;
        check("generateContent", body, body);
    }
}

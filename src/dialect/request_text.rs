//! Every text of a request that a model reads, and edits of it: whoever says
//! it, and wherever it stands. Signatures, ids, media and names are none. Pure.

use serde_json::Value;

use super::{
    Call, DialectError, Document, Operation,
    contents::{Content, PARTS},
    json_strings,
    part::{FUNCTION_CALL, FUNCTION_RESPONSE, Part},
    request::{CONTENT, CONTENTS, REQUESTS, WRAPPED},
    system_instruction::SYSTEM,
    text_prescan,
};

/// What kind of text it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// What somebody says, thoughts included.
    Speech,
    /// An argument of a tool's call, or code to run.
    ToolCall,
    /// The result of a tool, or what code printed.
    ToolResult,
}

/// Who edits the texts of a request.
pub trait TextEditor {
    /// Whether it would change a text, or texts that are read as this one. Where it
    /// would not, it is asked nothing else.
    fn wants(&self, kind: TextKind, text: &str) -> bool;

    /// Texts that a model reads as one, in order. Whether any was changed.
    fn run(&mut self, kind: TextKind, texts: &mut [String]) -> bool;

    /// A text that stands alone: what to put in its place, if anything.
    fn alone(&mut self, kind: TextKind, text: &str) -> Option<String>;
}

const TEXT: &str = "text";

/// Fields of a part that hold no text of anybody.
pub(super) const OPAQUE: &[&str] = &[
    "thoughtSignature",
    "thought_signature",
    "inlineData",
    "inline_data",
    "fileData",
    "file_data",
    "videoMetadata",
    "video_metadata",
];

/// Fields of what is embedded that say how, not what.
const EMBEDDING: &[&str] = &[
    "model",
    "content",
    "taskType",
    "task_type",
    "outputDimensionality",
    "output_dimensionality",
];

/// Names, ids and enumerations inside calls and results.
pub(super) const NAMES: &[&str] = &["id", "name", "scheduling", "language", "outcome"];

/// What the texts in a part's field are. Calls and results are objects, of other
/// fields nothing is known.
pub(super) fn kind_of(field: &str) -> Option<TextKind> {
    match field {
        field if OPAQUE.contains(&field) => None,
        field if FUNCTION_CALL.contains(&field) => Some(TextKind::ToolCall),
        field if FUNCTION_RESPONSE.contains(&field) => Some(TextKind::ToolResult),
        "executableCode" | "executable_code" => Some(TextKind::ToolCall),
        "codeExecutionResult" | "code_execution_result" => Some(TextKind::ToolResult),
        _ => Some(TextKind::Speech),
    }
}

/// Lets `editor` edit every text of a request.
pub(super) fn edit(
    call: &Call,
    document: &mut Document,
    editor: &mut dyn TextEditor,
) -> Result<(), DialectError> {
    match call.operation {
        Operation::Embed => edit_embedding(document, editor),
        Operation::BatchEmbed => {
            let mut requests = document.children(REQUESTS)?.unwrap_or_default();
            for request in &mut requests {
                edit_embedding(request, editor)?;
            }
            put(document, REQUESTS, &requests)
        }
        Operation::CountTokens => {
            if let Some(mut inner) = document.child(WRAPPED)? {
                edit_conversation(&mut inner, editor)?;
                if inner.is_edited() {
                    document.set_child(WRAPPED, &inner)?;
                }
            }
            edit_conversation(document, editor)
        }
        Operation::Generate
        | Operation::Stream(_)
        | Operation::CreateCache
        | Operation::UseCache
        | Operation::Other => edit_conversation(document, editor),
    }
}

/// What is embedded may have a title, too.
fn edit_embedding(
    document: &mut Document,
    editor: &mut dyn TextEditor,
) -> Result<(), DialectError> {
    edit_child(document, CONTENT, editor)?;
    edit_others(document, EMBEDDING, &mut |text| {
        editor.alone(TextKind::Speech, text)
    })
}

fn edit_conversation(
    document: &mut Document,
    editor: &mut dyn TextEditor,
) -> Result<(), DialectError> {
    edit_child(document, SYSTEM, editor)?;
    let contents = document.bytes_of(CONTENTS)?;
    if !contents.is_some_and(|it| text_prescan::wants_any(&it, editor)) {
        return Ok(());
    }
    let mut contents = document.children(CONTENTS)?.unwrap_or_default();
    for content in &mut contents {
        edit_content(content, editor)?;
    }
    put(document, CONTENTS, &contents)
}

/// Puts a list back, if any of it was edited.
fn put(document: &mut Document, key: &[&str], list: &[Document]) -> Result<(), DialectError> {
    if list.iter().any(Document::is_edited) {
        return document.set_children(key, list);
    }
    Ok(())
}

fn edit_child(
    document: &mut Document,
    key: &[&str],
    editor: &mut dyn TextEditor,
) -> Result<(), DialectError> {
    let Some(mut content) = document.child(key)? else {
        return Ok(());
    };
    edit_content(&mut content, editor)?;
    if content.is_edited() {
        document.set_child(key, &content)?;
    }
    Ok(())
}

fn edit_content(document: &mut Document, editor: &mut dyn TextEditor) -> Result<(), DialectError> {
    if !text_prescan::wants_one(&document.to_bytes(), editor) {
        return Ok(());
    }
    let mut parts = Content::read(document.clone())?.parts;
    for run in
        parts.chunk_by_mut(|a, b| a.text.is_some() && b.text.is_some() && a.thought == b.thought)
    {
        edit_run(run, editor)?;
    }
    for part in &mut parts {
        edit_fields(&mut part.document, NAMES, &mut |kind, text| {
            editor.alone(kind, text)
        })?;
    }
    let parts: Vec<Document> = parts.into_iter().map(|it| it.document).collect();
    put(document, PARTS, &parts)?;
    edit_others(document, &["role", "parts"], &mut |text| {
        editor.alone(TextKind::Speech, text)
    })
}

/// The texts of neighbouring parts are read as one.
fn edit_run(run: &mut [Part], editor: &mut dyn TextEditor) -> Result<(), DialectError> {
    let mut texts: Vec<String> = run.iter().filter_map(|it| it.text.clone()).collect();
    if texts.len() != run.len() || !editor.run(TextKind::Speech, &mut texts) {
        return Ok(());
    }
    for (part, text) in run.iter_mut().zip(&texts) {
        if part.text.as_ref() != Some(text) {
            *part = part.saying(text)?;
        }
    }
    Ok(())
}

/// Edits what a part holds besides its text; `but` are fields inside calls and
/// results that stay as they are.
pub(super) fn edit_fields(
    part: &mut Document,
    but: &[&str],
    edit: &mut dyn FnMut(TextKind, &str) -> Option<String>,
) -> Result<(), DialectError> {
    for key in keys(part, &[TEXT]) {
        let Some(kind) = kind_of(&key) else {
            continue;
        };
        let mut edit = |text: &str| edit(kind, text);
        if kind == TextKind::Speech {
            edit_value(part, &key, &mut edit)?;
        } else if let Some(mut inner) = part.child(&[&key])? {
            edit_inside(&mut inner, but, &mut edit)?;
            if inner.is_edited() {
                part.set_child(&[&key], &inner)?;
            }
        }
    }
    Ok(())
}

/// A result may have parts of its own, for media.
fn edit_inside(
    inner: &mut Document,
    but: &[&str],
    edit: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<(), DialectError> {
    edit_others(inner, &[but, PARTS].concat(), edit)?;
    let mut parts = inner.children(PARTS)?.unwrap_or_default();
    for part in &mut parts {
        edit_others(part, OPAQUE, edit)?;
    }
    put(inner, PARTS, &parts)
}

/// Edits every field that came with a document, but for those.
pub(super) fn edit_others(
    document: &mut Document,
    but: &[&str],
    edit: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<(), DialectError> {
    for key in keys(document, but) {
        edit_value(document, &key, edit)?;
    }
    Ok(())
}

fn keys(document: &Document, but: &[&str]) -> Vec<String> {
    let keys = document.fields().map(|it| it.0);
    let keys = keys.filter(|it| !but.contains(&it.as_str()));
    keys.map(Into::into).collect()
}

fn edit_value(
    document: &mut Document,
    key: &str,
    edit: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<(), DialectError> {
    let mut value: Value = document.get(&[key])?.unwrap_or_default();
    if json_strings::edit(&mut value, edit) {
        document.set(&[key], &value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{RequestLine, recognise};

    /// Puts `*` for every `s` where a run of texts holds `ss`.
    struct Stars;

    impl TextEditor for Stars {
        fn wants(&self, _kind: TextKind, text: &str) -> bool {
            text.contains("ss")
        }

        fn run(&mut self, _kind: TextKind, texts: &mut [String]) -> bool {
            let found = texts.concat().contains("ss");
            for text in texts.iter_mut().filter(|_| found) {
                *text = text.replace('s', "*");
            }
            found
        }

        fn alone(&mut self, kind: TextKind, text: &str) -> Option<String> {
            text.contains("ss").then(|| format!("{kind:?}"))
        }
    }

    #[track_caller]
    fn check(operation: &str, body: &str, expected: &str) {
        let line = RequestLine {
            method: &http::Method::POST,
            path: &format!("/v1beta/models/m:{operation}"),
            query: "",
        };
        let call = recognise(line).unwrap().unwrap().call.unwrap();
        let mut document = Document::parse(body.to_owned().into()).unwrap();
        edit(&call, &mut document, &mut Stars).unwrap();
        assert_eq!(document.to_text(), expected);
    }

    #[test]
    fn every_text_is_seen_and_nothing_else() {
        check(
            "generateContent",
            r#"{"system_instruction":{"parts":[{"text":"ss"}]}, "contents":[{"role":"uss","parts":[{"text":"as"},{"text":"sb"},{"thought":true,"text":"s"}]},{"parts":[{"functionCall":{"id":"ss","name":"ss","args":{"k":["ss",1.0]}},"thoughtSignature":"ss"},{"functionResponse":{"name":"ss","response":{"ss":1}}},{"inlineData":{"data":"ss"}},{"executableCode":{"language":"ss","code":"ss"}},{"new":"ss"}]}]}"#,
            r#"{"system_instruction":{"parts":[{"text":"**"}]}, "contents":[{"role":"uss","parts":[{"text":"a*"},{"text":"*b"},{"thought":true,"text":"s"}]},{"parts":[{"functionCall":{"id":"ss","name":"ss","args":{"k":["ToolCall",1.0]}},"thoughtSignature":"ss"},{"functionResponse":{"name":"ss","response":{"ToolResult":1}}},{"inlineData":{"data":"ss"}},{"executableCode":{"language":"ss","code":"ToolCall"}},{"new":"Speech"}]}]}"#,
        );
    }

    #[test]
    fn what_is_counted_and_embedded_is_seen_too() {
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
    fn where_nothing_is_found_no_byte_changes() {
        let body = r#" {"contents": [ {"parts":[ {"text":"a\u00e9"} , {"functionCall":{"args":{"n":1e5}}}]} ] }"#;
        check("generateContent", body, body);
    }
}

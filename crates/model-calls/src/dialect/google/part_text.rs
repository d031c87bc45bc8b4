//! Texts in a part beside its plain text, and in fields that hookgate does not interpret.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    document::{Document, edit_repeated, read_json},
    error::Result,
    google::{
        fields::{
            FUNCTION_CALL, FUNCTION_RESPONSE, HAS_MEDIA, IS_REFUSAL, PARTS, PHASE, PRECEDING,
            SOURCE, STARTS_TEXT,
        },
        part::{Part, TEXT},
    },
    json_strings::{EditText, edit_field_strings},
    text_edit::TextKind,
};

/// Fields of a part that hold media.
const MEDIA: &[&str] = &[
    "inlineData",
    "inline_data",
    "fileData",
    "file_data",
    "videoMetadata",
    "video_metadata",
];

/// Fields of media that are not edited.
const MEDIUM_FIELDS: &[&str] = &[
    "data",
    "displayName",
    "display_name",
    "mimeType",
    "mime_type",
    "fileUri",
    "file_uri",
    "startOffset",
    "start_offset",
    "endOffset",
    "end_offset",
    "fps",
];

/// Fields of a part that hold no text.
const SIGNATURES: &[&str] = &["thoughtSignature", "thought_signature"];

/// Names, ids and enumerations in calls and results.
pub const NAME_FIELDS: &[&str] = &[
    "id",
    "name",
    "scheduling",
    "language",
    "outcome",
    "toolType",
    "tool_type",
];

/// Fields of the content form, and of calls and results, whose names are no texts.
const KNOWN_NAMES: &[&str] = &[
    "args",
    "block",
    "caller",
    "citationMetadata",
    "citation_metadata",
    "code",
    "error",
    "groundingMetadata",
    "grounding_metadata",
    "input",
    "jsonPath",
    "json_path",
    "labels",
    "messages",
    "output",
    "promptFeedback",
    "prompt_feedback",
    "response",
    "thought",
    "willContinue",
    "will_continue",
    HAS_MEDIA,
];

/// Fields of a block by which calls and results of the model API's own tools refer to each other.
const BLOCK_IDS: &[&str] = &["approval_request_id", "id", "tool_use_id"];

/// Fields of a block whose strings are no text of a user.
const BLOCK_ENUMERATIONS: &[&str] = &["type", "media_type", "cache_control", "file_id"];

/// Returns the texts of a prompt: plain texts, those of blocks that are neither text nor media,
/// such as a document with its title, and behind them those of other parts, so that a part between
/// two texts does not separate them.
pub fn prompt_texts(parts: &[&Part]) -> Result<Vec<String>> {
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for part in parts {
        texts.extend(part.text.clone());
        if let Some(block) = part.document.get(&["block"])? {
            add_texts(&block, &mut texts);
        }
        add_field_texts(part, &mut others)?;
    }
    texts.append(&mut others);
    Ok(texts)
}

/// Adds the texts of a part that is neither a text, block or medium nor a result: of code, a call
/// or a field that hookgate does not interpret.
fn add_field_texts(part: &Part, texts: &mut Vec<String>) -> Result<()> {
    let has_text = part.text.as_ref().is_some_and(|text| !text.is_empty());
    if has_text || part.document.has(FUNCTION_RESPONSE) {
        return Ok(());
    }
    for (key, json) in other_fields(&part.document, &[TEXT, MEDIA].concat()) {
        let kind = kind_of_field(&key);
        if matches!(kind, Some(TextKind::Speech | TextKind::ToolCall)) {
            add_texts(&read_json::<Value>(&json)?, texts);
        }
    }
    Ok(())
}

fn add_texts(value: &Value, texts: &mut Vec<String>) {
    let is_text = |key: &str| !BLOCK_ENUMERATIONS.contains(&key) && !BLOCK_IDS.contains(&key);
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, texts)),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(key, _)| is_text(key));
            fields.for_each(|(_, value)| add_texts(value, texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// Returns the kind of the texts in a part's field; `None` for opaque fields. Media and unknown
/// fields count as speech.
fn kind_of_field(field: &str) -> Option<TextKind> {
    match field {
        IS_REFUSAL | PHASE | PRECEDING | SOURCE | STARTS_TEXT => None,
        field if SIGNATURES.contains(&field) => None,
        field if FUNCTION_CALL.contains(&field) => Some(TextKind::ToolCall),
        field if FUNCTION_RESPONSE.contains(&field) => Some(TextKind::ToolResult),
        "executableCode" | "executable_code" | "toolCall" | "tool_call" => Some(TextKind::ToolCall),
        "codeExecutionResult" | "code_execution_result" | "toolResponse" | "tool_response" => {
            Some(TextKind::ToolResult)
        }
        "block" => Some(TextKind::Block),
        _ => Some(TextKind::Speech),
    }
}

/// Edits all texts of a part but its plain text. Fields in `except` are skipped inside calls
/// and results.
pub fn edit_fields(
    part: &mut Document,
    except: &[&str],
    edit: &mut dyn FnMut(TextKind, &str) -> Option<String>,
) -> Result<()> {
    let mut edited = Vec::new();
    for (key, json) in other_fields(part, &["text"]) {
        let Some(kind) = kind_of_field(&key) else {
            continue;
        };
        let mut edit = |text: &str| edit(kind, text);
        match kind {
            TextKind::Speech if is_medium(&key, &json) => edit_medium(part, &key, &mut edit)?,
            TextKind::Speech => edited.extend(edited_field(key, &json, &[], &mut edit)?),
            TextKind::Block => edited.extend(edited_field(key, &json, BLOCK_IDS, &mut edit)?),
            TextKind::ToolCall | TextKind::ToolResult => {
                part.edit_child(&[&key], |inner| edit_inner(inner, except, &mut edit))?;
            }
        }
    }
    part.write_fields(edited);
    Ok(())
}

/// Edits a call or a result, which may have media with texts of their own.
fn edit_inner(inner: &mut Document, except: &[&str], edit: EditText<'_>) -> Result<()> {
    edit_other_fields(inner, &[except, PARTS].concat(), edit)?;
    edit_repeated(inner, PARTS, |part| {
        let mut edited = Vec::new();
        for (key, json) in other_fields(part, SIGNATURES) {
            if is_medium(&key, &json) {
                edit_medium(part, &key, edit)?;
            } else {
                edited.extend(edited_field(key, &json, &[], edit)?);
            }
        }
        part.write_fields(edited);
        Ok(())
    })
}

fn is_medium(key: &str, json: &[u8]) -> bool {
    MEDIA.contains(&key) && json.starts_with(b"{")
}

/// Edits the strings of a medium that are not its own.
fn edit_medium(part: &mut Document, key: &str, edit: EditText<'_>) -> Result<()> {
    part.edit_child(&[key], |medium| {
        edit_other_fields(medium, MEDIUM_FIELDS, edit)
    })
}

/// Edits the strings of all fields but those in `except`. Fields of which the name was edited are
/// removed.
pub fn edit_other_fields(
    document: &mut Document,
    except: &[&str],
    edit: EditText<'_>,
) -> Result<()> {
    let mut edited = Vec::new();
    for (key, json) in other_fields(document, except) {
        edited.extend(edited_field(key, &json, &[], edit)?);
    }
    document.write_fields(edited);
    Ok(())
}

fn other_fields(document: &Document, except: &[&str]) -> Vec<(String, Bytes)> {
    let fields = document.fields();
    let fields = fields.filter(|(key, _)| !except.contains(&&**key));
    fields.map(|(key, json)| (key.into_owned(), json)).collect()
}

/// Returns a field with its edited strings, or without a value if its name was edited; `None` if
/// it stays.
fn edited_field(
    key: String,
    json: &[u8],
    ids: &[&str],
    edit: EditText<'_>,
) -> Result<Option<(String, Option<Bytes>)>> {
    if !KNOWN_NAMES.contains(&&*key) && edit(&key).is_some() {
        return Ok(Some((key, None)));
    }
    let mut value: Value = read_json(json)?;
    if !edit_field_strings(&key, &mut value, ids, edit) {
        return Ok(None);
    }
    Ok(Some((key, Some(value.to_string().into()))))
}

//! Fields that are refused: another parser could read them differently, or hooks cannot see what
//! they refer to and the config does not allow them.

use serde_json::{Map, Value};

use crate::dialect::{
    content_form::{any_object, any_object_with, holds_id, may_hold},
    document::{Document, is_set, refuse_pair, to_value, try_any},
    error::{Result, field_error},
    method::Api,
    openai_responses::{
        fields::{ID, INPUT, TYPE},
        request::{declarations::Declarations, input::Input},
        visible_fields::IMAGE,
    },
    request_field::{AllowedFields, RequestField, STORED_PROMPTS},
};

/// Fields that refer to content which hooks cannot see.
const REFERENCES: [(&str, RequestField); 3] = [
    ("previous_response_id", RequestField::PreviousResponse),
    ("conversation", RequestField::Conversation),
    ("prompt", RequestField::StoredPrompt),
];

/// Fields that compatible servers read beside the known ones, with what they must be.
const REFUSED: &[(&str, &str)] = &[
    ("messages", "absent, because the conversation is in `input`"),
    ("functions", "absent, because tools are declared in `tools`"),
    (
        "function_call",
        "absent, because tools are selected by `tool_choice`",
    ),
];

/// Pairs of fields with one meaning, of which servers may read either.
const SYNONYMS: &[(&str, &str)] = &[
    ("max_output_tokens", "max_tokens"),
    ("max_output_tokens", "max_completion_tokens"),
    ("text", "response_format"),
    ("reasoning", "reasoning_effort"),
];

/// Fields whose near spellings, such as `maxOutputTokens`, are refused.
const KNOWN: &[&str] = &[
    "context_management",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "model",
    "parallel_tool_calls",
    "reasoning",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
];

/// Refuses fields that refer to content which hooks cannot see, unless they are allowed.
pub fn refuse_references(body: &Document, allowed: AllowedFields) -> Result<()> {
    let check = |field| allowed.check(Api::OpenAiResponses, field);
    let prompts = STORED_PROMPTS.iter();
    let prompts = prompts.map(|field| (*field, RequestField::StoredPrompt));
    for (field, kind) in REFERENCES.into_iter().chain(prompts) {
        if is_set(body, &[field])? {
            allowed.check_named(Api::OpenAiResponses, kind, field)?;
        }
    }
    match body.get(&["background"])? {
        None | Some(Value::Null | Value::Bool(false)) => (),
        Some(Value::Bool(true)) => check(RequestField::Background)?,
        Some(_) => return Err(field_error("background", "true or false")),
    }
    if any_object_with(body, INPUT, "file_id", "arguments", &is_stored_file)? {
        check(RequestField::StoredFile)?;
    }
    if names_stored_image(body)? {
        allowed.check_named(Api::OpenAiResponses, RequestField::StoredFile, IMAGE)?;
    }
    stored_in_tools(body)?.into_iter().try_for_each(check)
}

/// Returns whether an item is the image of an earlier response, which nothing but its id names.
fn names_stored_image(body: &Document) -> Result<bool> {
    if !may_hold(body, &[IMAGE]) {
        return Ok(false);
    }
    try_any(Input::read(body)?.items, |item| {
        let item = item.document;
        let is_image = item.string(TYPE)?.as_deref() == Some(IMAGE);
        let image = item.string(&["result"])?.unwrap_or_default();
        Ok(is_image && image.is_empty() && is_set(&item, ID)?)
    })
}

/// Returns what the tools that run upstream use of what is stored there.
fn stored_in_tools(body: &Document) -> Result<Vec<RequestField>> {
    if !may_hold(body, &["file_id", "skill_id", "\"skills\"", "container"]) {
        return Ok(Vec::new());
    }
    let mut stored = Vec::new();
    for tool in Declarations::read(body, &Input::read(body)?)?.hosted() {
        let tool = to_value(tool)?;
        let names = |key: &str| any_object(&tool, "parameters", &|fields| holds_id(fields, key));
        let is_text = |fields: &Map<String, Value>| {
            let container = fields.get("container");
            container.is_some_and(Value::is_string)
        };
        if names("file_id") || names("file_ids") {
            stored.push(RequestField::StoredFile);
        }
        let mut keys = ["container_id", "skill_id", "skills"].into_iter();
        if keys.any(names) || any_object(&tool, "parameters", &is_text) {
            stored.push(RequestField::Container);
        }
    }
    Ok(stored)
}

/// Returns whether an object with the id of a file is a file of the prompt: results of hosted
/// tools and quotes name files, too.
fn is_stored_file(fields: &Map<String, Value>) -> bool {
    let named = fields.get("type").and_then(Value::as_str);
    let is_medium =
        named.is_some_and(|named| named.starts_with("input_") || named == "computer_screenshot");
    is_medium && fields.get("file_id") != Some(&Value::Null)
}

/// Refuses a request that parsers could read differently.
pub fn refuse_unseen(body: &Document) -> Result<()> {
    for (field, expected) in REFUSED {
        if is_set(body, &[field])? {
            return Err(field_error(field, expected));
        }
    }
    for (field, other) in SYNONYMS {
        refuse_pair(body, &[field], &[other])?;
    }
    let mut known = KNOWN.iter();
    known.try_for_each(|field| body.bytes_of(&[field]).map(drop))
}

//! The objects of an answer or an event that may have fields that hookgate does not interpret.

use crate::dialect::{
    content_form::{ActOnObject, VisitObjects, visit_details},
    document::{Document, first_byte},
    error::Result,
    openai::usage::COUNT_DETAILS,
    openai_chat::{
        block::{block_text, block_thought, is_list_of_texts, read_medium},
        fields::{
            CHOICES, CONTENT, CUSTOM, DELTA, FUNCTION, FUNCTION_CALL, MESSAGE, THINKING,
            TOOL_CALLS, TYPE, USAGE,
        },
        response::answer::{THOUGHT_DETAILS, known_fields},
    },
};

/// Fields of an answer that hold no text, or are edited otherwise.
pub const RESPONSE_FIELDS: &[&str] = &[
    "choices",
    "created",
    "id",
    "model",
    "object",
    "obfuscation",
    "provider",
    "service_tier",
    "system_fingerprint",
    "usage",
];

/// Fields of a choice that hold no text, or are edited otherwise.
const CHOICE_FIELDS: &[&str] = &["finish_reason", "index", "logprobs", "native_finish_reason"];

/// Fields of a detail of a thought that hold no text, or that hooks see otherwise.
pub const DETAIL_FIELDS: &[&str] = &[
    "data",
    "format",
    "id",
    "index",
    "signature",
    "summary",
    "text",
    "thinking",
    "type",
];

/// Fields of a call that hold no text, or that hooks see otherwise.
const CALL_FIELDS: &[&str] = &["custom", "function", "id", "index", "type"];

/// Fields of an image, a sound or a file that hold its data, type, name or place.
const MEDIUM_FIELDS: &[&str] = &[
    "data",
    "detail",
    "file_data",
    "file_id",
    "filename",
    "format",
    "url",
];

/// Fields of an image of a message that hold no text, or are visited.
const IMAGE_FIELDS: &[&str] = &["image_url", "index", "type"];

/// Images beside the content of a message, as compatible servers send them.
const IMAGES: &[&str] = &["images"];

/// Ratings of a content filter.
const FILTER_RESULTS: &[&str] = &["content_filter_results"];

/// Signatures of Gemini models.
const EXTRA_CONTENT: &[&str] = &["extra_content"];

/// The same, as LiteLLM sends them.
const PROVIDER_FIELDS: &[&str] = &["provider_specific_fields"];

/// Visits the objects of a whole answer.
pub fn visit_answer(answer: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    visit_choices(answer, MESSAGE, act)
}

/// Visits the objects of an event.
pub fn visit_event(event: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    visit_choices(event, DELTA, act)
}

fn visit_choices(
    answer: &mut Document,
    message: &'static [&'static str],
    act: ActOnObject<'_>,
) -> Result<()> {
    answer.edit_children(CHOICES, |choice| {
        choice.edit_child(message, |message| {
            if is_list(message, CONTENT)? {
                message.edit_children(CONTENT, |block| visit_thought(block, act))?;
            }
            let known = known_fields(message)?;
            visit_message(message, &known, act)
        })?;
        let ratings = visit_object(choice, FILTER_RESULTS, visit_ratings, act)?;
        act(choice, &[CHOICE_FIELDS, message, ratings].concat())
    })?;
    answer.edit_child(USAGE, |usage| visit_details(usage, COUNT_DETAILS, &[], act))?;
    act(answer, RESPONSE_FIELDS)
}

/// Visits the ratings of a content filter, by category.
fn visit_ratings(ratings: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    let (mut names, mut edited) = (Vec::new(), Vec::new());
    for (name, rating) in ratings.fields().filter(|(_, json)| json.starts_with(b"{")) {
        let mut rating = Document::from_checked(rating)?;
        act(&mut rating, &["severity"])?;
        if rating.is_edited() {
            edited.push((name.to_string(), Some(rating.to_bytes())));
        }
        names.push(name.into_owned());
    }
    ratings.write_fields(edited);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    act(ratings, &names)
}

/// Visits the object in a field. Returns the field if it holds one: other values have texts only.
pub fn visit_object(
    object: &mut Document,
    field: &'static [&'static str],
    visit: VisitObjects,
    act: ActOnObject<'_>,
) -> Result<&'static [&'static str]> {
    if first_byte(object, field)? != Some(b'{') {
        return Ok(&[]);
    }
    object.edit_child(field, |inner| visit(inner, act))?;
    Ok(field)
}

/// Visits the objects of a message, of which the `known` fields hold no text, or hooks see them
/// otherwise.
pub fn visit_message(message: &mut Document, known: &[&str], act: ActOnObject<'_>) -> Result<()> {
    if is_list(message, CONTENT)? {
        message.edit_children(CONTENT, |block| visit_block(block, act))?;
    }
    if is_list_of_objects(message, IMAGES)? {
        message.edit_children(IMAGES, |image| {
            visit_object(image, &["image_url"], visit_medium, act)?;
            act(image, &[IMAGE_FIELDS, MEDIUM_FIELDS].concat())
        })?;
    }
    message.edit_children(TOOL_CALLS, |call| visit_call(call, act))?;
    message.edit_child(FUNCTION_CALL, |call| act(call, &["arguments", "name"]))?;
    for list in THOUGHT_DETAILS {
        if known.contains(&list) && is_list(message, &[list])? {
            message.edit_children(&[list], |detail| act(detail, DETAIL_FIELDS))?;
        }
    }
    let extra = visit_object(message, EXTRA_CONTENT, visit_extra_content, act)?;
    act(message, &[known, extra].concat())
}

fn is_list(object: &Document, field: &[&str]) -> Result<bool> {
    Ok(first_byte(object, field)? == Some(b'['))
}

fn is_list_of_objects(object: &Document, field: &[&str]) -> Result<bool> {
    if !is_list(object, field)? {
        return Ok(false);
    }
    let elements = object.list(field)?.unwrap_or_default();
    Ok(elements.iter().all(|element| element.starts_with(b"{")))
}

fn visit_medium(medium: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    act(medium, MEDIUM_FIELDS)
}

/// Visits a block of an answer that is a thought.
fn visit_thought(block: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    if block_thought(block)?.is_none() {
        return Ok(());
    }
    if is_list_of_texts(block)? {
        block.edit_children(THINKING, |text| act(text, &["text", "type"]))?;
    }
    act(block, &["signature", "thinking", "type"])
}

/// Visits a block. Of one that is neither a text nor a medium, hooks see all fields.
fn visit_block(block: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    if block_text(block)?.is_some() {
        return act(block, &["text", "type"]);
    }
    if read_medium(block)?.is_none() {
        return Ok(());
    }
    let kind = block.string(TYPE)?.unwrap_or_default();
    if first_byte(block, &[&kind])? == Some(b'{') {
        block.edit_child(&[&kind], |medium| visit_medium(medium, act))?;
    }
    act(block, &["type", &kind])
}

/// Visits a tool call.
pub fn visit_call(call: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    call.edit_child(FUNCTION, |function| {
        let signature = visit_object(function, PROVIDER_FIELDS, visit_signature, act)?;
        act(function, &[&["arguments", "name"], signature].concat())
    })?;
    call.edit_child(CUSTOM, |custom| act(custom, &["input", "name"]))?;
    let extra = visit_object(call, EXTRA_CONTENT, visit_extra_content, act)?;
    let signature = visit_object(call, PROVIDER_FIELDS, visit_signature, act)?;
    // Calls of other kinds have their arguments in a field of that name.
    let kind = call.string(TYPE)?.unwrap_or_default();
    act(call, &[CALL_FIELDS, &[&kind], extra, signature].concat())
}

fn visit_extra_content(extra: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    let google = visit_object(extra, &["google"], visit_signature, act)?;
    act(extra, google)
}

fn visit_signature(google: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    act(google, &["thought_signature"])
}

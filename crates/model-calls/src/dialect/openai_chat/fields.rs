//! Field names of the Chat Completions API, and which of them are refused.

use bytes::Bytes;
use strict_json::{FreeField, FreeFields, Names};

use crate::dialect::{
    document::{Document, is_set},
    error::{Result, field_error},
};

/// Fields with free-form keys: schemas, labels, biases by token.
const FREE_FORM: &FreeFields = &FreeFields::new(&[
    FreeField::new("chat_template_kwargs", 1),
    FreeField::new("client_metadata", 1),
    FreeField::new("logit_bias", 1),
    FreeField::new("metadata", 1),
    FreeField::new("parameters", 1),
    FreeField::new("schema", 1),
]);

pub const ARGUMENTS: &[&str] = &["arguments"];
pub const CHOICES: &[&str] = &["choices"];
pub const CONTENT: &[&str] = &["content"];
pub const CUSTOM: &[&str] = &["custom"];
pub const DELTA: &[&str] = &["delta"];
pub const ERROR: &[&str] = &["error"];
pub const FINISH_REASON: &[&str] = &["finish_reason"];
pub const FUNCTION: &[&str] = &["function"];
/// Deprecated form of a tool call, and of `tool_choice`.
pub const FUNCTION_CALL: &[&str] = &["function_call"];
/// Deprecated form of `tools`.
pub const FUNCTIONS: &[&str] = &["functions"];
pub const ID: &[&str] = &["id"];
pub const INDEX: &[&str] = &["index"];
pub const INPUT: &[&str] = &["input"];
pub const LOGPROBS: &[&str] = &["logprobs"];
pub const MESSAGE: &[&str] = &["message"];
pub const MESSAGES: &[&str] = &["messages"];
pub const MODEL: &[&str] = &["model"];
pub const NAME: &[&str] = &["name"];
/// White space between a text and the one before it.
pub const PARAGRAPH: &str = "\n\n";
pub const PARALLEL_TOOL_CALLS: &[&str] = &["parallel_tool_calls"];
pub const REFUSAL: &[&str] = &["refusal"];
pub const ROLE: &[&str] = &["role"];
pub const TEXT: &[&str] = &["text"];
/// Thought of a block that is one.
pub const THINKING: &[&str] = &["thinking"];
pub const TOOL_CALL_ID: &[&str] = &["tool_call_id"];
pub const TOOL_CALLS: &[&str] = &["tool_calls"];
pub const TOOL_CHOICE: &[&str] = &["tool_choice"];
pub const TOOLS: &[&str] = &["tools"];
pub const TYPE: &[&str] = &["type"];
pub const USAGE: &[&str] = &["usage"];

/// Fields of a chat request that hooks see, or that hold no text.
pub const CHAT_FIELDS: &[&str] = &[
    "audio",
    "content_policy_fallbacks",
    "context_window_fallbacks",
    "frequency_penalty",
    "function_call",
    "functions",
    "fallbacks",
    "include_reasoning",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "modalities",
    "model",
    "models",
    "n",
    "parallel_tool_calls",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "verbosity",
    "web_search_options",
];

/// Fields with which compatible servers take another prompt than the one that hooks see.
const OTHER_PROMPTS: &[&str] = &[
    "contents",
    "conversation",
    "input",
    "instructions",
    "previous_response_id",
    "prompt",
];

/// Refuses fields that hooks cannot see through, and other spellings of known ones.
pub fn check_fields(body: &Document) -> Result<()> {
    for field in OTHER_PROMPTS {
        if is_set(body, &[field])? {
            let expected = "absent: hooks do not see it in this call";
            return Err(field_error(field, expected));
        }
    }
    // A lookup fails for a name that a lenient parser could take for the known one.
    let mut known = CHAT_FIELDS.iter();
    known.try_for_each(|field| body.bytes_of(&[field]).map(drop))
}

/// Parses a body of the API, or the data of an event.
///
/// # Errors
///
/// Fails if the bytes are no JSON object, or parsers could disagree about them.
pub fn parse(bytes: Bytes) -> Result<Document> {
    Document::parse(bytes, Names::Fields(FREE_FORM))
}

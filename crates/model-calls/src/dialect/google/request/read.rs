//! The stable form of a request and facts read from it (hook protocol, section 6).

use bytes::Bytes;

use crate::{
    dialect::{
        call::Call,
        document::Document,
        error::{DialectError, Result},
        google::{
            content::Content,
            fields::{
                CACHED_CONTENT, CONTENT, CONTENTS, GENERATION_CONFIG, SYSTEM_INSTRUCTION,
                TOOL_CONFIG, TOOLS, WRAPPED_REQUEST,
            },
            request::{
                body::{contents, embeddings, inner_request, read_contents},
                model::check_model,
                parameters::{read_integer, read_parameters},
                system_instruction::read_system_instruction,
                tool_declarations::{declared_functions, declares_functions},
            },
        },
    },
    model::{FunctionCallingMode, LlmRequest, ToolConfig},
};

const EMBEDDING_CONFIG: &[&str] = &["embedContentConfig", "embed_content_config"];
const TITLE: &[&str] = &["title"];

/// Amount of detail in the messages of the stable form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Texts of each message only.
    Texts,
    /// Texts, calls, results and media.
    Whole,
}

/// Facts about a request for conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSummary {
    /// Number of contents in the conversation.
    pub contents: usize,
    /// Names of the declared functions.
    pub functions: Vec<String>,
    /// Token limit of the response.
    pub max_output_tokens: Option<i64>,
}

/// The parts of a request that model APIs cache as a prefix, as JSON.
#[derive(Debug, Clone, Default)]
pub struct PromptPrefix {
    /// Instruction for the whole conversation.
    pub system_instruction: Bytes,
    /// Declarations of the agent's tools.
    pub tools: Bytes,
    /// Conversation as an array.
    pub contents: Bytes,
}

/// The kind of response that a request expects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseExpectation {
    /// Format of the response's text.
    pub format: ResponseFormat,
    /// True if the response must call a function. A text beside the call has no format.
    pub forces_call: bool,
    /// True if the response may call declared functions.
    pub declares_functions: bool,
}

/// Format of a response's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResponseFormat {
    /// Text without a prescribed format.
    #[default]
    Text,
    /// JSON, since the request has a response schema or a JSON media type.
    Json,
}

/// Returns the stable form of a request.
///
/// # Errors
///
/// Fails if a field that hooks see has the wrong type or is ambiguous.
pub fn read_stable_form(call: &Call, document: &Document, detail: Detail) -> Result<LlmRequest> {
    check_model(call, document)?;
    let inner = inner_request(call, document)?;
    let tool_config = inner.get(TOOL_CONFIG)?;
    let contents = read_contents(call, &inner)?;
    Ok(LlmRequest {
        model: call.model_name().to_owned(),
        messages: contents.messages(),
        has_more_than_text: contents.has_more_than_text(),
        message_parts: match detail {
            Detail::Texts => Vec::new(),
            Detail::Whole => contents.whole(),
        },
        config: read_parameters(&inner)?,
        tool_config: tool_config.as_ref().and_then(ToolConfig::read),
        system: read_system_instruction(&inner)?,
    })
}

/// Returns the name of the cached content that a request builds upon; empty names count as
/// absent.
///
/// # Errors
///
/// Fails if the request names two.
pub fn cached_content(document: &Document) -> Result<Option<String>> {
    let inner = document.child(WRAPPED_REQUEST)?;
    let mut names = Vec::new();
    for document in inner.iter().chain([document]) {
        let name = document.string(CACHED_CONTENT)?;
        names.extend(name.filter(|name| !name.is_empty()));
    }
    match names.as_slice() {
        [] | [_] => Ok(names.pop()),
        [..] => Err(DialectError::Ambiguous("cachedContent".to_owned())),
    }
}

/// Returns the new texts of the user: those after the model's last content, without
/// gemini-cli's introduction. For embeddings, all texts. Empty if only tools answered.
pub fn new_prompt(call: &Call, document: &Document) -> Result<Vec<String>> {
    if let Some(requests) = embeddings(call, document)? {
        let texts = requests.iter().map(embedded_texts);
        let texts: Vec<_> = texts.collect::<Result<_, _>>()?;
        return Ok(texts.concat());
    }
    let inner = inner_request(call, document)?;
    read_contents(call, &inner)?.new_prompt()
}

fn embedded_texts(document: &Document) -> Result<Vec<String>> {
    let content = document.child(CONTENT)?.map(Content::read).transpose()?;
    let parts = content.into_iter().flat_map(|content| content.parts);
    let config = document.child(EMBEDDING_CONFIG)?.unwrap_or_default();
    let titles = [document.string(TITLE)?, config.string(TITLE)?];
    let texts = parts.filter_map(|part| part.text);
    Ok(titles.into_iter().flatten().chain(texts).collect())
}

/// Returns facts about a request for conditions.
pub fn summarize_request(call: &Call, document: &Document) -> Result<RequestSummary> {
    let inner = inner_request(call, document)?;
    Ok(RequestSummary {
        contents: contents(call, &inner)?.len(),
        functions: declared_functions(&inner)?,
        max_output_tokens: read_integer(&read_parameters(&inner)?, "maxOutputTokens")?,
    })
}

/// Returns the parts of a request that model APIs cache as a prefix.
///
/// # Errors
///
/// Fails if a field is ambiguous.
pub fn prompt_parts(document: &Document) -> Result<PromptPrefix> {
    let bytes = |field| document.bytes_of(field).map(Option::unwrap_or_default);
    Ok(PromptPrefix {
        system_instruction: bytes(SYSTEM_INSTRUCTION)?,
        tools: bytes(TOOLS)?,
        contents: bytes(CONTENTS)?,
    })
}

/// Returns the kind of response that a request expects.
pub fn expected_response(document: &Document) -> Result<ResponseExpectation> {
    let format = match document.child(GENERATION_CONFIG)? {
        Some(config) if wants_json(&config)? => ResponseFormat::Json,
        _ => ResponseFormat::Text,
    };
    let selection = document.get(TOOL_CONFIG)?;
    let selection = selection.as_ref().and_then(ToolConfig::read);
    Ok(ResponseExpectation {
        format,
        forces_call: selection.is_some_and(|config| config.mode == Some(FunctionCallingMode::Any)),
        // Cached content may declare functions.
        declares_functions: declares_functions(document)? || document.has(CACHED_CONTENT),
    })
}

fn wants_json(config: &Document) -> Result<bool> {
    let media_type = config.string(&["responseMimeType", "response_mime_type"])?;
    let schema = config.get(&["responseSchema", "response_schema"])?;
    let json_schema = config.get(&["responseJsonSchema", "response_json_schema"])?;
    let mut schemas = [schema, json_schema].into_iter().flatten();
    let has_schema = schemas.any(|schema| !schema.is_null());
    Ok(media_type.as_deref() == Some("application/json") || has_schema)
}

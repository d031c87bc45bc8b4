//! A request in the shape that all dialects here carry: its stable form, and
//! what else is looked for in it (hook protocol, section 6). Pure.

use serde_json::{Map, Value};

use super::{
    AnswerFormat, Call, DialectError, Document, Functions, Operation, Outline, ResponseExpectation,
    contents::{Content, Contents},
    request_patch, system_instruction, tools,
};
use crate::model::{LlmRequest, RequestMutation, ToolConfig};

pub(super) const CONTENTS: &[&str] = &["contents"];
pub(super) const CONTENT: &[&str] = &["content"];
pub(super) const REQUESTS: &[&str] = &["requests"];
pub(super) const WRAPPED: &[&str] = &["generateContentRequest", "generate_content_request"];
pub(super) const GENERATION: &[&str] = &["generationConfig", "generation_config"];
pub(super) const TOOL_CONFIG: &[&str] = &["toolConfig", "tool_config"];
pub(super) const CACHED: &[&str] = &["cachedContent", "cached_content"];
pub(super) const MODEL: &[&str] = &["model"];

/// A parameter's two spellings and what it must be.
type Parameter = (&'static str, &'static str, fn(&Value) -> bool);

/// The generation parameters that are read for hooks.
const SHOWN: usize = 5;

/// The generation parameters that a hook may set; the first [`SHOWN`] are read.
pub(super) const PARAMETERS: &[Parameter] = &[
    ("temperature", "temperature", Value::is_number),
    ("maxOutputTokens", "max_output_tokens", Value::is_number),
    ("topP", "top_p", Value::is_number),
    ("topK", "top_k", Value::is_number),
    ("stopSequences", "stop_sequences", is_texts),
    ("candidateCount", "candidate_count", Value::is_number),
    ("presencePenalty", "presence_penalty", Value::is_number),
    ("frequencyPenalty", "frequency_penalty", Value::is_number),
];

/// What hooks are shown of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Their texts.
    Texts,
    /// All that they carry, too.
    Whole,
}

/// The stable form of a request.
pub(super) fn read(
    call: &Call,
    document: &Document,
    detail: Detail,
) -> Result<LlmRequest, DialectError> {
    check_model(call, document)?;
    let inner = unwrapped(call, document)?;
    let inner = inner.as_ref().unwrap_or(document);
    let tools = inner.get(TOOL_CONFIG)?;
    let contents = contents(call, inner)?;
    Ok(LlmRequest {
        model: call.model_name().to_owned(),
        messages: contents.messages(),
        message_parts: match detail {
            Detail::Texts => Vec::new(),
            Detail::Whole => contents.whole(),
        },
        config: parameters(inner)?,
        tool_config: tools.as_ref().and_then(ToolConfig::read),
        system: system_instruction::read(inner)?,
    })
}

/// What kind of answer a request wants.
pub(super) fn wish(document: &Document) -> Result<ResponseExpectation, DialectError> {
    let format = match document.child(GENERATION)? {
        Some(config) if wants_json(&config)? => AnswerFormat::Json,
        _ => AnswerFormat::Text,
    };
    // What is cached may declare them.
    let functions = if tools::declares_any(document)? || document.has(CACHED) {
        Functions::Declared
    } else {
        Functions::Absent
    };
    Ok(ResponseExpectation { format, functions })
}

fn wants_json(config: &Document) -> Result<bool, DialectError> {
    let mime = config.string(&["responseMimeType", "response_mime_type"])?;
    let schema = config.get(&["responseSchema", "response_schema"])?;
    let json_schema = config.get(&["responseJsonSchema", "response_json_schema"])?;
    let given = |it: Option<Value>| it.is_some_and(|it| !it.is_null());
    Ok(mime.as_deref() == Some("application/json") || given(schema) || given(json_schema))
}

/// The content kept by the API that a request builds upon. An empty name is none.
pub(super) fn cached_content(document: &Document) -> Result<Option<String>, DialectError> {
    let inner = document.child(WRAPPED)?;
    let mut names = Vec::new();
    for document in inner.iter().chain([document]) {
        let name = document.string(CACHED)?;
        names.extend(name.filter(|it| !it.is_empty()));
    }
    match names.as_slice() {
        [] | [_] => Ok(names.pop()),
        [..] => Err(DialectError::Ambiguous("cachedContent".to_owned())),
    }
}

/// A document that holds the stable form and nothing else.
pub(super) fn made(call: &Call, llm_request: &LlmRequest) -> Result<Document, DialectError> {
    let mut fields = Map::new();
    if let Ok(Value::Object(all)) = serde_json::to_value(llm_request) {
        fields.extend(all);
    }
    // The names of a selection mean nothing without declarations.
    fields.shift_remove("toolConfig");
    if let Some(system) = &llm_request.system {
        fields.insert("systemInstruction".to_owned(), system.as_str().into());
    }
    let mutation = RequestMutation {
        fields,
        appended_text: None,
    };
    Ok(request_patch::write(call, Document::empty()?, &mutation)?.document)
}

/// What the user says anew, text by text: what comes after the model's last
/// word, without what gemini-cli tells of itself. Of an embedding, all of it.
pub(super) fn prompt(call: &Call, document: &Document) -> Result<Vec<String>, DialectError> {
    match call.operation {
        Operation::Embed => embedded(document),
        Operation::BatchEmbed => {
            let requests = document.children(REQUESTS)?.unwrap_or_default();
            let texts: Result<Vec<_>, _> = requests.iter().map(embedded).collect();
            Ok(texts?.concat())
        }
        Operation::Generate
        | Operation::Stream(_)
        | Operation::CountTokens
        | Operation::CreateCache
        | Operation::UseCache
        | Operation::Other => {
            let inner = unwrapped(call, document)?;
            let contents = contents(call, inner.as_ref().unwrap_or(document))?;
            Ok(contents.prompt())
        }
    }
}

fn embedded(document: &Document) -> Result<Vec<String>, DialectError> {
    let content = document.child(CONTENT)?.map(Content::read).transpose()?;
    let parts = content.iter().flat_map(|it| &it.parts);
    let title = document.string(&["title"])?;
    let texts = parts.filter_map(|it| it.text.clone());
    Ok(title.into_iter().chain(texts).collect())
}

/// The generation parameters that hooks are shown.
pub(super) fn generation(
    call: &Call,
    document: &Document,
) -> Result<Map<String, Value>, DialectError> {
    let inner = unwrapped(call, document)?;
    parameters(inner.as_ref().unwrap_or(document))
}

/// What can be said of a request in a few words.
pub(super) fn outline(call: &Call, document: &Document) -> Result<Outline, DialectError> {
    let inner = unwrapped(call, document)?;
    let document = inner.as_ref().unwrap_or(document);
    let contents = match call.operation {
        Operation::Embed => document.child(CONTENT)?.map_or(0, |_| 1),
        Operation::BatchEmbed => document.list(REQUESTS)?.map_or(0, |it| it.len()),
        Operation::Generate
        | Operation::Stream(_)
        | Operation::CountTokens
        | Operation::CreateCache
        | Operation::UseCache
        | Operation::Other => document.list(CONTENTS)?.map_or(0, |it| it.len()),
    };
    let parameters = parameters(document)?;
    Ok(Outline {
        contents,
        functions: tools::declared(document)?,
        max_output_tokens: whole_number(&parameters, "maxOutputTokens")?,
    })
}

/// A whole number in any spelling in which the model API takes one: `5`, `5.0`,
/// `5e0` and `"5"`; `null` is none, anything else an error.
fn whole_number(fields: &Map<String, Value>, name: &str) -> Result<Option<i64>, DialectError> {
    let text = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let decimal = || text.parse().ok().filter(|it: &f64| it.fract() == 0.0);
    let number = text.parse().ok();
    let number = number.or_else(|| format!("{:.0}", decimal()?).parse().ok());
    number.map(Some).ok_or_else(|| DialectError::Field {
        field: name.to_owned(),
        expected: "a whole number",
    })
}

/// Takes tools out of the request.
pub(super) fn withhold_tools(
    call: &Call,
    document: &mut Document,
    keeps: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, DialectError> {
    let Some(mut inner) = unwrapped(call, document)? else {
        return tools::withhold(document, keeps);
    };
    let withheld = tools::withhold(&mut inner, keeps)?;
    if !withheld.is_empty() {
        document.set_child(WRAPPED, &inner)?;
    }
    Ok(withheld)
}

/// A body that names a model must name that of the path.
pub(super) fn check_model(call: &Call, document: &Document) -> Result<(), DialectError> {
    let check = |it: &Document| match it.string(MODEL)? {
        Some(name) if call.named(&name) != call.model => Err(DialectError::OtherModel),
        Some(_) | None => Ok(()),
    };
    check(document)?;
    let requests = document.children(REQUESTS)?.unwrap_or_default();
    let inner = document.child(WRAPPED)?;
    inner.iter().chain(&requests).try_for_each(check)
}

/// Visits every part of a request that may name the model.
pub(super) fn each_named(
    document: &mut Document,
    visit: &mut impl FnMut(&mut Document) -> Result<(), DialectError>,
) -> Result<(), DialectError> {
    visit(document)?;
    if let Some(mut inner) = document.child(WRAPPED)? {
        visit(&mut inner)?;
        if inner.is_edited() {
            document.set_child(WRAPPED, &inner)?;
        }
    }
    let mut requests = document.children(REQUESTS)?.unwrap_or_default();
    for request in &mut requests {
        visit(request)?;
    }
    if requests.iter().any(Document::is_edited) {
        document.set_children(REQUESTS, &requests)?;
    }
    Ok(())
}

/// `countTokens` may wrap a whole request; then that is all there is to count.
pub(super) fn unwrapped(
    call: &Call,
    document: &Document,
) -> Result<Option<Document>, DialectError> {
    if call.operation != Operation::CountTokens {
        return Ok(None);
    }
    let inner = document.child(WRAPPED)?;
    if inner.is_some() && document.list(CONTENTS)?.is_some() {
        return Err(DialectError::Ambiguous("contents".to_owned()));
    }
    Ok(inner)
}

pub(super) fn contents(call: &Call, document: &Document) -> Result<Contents, DialectError> {
    let list = match call.operation {
        Operation::Embed => document.child(CONTENT)?.into_iter().collect(),
        Operation::BatchEmbed => {
            let requests = document.children(REQUESTS)?.unwrap_or_default();
            let contents: Result<Vec<_>, _> = requests.iter().map(|it| it.child(CONTENT)).collect();
            contents?.into_iter().flatten().collect()
        }
        Operation::Generate
        | Operation::Stream(_)
        | Operation::CountTokens
        | Operation::CreateCache
        | Operation::UseCache
        | Operation::Other => document.children(CONTENTS)?.unwrap_or_default(),
    };
    Contents::read(list)
}

fn parameters(document: &Document) -> Result<Map<String, Value>, DialectError> {
    let mut shown = Map::new();
    if let Some(config) = document.child(GENERATION)? {
        for (camel, snake, _) in PARAMETERS.iter().take(SHOWN) {
            if let Some(value) = config.get(&[camel, snake])? {
                shown.insert((*camel).to_owned(), value);
            }
        }
    }
    Ok(shown)
}

fn is_texts(value: &Value) -> bool {
    let list = value.as_array();
    list.is_some_and(|it| it.iter().all(Value::is_string))
}

//! A request in the shape that all dialects here carry: its stable form, and
//! what hooks changed of it (hook protocol, section 6). Pure.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    AnswerFormat, Call, DialectError, Document, Functions, Operation, Wish,
    contents::Contents,
    instruction,
    selection::{self, Selected},
    tools,
};
use crate::{
    event::{Diagnostic, DiagnosticCode},
    model::{LlmRequest, Message, ModelName, RequestMutation, Role, ToolConfig},
};

pub(super) const CONTENTS: &[&str] = &["contents"];
const CONTENT: &[&str] = &["content"];
const REQUESTS: &[&str] = &["requests"];
const WRAPPED: &[&str] = &["generateContentRequest", "generate_content_request"];
pub(super) const GENERATION: &[&str] = &["generationConfig", "generation_config"];
pub(super) const TOOL_CONFIG: &[&str] = &["toolConfig", "tool_config"];
const MODEL: &[&str] = &["model"];

/// A parameter's two spellings and what it must be.
type Parameter = (&'static str, &'static str, fn(&Value) -> bool);

/// The generation parameters that are read for hooks.
const SHOWN: usize = 5;

/// The generation parameters that a hook may set; the first [`SHOWN`] are read.
const PARAMETERS: &[Parameter] = &[
    ("temperature", "temperature", Value::is_number),
    ("maxOutputTokens", "max_output_tokens", Value::is_number),
    ("topP", "top_p", Value::is_number),
    ("topK", "top_k", Value::is_number),
    ("stopSequences", "stop_sequences", is_texts),
    ("candidateCount", "candidate_count", Value::is_number),
    ("presencePenalty", "presence_penalty", Value::is_number),
    ("frequencyPenalty", "frequency_penalty", Value::is_number),
];

/// Every key of `llm_request` that means something.
const KNOWN: &[&str] = &[
    "model",
    "messages",
    "config",
    "generationConfig",
    "toolConfig",
    "systemInstruction",
];

/// A request after hooks had their say.
#[derive(Debug)]
pub struct Edited {
    /// The model to call instead, if another.
    pub model: Option<ModelName>,
    /// The document to send.
    pub document: Document,
    /// How tools were selected, if a hook did.
    pub selected: Selected,
    /// What could not be applied, and why.
    pub diagnostics: Vec<Diagnostic>,
}

/// The stable form of a request.
pub(super) fn read(call: &Call, document: &Document) -> Result<LlmRequest, DialectError> {
    check_model(call, document)?;
    let inner = unwrapped(call, document)?;
    let inner = inner.as_ref().unwrap_or(document);
    let tools = inner.get(TOOL_CONFIG)?;
    let contents = contents(call, inner)?;
    Ok(LlmRequest {
        model: call.model_name().to_owned(),
        messages: contents.messages(),
        whole: contents.whole(),
        config: parameters(inner)?,
        tool_config: tools.as_ref().and_then(ToolConfig::read),
        system: instruction::read(inner)?,
    })
}

/// What kind of answer a request wants.
pub(super) fn wish(document: &Document) -> Result<Wish, DialectError> {
    let format = match document.child(GENERATION)? {
        Some(config) if wants_json(&config)? => AnswerFormat::Json,
        _ => AnswerFormat::Text,
    };
    let functions = match tools::declared(document)?.as_slice() {
        [] => Functions::Absent,
        _ => Functions::Declared,
    };
    Ok(Wish { format, functions })
}

fn wants_json(config: &Document) -> Result<bool, DialectError> {
    let mime = config.string(&["responseMimeType", "response_mime_type"])?;
    let schema = config.get(&["responseSchema", "response_schema"])?;
    let json_schema = config.get(&["responseJsonSchema", "response_json_schema"])?;
    let given = |it: Option<Value>| it.is_some_and(|it| !it.is_null());
    Ok(mime.as_deref() == Some("application/json") || given(schema) || given(json_schema))
}

/// Writes what hooks changed. What cannot be applied is left out and said.
pub(super) fn write(
    call: &Call,
    document: Document,
    mutation: &RequestMutation,
) -> Result<Edited, DialectError> {
    let mut edit = Edit {
        call,
        diagnostics: unknown_keys(&mutation.fields),
    };
    let mut document = document;
    let selected = match unwrapped(call, &document)? {
        None => edit.body(&mut document, mutation)?,
        Some(mut inner) => {
            let selected = edit.body(&mut inner, mutation)?;
            document.set_child(WRAPPED, &inner)?;
            selected
        }
    };
    let model = edit.model(&mut document, mutation)?;
    Ok(Edited {
        model,
        document,
        selected,
        diagnostics: edit.diagnostics,
    })
}

/// What the user says anew: the text after the model's last word, without what
/// gemini-cli tells of itself. Of an embedding, all of it.
pub(super) fn prompt(call: &Call, document: &Document) -> Result<String, DialectError> {
    let inner = unwrapped(call, document)?;
    let contents = contents(call, inner.as_ref().unwrap_or(document))?;
    Ok(contents.prompt())
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

#[derive(Debug)]
struct Edit<'a> {
    call: &'a Call,
    diagnostics: Vec<Diagnostic>,
}

impl Edit<'_> {
    fn body(
        &mut self,
        document: &mut Document,
        mutation: &RequestMutation,
    ) -> Result<Selected, DialectError> {
        if let Some(messages) = mutation.messages() {
            self.messages(document, messages)?;
        } else if mutation.fields.contains_key("messages") {
            self.drop("messages", "the list is empty or has the wrong type");
        }
        if let Some(text) = mutation.system() {
            instruction::replace(document, &text)?;
        }
        if let Some(text) = &mutation.remark {
            self.remark(document, text)?;
        }
        self.parameters(document, mutation)?;
        match mutation.tool_config() {
            Some(selection) => selection::write(document, &selection),
            None => Ok(Selected::Untouched),
        }
    }

    fn messages(
        &mut self,
        document: &mut Document,
        messages: Vec<Message>,
    ) -> Result<(), DialectError> {
        let (system, talk): (Vec<Message>, Vec<Message>) =
            messages.into_iter().partition(|it| it.role == Role::System);
        if !system.is_empty() {
            instruction::extend(document, &system)?;
        }
        let mut contents = contents(self.call, document)?;
        if contents.messages() == talk {
            return Ok(());
        }
        if talk.is_empty() || !contents.write(&talk)? {
            // Messages of the system alone leave the conversation as it is.
            if system.is_empty() {
                self.drop("messages", "no content would be left");
            }
            return Ok(());
        }
        self.put(document, &contents)
    }

    /// What is embedded is no conversation.
    fn remark(&mut self, document: &mut Document, text: &str) -> Result<(), DialectError> {
        if matches!(
            self.call.operation,
            Operation::Embed | Operation::BatchEmbed
        ) {
            self.drop("systemMessage", "an embedding is no conversation");
            return Ok(());
        }
        let mut contents = contents(self.call, document)?;
        contents.remark(text)?;
        self.put(document, &contents)
    }

    fn put(&mut self, document: &mut Document, contents: &Contents) -> Result<(), DialectError> {
        match self.call.operation {
            Operation::Embed => self.put_one(document, &contents.texts()),
            Operation::BatchEmbed => self.put_batch(document, &contents.texts()),
            Operation::Generate
            | Operation::Stream(_)
            | Operation::CountTokens
            | Operation::ListModels
            | Operation::GetModel => document.set_bytes(CONTENTS, contents.to_array()),
        }
    }

    fn put_one(&mut self, document: &mut Document, texts: &[Bytes]) -> Result<(), DialectError> {
        if let [one] = texts {
            return document.set_bytes(CONTENT, one.clone());
        }
        self.drop("messages", "an embedding has exactly one content");
        Ok(())
    }

    fn put_batch(&mut self, document: &mut Document, texts: &[Bytes]) -> Result<(), DialectError> {
        let mut requests = document.children(REQUESTS)?.unwrap_or_default();
        if requests.len() != texts.len() {
            self.drop("messages", "each embedding has exactly one content");
            return Ok(());
        }
        for (request, text) in requests.iter_mut().zip(texts) {
            request.set_bytes(CONTENT, text.clone())?;
        }
        document.set_children(REQUESTS, &requests)
    }

    fn parameters(
        &mut self,
        document: &mut Document,
        mutation: &RequestMutation,
    ) -> Result<(), DialectError> {
        let mut given = mutation.config().peekable();
        if given.peek().is_none() {
            return Ok(());
        }
        let config = document.child(GENERATION)?;
        let mut config = config.map_or_else(Document::empty, Ok)?;
        for (key, value) in given {
            match PARAMETERS.iter().find(|it| it.0 == key) {
                None => self.diagnostics.push(DiagnosticCode::UnknownKey.with(key)),
                Some((camel, snake, _)) if value.is_null() => config.remove(&[camel, snake])?,
                Some((camel, snake, fits)) if fits(value) => config.set(&[camel, snake], value)?,
                Some(_) => self.drop(key, "wrong type"),
            }
        }
        document.set_child(GENERATION, &config)
    }

    fn model(
        &mut self,
        document: &mut Document,
        mutation: &RequestMutation,
    ) -> Result<Option<ModelName>, DialectError> {
        let Some(model) = mutation.model() else {
            if mutation.fields.contains_key("model") {
                self.drop("model", "not a model name");
            }
            return Ok(None);
        };
        if self.call.model.as_ref() == Some(&model) {
            return Ok(None);
        }
        each_named(document, &mut |it| rename(it, &model))?;
        Ok(Some(model))
    }

    fn drop(&mut self, key: &str, why: &str) {
        let dropped = DiagnosticCode::EditDropped.with(format!("{key}: {why}"));
        self.diagnostics.push(dropped);
    }
}

/// A body that names a model must name that of the path.
fn check_model(call: &Call, document: &Document) -> Result<(), DialectError> {
    each_named(&mut document.clone(), &mut |it| match it.string(MODEL)? {
        Some(name) if ModelName::parse(&name) != call.model => {
            Err(DialectError::Ambiguous("model".to_owned()))
        }
        Some(_) | None => Ok(()),
    })
}

fn rename(document: &mut Document, model: &ModelName) -> Result<(), DialectError> {
    let Some(old) = document.string(MODEL)? else {
        return Ok(());
    };
    let prefix = if old.starts_with("models/") {
        "models/"
    } else {
        ""
    };
    document.set(MODEL, &json!(format!("{prefix}{model}")))
}

/// Visits every part of a request that may name the model.
fn each_named(
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

/// `countTokens` may wrap a whole request.
fn unwrapped(call: &Call, document: &Document) -> Result<Option<Document>, DialectError> {
    if call.operation != Operation::CountTokens {
        return Ok(None);
    }
    document.child(WRAPPED)
}

fn contents(call: &Call, document: &Document) -> Result<Contents, DialectError> {
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
        | Operation::ListModels
        | Operation::GetModel => document.children(CONTENTS)?.unwrap_or_default(),
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

fn unknown_keys(fields: &Map<String, Value>) -> Vec<Diagnostic> {
    let unknown = fields.keys().filter(|it| !KNOWN.contains(&it.as_str()));
    unknown
        .map(|it| DiagnosticCode::UnknownKey.with(it))
        .collect()
}

fn is_texts(value: &Value) -> bool {
    let list = value.as_array();
    list.is_some_and(|it| it.iter().all(Value::is_string))
}

//! What hooks changed, written into a request (hook protocol, section 6). Pure.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    Call, DialectError, Document, Operation,
    contents::Contents,
    request::{
        CONTENT, CONTENTS, GENERATION, MODEL, PARAMETERS, REQUESTS, WRAPPED, contents, each_named,
        unwrapped,
    },
    system_instruction,
    tool_selection::{self, Selected},
};
use crate::{
    event::{Diagnostic, DiagnosticCode},
    model::{Message, ModelName, RequestMutation, Role},
};

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
            system_instruction::replace(document, &text)?;
        }
        if let Some(text) = &mutation.appended_text {
            self.remark(document, text)?;
        }
        self.parameters(document, mutation)?;
        match mutation.tool_config() {
            Some(selection) => tool_selection::write(document, &selection),
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
            system_instruction::extend(document, &system)?;
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
            | Operation::CreateCache
            | Operation::UseCache
            | Operation::Other => document.set_bytes(CONTENTS, contents.to_array()),
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

/// Names another model, in the words of the old name.
pub(super) fn rename(document: &mut Document, model: &ModelName) -> Result<(), DialectError> {
    let Some(old) = document.string(MODEL)? else {
        return Ok(());
    };
    let name = match old.rsplit_once('/') {
        Some((place, _)) => format!("{place}/{model}"),
        None => model.to_string(),
    };
    document.set(MODEL, &json!(name))
}

fn unknown_keys(fields: &Map<String, Value>) -> Vec<Diagnostic> {
    let unknown = fields.keys().filter(|it| !KNOWN.contains(&it.as_str()));
    unknown
        .map(|it| DiagnosticCode::UnknownKey.with(it))
        .collect()
}

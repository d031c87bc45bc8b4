//! Edits of hooks, applied to a request (hook protocol, section 6).

use serde_json::{Map, Value};

use crate::{
    dialect::{
        call::Call,
        document::{Document, edit_repeated, write_array},
        error::Result,
        google::{
            contents::Contents,
            fields::{CONTENT, CONTENTS, GENERATION_CONFIG, REQUESTS, WRAPPED_REQUEST},
            request::{
                body::{counted_request, read_contents},
                model::rename_all,
                parameters::spellings,
                system_instruction::{extend_system_instruction, replace_system_instruction},
                tool_selection::{AllowedFunctions, write_tool_selection},
            },
        },
        method::{Api, Operation},
    },
    model::{
        IgnoredEdit, LlmRequest, Message, ModelName, RequestMutation, Role, is_valid_parameter,
    },
};

/// Keys of `llm_request` that hooks may edit.
const KNOWN_KEYS: &[&str] = &[
    "model",
    "messages",
    "config",
    "generationConfig",
    "toolConfig",
    "systemInstruction",
];

/// Reason to drop an edit of a field that only other methods have.
const NO_SUCH_FIELD: &str = "the method has no field for it";
/// Reason to drop an edit that removes the whole conversation.
const NO_CONTENT: &str = "no content would be left";

/// A request with the edits of hooks.
#[derive(Debug)]
pub struct PatchedRequest {
    /// Model to call instead.
    pub model: Option<ModelName>,
    /// Document to send upstream.
    pub document: Document,
    /// Functions that the response may call; `None` if the edit selects none.
    pub allowed: Option<AllowedFunctions>,
    /// Edits that could not be applied.
    pub ignored: Vec<IgnoredEdit>,
}

/// Applies the edits of hooks to a request, in which earlier hooks allowed some functions. Edits
/// that cannot be applied are in [`PatchedRequest::ignored`].
///
/// # Errors
///
/// Fails if the request itself cannot be read.
pub fn write_request(
    call: &Call,
    document: Document,
    mutation: &RequestMutation,
    allowed: &AllowedFunctions,
) -> Result<PatchedRequest> {
    let counted = counted_request(call, &document)?;
    let mut patch = Patch {
        call,
        mutation,
        allowed,
        is_whole_counted: counted.is_some(),
        ignored: ignored_fields(mutation),
    };
    let mut document = document;
    let allowed = match counted {
        None => patch.body(&mut document)?,
        Some(mut inner) => {
            let allowed = patch.body(&mut inner)?;
            document.set_child(WRAPPED_REQUEST, &inner)?;
            allowed
        }
    };
    Ok(PatchedRequest {
        model: patch.model(&mut document)?,
        document,
        allowed,
        ignored: patch.ignored,
    })
}

/// Builds a call and a document from the stable form, for agents that report no more.
pub fn build_request(llm_request: &LlmRequest) -> Result<(Call, Document)> {
    let call = Call::reported(ModelName::parse(&llm_request.model));
    let mut fields = Map::new();
    if let Ok(Value::Object(all)) = serde_json::to_value(llm_request) {
        fields.extend(all);
    }
    // A selection has no effect without declarations.
    fields.shift_remove("toolConfig");
    if let Some(system) = &llm_request.system {
        fields.insert("systemInstruction".to_owned(), system.as_str().into());
    }
    let mutation = RequestMutation {
        fields,
        ..RequestMutation::default()
    };
    let allowed = AllowedFunctions::default();
    let patched = write_request(&call, Document::empty(), &mutation, &allowed)?;
    Ok((call, patched.document))
}

#[derive(Debug)]
struct Patch<'a> {
    call: &'a Call,
    mutation: &'a RequestMutation,
    /// Functions that earlier hooks allowed.
    allowed: &'a AllowedFunctions,
    /// True if the tokens of a whole request are counted.
    is_whole_counted: bool,
    ignored: Vec<IgnoredEdit>,
}

impl Patch<'_> {
    fn body(&mut self, document: &mut Document) -> Result<Option<AllowedFunctions>> {
        let mutation = self.mutation;
        // Replaces the instruction of the agent, not what other hooks append to it.
        if let Some(text) = mutation.system() {
            if self.takes_system_instruction() {
                replace_system_instruction(document, &text)?;
            } else {
                self.drop("systemInstruction", NO_SUCH_FIELD);
            }
        }
        if let Some(messages) = mutation.messages() {
            if mutation.unreadable_messages().next().is_some() {
                self.drop(
                    "messages",
                    "a message without a known role or a text is ignored",
                );
            }
            if !mutation.earlier_messages.is_empty() {
                self.messages(document, mutation.earlier_messages.clone())?;
            }
            self.messages(document, messages)?;
        } else if mutation.fields.contains_key("messages") {
            self.drop("messages", "the list is empty or has the wrong type");
        }
        if let Some(text) = &mutation.appended_text {
            self.system_message(document, text)?;
        }
        self.parameters(document)?;
        match mutation.tool_config() {
            Some(selection) => write_tool_selection(document, &selection, self.allowed).map(Some),
            None => Ok(None),
        }
    }

    fn messages(&mut self, document: &mut Document, messages: Vec<Message>) -> Result<()> {
        let is_system = |message: &Message| message.role == Role::System;
        let (system, messages): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_system);
        if !system.is_empty() && self.takes_system_instruction() {
            extend_system_instruction(document, &system)?;
        } else if !system.is_empty() {
            self.drop("messages", NO_SUCH_FIELD);
        }
        let mut contents = read_contents(self.call, document)?;
        // System messages alone leave the conversation as it is.
        if messages.is_empty() || contents.messages() == messages {
            return Ok(());
        }
        if self.call.operation.embeds() {
            return self.embedded_messages(document, contents, &messages);
        }
        if !contents.write(&messages)? {
            self.drop("messages", NO_CONTENT);
            return Ok(());
        }
        document.set_bytes(CONTENTS, write_array(contents.elements()))
    }

    fn embedded_messages(
        &mut self,
        document: &mut Document,
        mut contents: Contents,
        messages: &[Message],
    ) -> Result<()> {
        let is_emptied = messages.iter().all(|message| message.content.is_empty());
        if is_emptied && !contents.has_more_than_text() {
            self.drop("messages", NO_CONTENT);
            return Ok(());
        }
        if !contents.write_in_place(messages)? {
            self.drop("messages", "an edit cannot add a text to embed");
        }
        let mut elements = contents.elements().into_iter();
        let mut set_content = |request: &mut Document| match request.child(CONTENT)? {
            Some(_) => elements
                .next()
                .map_or(Ok(()), |content| request.set_bytes(CONTENT, content)),
            None => Ok(()),
        };
        if self.call.operation == Operation::BatchEmbed {
            return edit_repeated(document, REQUESTS, set_content);
        }
        set_content(document)
    }

    fn system_message(&mut self, document: &mut Document, text: &str) -> Result<()> {
        if self.call.operation.embeds() {
            self.drop("systemMessage", "an embedding is no conversation");
            return Ok(());
        }
        let mut contents = read_contents(self.call, document)?;
        contents.append_text(text)?;
        document.set_bytes(CONTENTS, write_array(contents.elements()))
    }

    fn parameters(&mut self, document: &mut Document) -> Result<()> {
        let mut edits = self.mutation.config().peekable();
        if edits.peek().is_none() {
            return Ok(());
        }
        if !self.takes_parameters() {
            self.drop("config", NO_SUCH_FIELD);
            return Ok(());
        }
        let mut config = document.child(GENERATION_CONFIG)?.unwrap_or_default();
        for (name, value) in edits {
            match spellings(name) {
                None => self.ignored.push(IgnoredEdit::UnknownKey(name.to_owned())),
                Some(known) if value.is_null() => config.remove(&known)?,
                Some(known) if is_valid_parameter(name, value) => config.set(&known, value)?,
                Some(_) => self.drop(name, "wrong type"),
            }
        }
        if config.is_edited() {
            document.set_child(GENERATION_CONFIG, &config)?;
        }
        Ok(())
    }

    fn model(&mut self, document: &mut Document) -> Result<Option<ModelName>> {
        let model = self.mutation.model();
        let Some(model) = model.filter(|model| self.call.accepts_model(model)) else {
            if self.mutation.fields.contains_key("model") {
                self.drop("model", "not a model name");
            }
            return Ok(None);
        };
        if self.call.model.as_ref() == Some(&model) {
            return Ok(None);
        }
        rename_all(document, &model)?;
        Ok(Some(model))
    }

    fn takes_system_instruction(&self) -> bool {
        let is_absent = matches!(self.call.method.api, Api::Gemini | Api::CodeAssist);
        !(self.call.operation.embeds() || self.counts_contents() && is_absent)
    }

    fn takes_parameters(&self) -> bool {
        let operation = self.call.operation;
        let is_absent = operation.embeds() || operation == Operation::CreateCache;
        !(is_absent || self.counts_contents() && self.call.method.api != Api::Vertex)
    }

    /// Returns whether the tokens of contents are counted that are in no request of their own.
    fn counts_contents(&self) -> bool {
        self.call.operation == Operation::CountTokens && !self.is_whole_counted
    }

    fn drop(&mut self, key: &str, reason: &str) {
        let reason = format!("{key}: {reason}");
        self.ignored.push(IgnoredEdit::Inapplicable(reason));
    }
}

/// Returns the keys that hooks may not edit, and the fields whose value cannot be used.
fn ignored_fields(mutation: &RequestMutation) -> Vec<IgnoredEdit> {
    let keys = mutation.fields.keys();
    let unknown = keys.filter(|key| !KNOWN_KEYS.contains(&key.as_str()));
    let unknown = unknown.cloned().map(IgnoredEdit::UnknownKey);
    let unusable = mutation.unusable_fields().into_iter();
    let unusable = unusable.map(|field| format!("{field}: unusable value"));
    unknown
        .chain(unusable.map(IgnoredEdit::Inapplicable))
        .collect()
}

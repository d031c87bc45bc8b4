//! A body, read into the content form.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    dialect::{
        anthropic::{
            fields::{
                CONTENTS, FALLBACKS, GENERATION_CONFIG, LABELS, MODEL, PARTS, SYSTEM_INSTRUCTION,
                TOOL_CONFIG, with_source,
            },
            request::{
                block_part::read_block,
                declared_tools::{DeclaredTool, TOOLS, read_tools},
                input_messages::{CalledTools, InputMessage, MESSAGES, read_messages},
                parameters::read_parameters,
                request_labels::REQUEST_LABELS,
                stored_content::refuse_stored,
                system_prompt::{SYSTEM, SystemPrompts},
                tool_choice::ToolChoice,
            },
        },
        call::Call,
        content_form::{FALLBACK_MODELS, SOURCE, add_labels, compatible_models},
        document::{Document, check_length, write_array},
        error::{Result, field_error},
    },
    model::ModelName,
};

/// Fields of a fallback. With others, compatible servers replace the prompt or the tools.
const FALLBACK_FIELDS: &[&str] = &["max_tokens", "model", "output_config", "speed", "thinking"];

/// A body with everything that is read from it.
#[derive(Debug)]
pub struct ReadBody {
    pub messages: Vec<InputMessage>,
    pub calls: CalledTools,
    pub system: SystemPrompts,
    pub tools: Vec<DeclaredTool>,
    /// The content form of the body.
    pub form: Document,
}

/// Reads a body into the content form. Sets the model of the call, and whether it is a stream.
///
/// # Errors
///
/// Fails if the body names no model, refers to content that is stored upstream, or has a field
/// of a wrong type.
pub fn open_body(call: &mut Call, body: &Document) -> Result<Document> {
    let model = body.string(MODEL)?.as_deref().and_then(ModelName::parse);
    call.model = Some(model.ok_or_else(|| field_error("model", "the name of a model"))?);
    call.read_stream(body)?;
    check_length(body, MESSAGES, 3)?;
    check_length(body, SYSTEM, 1)?;
    refuse_stored(body, call.allowed_fields)?;
    Ok(ReadBody::read(body)?.form)
}

/// Returns the session that the agent names in the metadata of a body: Claude Code as JSON in a
/// string, or formerly behind `_session_`.
pub fn agent_session(body: &Document) -> Result<Option<String>> {
    let metadata = body.child(&["metadata"])?.unwrap_or_default();
    let Some(user) = metadata.string(&["user_id"])? else {
        return Ok(None);
    };
    if let Ok(Value::Object(fields)) = serde_json::from_str(&user) {
        let session = fields.get("session_id").and_then(Value::as_str);
        return Ok(session.map(str::to_owned));
    }
    let older = user.rsplit_once("_session_");
    Ok(older.map(|(_, session)| session.to_owned()))
}

impl ReadBody {
    pub fn read(body: &Document) -> Result<Self> {
        let messages = read_messages(body)?;
        let calls = CalledTools::read(&messages)?;
        let system = SystemPrompts::read(body, &messages)?;
        let tools = read_tools(body, &messages)?;
        let mut form = Document::empty();
        form.set_bytes(CONTENTS, write_array(read_contents(&messages, &calls)?))?;
        if let Some(instruction) = system.instruction()? {
            form.set_child(SYSTEM_INSTRUCTION, &instruction)?;
        }
        if !tools.is_empty() {
            let numbered = tools.iter().enumerate();
            let listed = numbered.map(|(number, tool)| tool.to_form(number));
            let listed: Vec<Bytes> = listed.collect::<Result<_, _>>()?;
            form.set_bytes(TOOLS, write_array(listed))?;
        }
        if let Some(config) = ToolChoice::of_body(body)?.to_form() {
            form.set(TOOL_CONFIG, &config)?;
        }
        if let Some(config) = read_parameters(body)? {
            form.set_child(GENERATION_CONFIG, &config)?;
        }
        let mut fallbacks = read_fallbacks(body)?;
        fallbacks.extend(compatible_models(body)?);
        if !fallbacks.is_empty() {
            form.set(FALLBACK_MODELS, &json!(fallbacks))?;
        }
        if let Some(labels) = REQUEST_LABELS.read(body)? {
            form.set(LABELS, &labels.into())?;
        }
        Ok(Self {
            // Parsed again, because a document that was built counts as edited.
            form: Document::from_checked(form.to_bytes())?,
            messages,
            calls,
            system,
            tools,
        })
    }
}

/// Returns the content of each message but system prompts.
fn read_contents(messages: &[InputMessage], calls: &CalledTools) -> Result<Vec<Bytes>> {
    let mut contents = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let Some(role) = message.role.of_content() else {
            continue;
        };
        let mut parts = Vec::with_capacity(message.blocks.len());
        for (source, block) in message.blocks.iter().enumerate() {
            if let Some(part) = read_block(block, message.role, calls)? {
                parts.push(with_source(part, source)?);
            }
        }
        let mut content = Document::empty();
        content.set(&["role"], &json!(role))?;
        content.set_bytes(PARTS, write_array(parts))?;
        add_labels(&mut content, &message.document, &["content", "role"])?;
        content.set(&[SOURCE], &json!(index))?;
        contents.push(content.to_bytes());
    }
    Ok(contents)
}

/// Returns the models that answer if the named one refuses to; `default` for those that the API
/// chooses.
fn read_fallbacks(body: &Document) -> Result<Vec<String>> {
    if body.get(FALLBACKS)? == Some(json!("default")) {
        return Ok(vec!["default".to_owned()]);
    }
    let fallbacks = body.children(FALLBACKS)?.unwrap_or_default();
    let names = fallbacks.iter().map(|fallback| {
        let mut fields = fallback.fields();
        if !fields.all(|(key, _)| FALLBACK_FIELDS.contains(&&*key)) {
            let expected = "a list of models, with no fields but `max_tokens`, `model`, \
                            `output_config`, `speed` and `thinking`";
            return Err(field_error("fallbacks", expected));
        }
        fallback
            .string(MODEL)?
            .filter(|name| ModelName::parse(name).is_some())
            .ok_or_else(|| field_error("fallbacks", "a list of models"))
    });
    names.collect()
}

//! The `llxprt` protocol of `LLxprt` Code: requests and responses have the shape of
//! the Gemini API, `tool_input` replaces the arguments, an empty list of tools
//! allows none, and `systemMessage` is added to the conversation as well.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{hook_protocol::Protocol, input, tool_names::ToolFamily};
use crate::{
    event::{
        AddedContext, Context, Event, HookOutput, HookResult, HookStatus, InputExtras, OutputPart,
    },
    model::{LlmRequest, LlmResponse, Message, Role, ToolConfig},
};

#[derive(Debug)]
pub(super) struct LlxprtProtocol;

impl Protocol for LlxprtProtocol {
    fn name(&self) -> &'static str {
        "llxprt"
    }

    fn settings_folder(&self) -> Option<&'static str> {
        Some(".llxprt")
    }

    fn tools(&self) -> ToolFamily {
        ToolFamily::Llxprt
    }

    fn write(&self, context: &Context, event: Event<'_>, extras: InputExtras<'_>) -> Bytes {
        let request = event.llm_request().map(request);
        let response = match event {
            Event::AfterModel(event) => Some(response(&event.llm_response)),
            _ => None,
        };
        let fields = [("llm_request", request), ("llm_response", response)];
        let replacements = fields
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        input::write_with(context, event, extras, replacements)
    }

    fn interpret(&self, result: &mut HookResult, event: Event<'_>) {
        let added = added_context(result, event);
        let output = &mut result.output;
        output.interpretation.added = added;
        output.replace_arguments();
        normalize_empty_selection(&mut output.hook_specific_output);
        if let Some(shown) = event.llm_request() {
            output.interpretation.llm_request = stable_form(output, shown);
        }
    }
}

fn request(request: &LlmRequest) -> Value {
    let contents: Vec<Value> = request
        .messages
        .iter()
        .filter(|message| !is_system(message))
        .map(|message| json!({ "role": message.role, "parts": [{ "text": message.content }] }))
        .collect();
    let mut shown = json!({ "model": request.model, "contents": contents });
    if let Some(fields) = shown.as_object_mut() {
        if let Some(text) = &request.system {
            let instruction = json!({ "role": "system", "parts": [{ "text": text }] });
            fields.insert("systemInstruction".to_owned(), instruction);
        }
        fields.insert("generationConfig".to_owned(), json!(request.config));
        if let Some(tools) = &request.tool_config {
            fields.insert("toolConfig".to_owned(), json!(tools));
        }
    }
    shown
}

fn response(response: &LlmResponse) -> Value {
    let candidates = response.candidates.iter().map(|candidate| {
        let content = &candidate.content;
        let parts: Vec<Value> = content
            .parts
            .iter()
            .map(|text| json!({ "text": text }))
            .collect();
        let mut shown = json!({ "content": { "role": content.role, "parts": parts } });
        if let (Some(reason), Some(fields)) = (&candidate.finish_reason, shown.as_object_mut()) {
            fields.insert("finishReason".to_owned(), json!(reason));
        }
        shown
    });
    json!({ "candidates": candidates.collect::<Vec<_>>() })
}

/// Returns the context and the message for the user as texts for the model. The
/// warning of a failed hook is for the user only.
fn added_context(result: &HookResult, event: Event<'_>) -> Vec<AddedContext> {
    let output = &result.output;
    let context = output.additional_context();
    let context = context.filter(|_| event.name().honours(OutputPart::AdditionalContext));
    let message = output.system_message.as_deref();
    let message = message.filter(|_| result.status == HookStatus::Ok);
    let texts = [context, message].into_iter().flatten();
    texts
        .map(|text| AddedContext::Raw(text.to_owned()))
        .collect()
}

/// Replaces a selection with an explicit empty list by mode `NONE`.
fn normalize_empty_selection(fields: &mut Map<String, Value>) {
    if let Some(selection) = fields.get_mut("toolConfig")
        && ToolConfig::has_empty_list(selection)
    {
        *selection = json!({ "mode": "NONE" });
    }
}

/// Returns the edit of the `shown` request in the stable form.
fn stable_form(output: &HookOutput, shown: &LlmRequest) -> Option<Map<String, Value>> {
    let written = output.specific("llm_request")?.as_object()?;
    let mut fields = written.clone();
    if let Some(contents) = fields.shift_remove("contents") {
        fields.insert("messages".to_owned(), messages(contents, shown));
    }
    normalize_empty_selection(&mut fields);
    Some(fields)
}

/// Converts contents to messages. System messages were hidden from the hook, so
/// they are kept, unless no content is usable.
fn messages(contents: Value, shown: &LlmRequest) -> Value {
    let Value::Array(contents) = contents else {
        return contents;
    };
    let returned = contents.into_iter().map(|mut content| {
        let mut take = |key: &str| content.get_mut(key).map(Value::take);
        let role = take("role").unwrap_or_else(|| json!(Role::User));
        json!({ "role": role, "content": take("parts") })
    });
    let returned: Vec<Value> = returned.collect();
    let is_unusable = |message: &Value| Message::read(message).is_none();
    if returned.iter().all(is_unusable) {
        return Value::Array(returned);
    }
    let hidden = shown
        .messages
        .iter()
        .filter(|message| is_system(message) && Some(&message.content) != shown.system.as_ref());
    hidden
        .map(|message| json!(message))
        .chain(returned)
        .collect()
}

fn is_system(message: &Message) -> bool {
    message.role == Role::System
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BeforeModel, EventName, InputExtras};

    fn shown() -> BeforeModel {
        let reported = json!({
            "contents": [
                { "role": "system", "parts": ["POLICY"] },
                { "role": "user", "parts": [{ "text": "a" }, "b"] },
            ],
            "systemInstruction": { "role": "system", "parts": [{ "text": "SYS" }] },
            "generationConfig": { "temperature": 1.0, "stopSequences": ["X"] },
        });
        BeforeModel {
            llm_request: serde_json::from_value(reported).unwrap(),
        }
    }

    fn interpreted(output: &Value) -> HookResult {
        let fields = output.as_object().unwrap().clone();
        let (output, diagnostics) = HookOutput::read(fields, EventName::BeforeModel);
        let mut result = HookResult {
            status: HookStatus::Ok,
            output,
            diagnostics,
        };
        LlxprtProtocol.interpret(&mut result, Event::BeforeModel(&shown()));
        result
    }

    #[test]
    fn a_request_is_shown_in_the_shape_of_the_api() {
        let written = LlxprtProtocol.write(
            &Context::default(),
            Event::BeforeModel(&shown()),
            InputExtras::default(),
        );

        let written: Value = serde_json::from_slice(&written).unwrap();
        let expected = json!({
            "model": "",
            "contents": [{ "role": "user", "parts": [{ "text": "ab" }] }],
            "systemInstruction": { "role": "system", "parts": [{ "text": "SYS" }] },
            "generationConfig": { "temperature": 1.0, "stopSequences": ["X"] },
        });
        assert_eq!(written["llm_request"], expected);
    }

    #[test]
    fn a_returned_request_is_read_in_the_stable_form() {
        let result = interpreted(&json!({ "hookSpecificOutput": { "llm_request": {
            "contents": [{ "role": "user", "parts": ["c", { "text": "d" }] }, { "parts": ["e"] }],
            "generationConfig": { "topK": 1 },
            "config": { "topK": 2, "topP": 3 },
            "toolConfig": { "allowedFunctionNames": [] },
        } } }));

        let expected = json!({
            "messages": [
                { "role": "system", "content": "POLICY" },
                { "role": "user", "content": ["c", { "text": "d" }] },
                { "role": "user", "content": ["e"] },
            ],
            "generationConfig": { "topK": 1 },
            "config": { "topK": 2, "topP": 3 },
            "toolConfig": { "mode": "NONE" },
        });
        assert_eq!(Value::Object(result.output.request_edit().fields), expected);
        assert!(result.output.specific("llm_request").unwrap()["contents"].is_array());
    }

    #[test]
    fn contents_without_a_usable_one_are_no_messages() {
        let output = json!({ "hookSpecificOutput": { "llm_request": { "contents": [5] } } });

        let edit = interpreted(&output).output.request_edit();

        assert_eq!(edit.messages(), None);
    }

    #[test]
    fn an_empty_list_of_names_allows_no_tool() {
        for selection in [
            json!({ "mode": "ANY", "allowedFunctionNames": [] }),
            json!({ "functionCallingConfig": { "allowed_function_names": [] } }),
        ] {
            let output = json!({ "hookSpecificOutput": { "toolConfig": selection } });
            let result = interpreted(&output);
            let expected = json!({ "mode": "NONE" });
            assert_eq!(result.output.specific("toolConfig"), Some(&expected));
        }
    }
}

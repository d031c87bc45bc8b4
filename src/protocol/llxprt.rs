//! `llxprt`: the protocol of `LLxprt` Code. Requests and answers have the shape of
//! the Gemini API, arguments are replaced, an empty list of tools means none,
//! and a message for the user is told to the model as well.

use bytes::Bytes;
use serde_json::{Map, Value, json, value::RawValue};

use super::{Protocol, input};
use crate::{
    event::{Added, Answer, ArgumentsMean, Context, Event, HookOutput, HookStatus, Part},
    model::{LlmRequest, LlmResponse, Message, Role, ToolConfig},
};

#[derive(Debug)]
pub(super) struct Llxprt;

impl Protocol for Llxprt {
    fn name(&self) -> &'static str {
        "llxprt"
    }

    fn write(&self, context: &Context, event: Event<'_>, document: Option<&RawValue>) -> Bytes {
        let request = event.llm_request().map(request);
        let response = event.llm_response().map(response);
        let words = [("llm_request", request), ("llm_response", response)];
        let words = words.into_iter().filter_map(|(key, it)| Some((key, it?)));
        input::write_with(context, event, document, words)
    }

    fn interpret(&self, answer: &mut Answer, event: Event<'_>) {
        let added = added(answer, event);
        let output = &mut answer.output;
        output.meaning.added = added;
        output.meaning.arguments = ArgumentsMean::Instead;
        forbid_all_if_empty(&mut output.hook_specific_output);
        if let Some(shown) = event.llm_request() {
            output.meaning.llm_request = stable(output, shown);
        }
    }
}

fn request(request: &LlmRequest) -> Value {
    let talk = request.messages.iter().filter(|it| !is_system(it));
    let contents: Vec<Value> = talk
        .map(|it| json!({ "role": it.role, "parts": [{ "text": it.content }] }))
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
            .map(|it| json!({ "text": it }))
            .collect();
        let mut shown = json!({ "content": { "role": content.role, "parts": parts } });
        if let (Some(reason), Some(fields)) = (&candidate.finish_reason, shown.as_object_mut()) {
            fields.insert("finishReason".to_owned(), json!(reason));
        }
        shown
    });
    json!({ "candidates": candidates.collect::<Vec<_>>() })
}

/// What the model is told: context, and what the user is told. What a failed
/// hook wrote is for people only.
fn added(answer: &Answer, event: Event<'_>) -> Vec<Added> {
    let output = &answer.output;
    let context = output.additional_context();
    let context = context.filter(|_| event.honours(Part::AdditionalContext));
    let message = output.system_message.as_deref();
    let message = message.filter(|_| answer.status == HookStatus::Ok);
    let texts = [context, message].into_iter().flatten();
    texts.map(|it| Added::Raw(it.to_owned())).collect()
}

/// An explicit list without names allows no tool.
fn forbid_all_if_empty(fields: &mut Map<String, Value>) {
    if let Some(selection) = fields.get_mut("toolConfig")
        && ToolConfig::names_nothing(selection)
    {
        *selection = json!({ "mode": "NONE" });
    }
}

/// A change of the request that was `shown`, in the stable form.
fn stable(output: &HookOutput, shown: &LlmRequest) -> Option<Map<String, Value>> {
    let written = output.specific("llm_request")?.as_object()?;
    let mut fields = written.clone();
    if let Some(contents) = fields.shift_remove("contents") {
        fields.insert("messages".to_owned(), messages(contents, shown));
    }
    if let Some(Value::Object(given)) = fields.shift_remove("generationConfig") {
        match fields.get_mut("config").and_then(Value::as_object_mut) {
            Some(config) => config.extend(given),
            None => {
                fields.insert("config".to_owned(), Value::Object(given));
            }
        }
    }
    forbid_all_if_empty(&mut fields);
    Some(fields)
}

/// Contents as messages. Those of the system were not shown, so they are still
/// there.
fn messages(contents: Value, shown: &LlmRequest) -> Value {
    let Value::Array(contents) = contents else {
        return contents;
    };
    if contents.is_empty() {
        return Value::Array(contents);
    }
    let hidden = shown.messages.iter().filter(|it| is_system(it));
    let hidden = hidden.filter(|it| Some(&it.content) != shown.system.as_ref());
    let returned = contents.into_iter().map(|mut it| {
        let mut take = |key: &str| it.get_mut(key).map(Value::take);
        let role = take("role").unwrap_or_else(|| json!(Role::User));
        json!({ "role": role, "content": take("parts") })
    });
    hidden.map(|it| json!(it)).chain(returned).collect()
}

fn is_system(message: &Message) -> bool {
    message.role == Role::System
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BeforeModel, EventName};

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

    fn interpreted(output: &Value) -> Answer {
        let fields = output.as_object().unwrap().clone();
        let (output, diagnostics) = HookOutput::read(fields, EventName::BeforeModel);
        let mut answer = Answer {
            status: HookStatus::Ok,
            output,
            diagnostics,
        };
        Llxprt.interpret(&mut answer, Event::BeforeModel(&shown()));
        answer
    }

    #[test]
    fn a_request_is_shown_in_the_words_of_the_api() {
        let written = Llxprt.write(&Context::default(), Event::BeforeModel(&shown()), None);

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
    fn what_comes_back_is_read_in_the_stable_form() {
        let answer = interpreted(&json!({ "hookSpecificOutput": { "llm_request": {
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
            "config": { "topK": 1, "topP": 3 },
            "toolConfig": { "mode": "NONE" },
        });
        assert_eq!(Value::Object(answer.output.request_edit().fields), expected);
        assert!(answer.output.specific("llm_request").unwrap()["contents"].is_array());
    }

    #[test]
    fn an_empty_list_of_names_allows_no_tool() {
        for selection in [
            json!({ "mode": "ANY", "allowedFunctionNames": [] }),
            json!({ "functionCallingConfig": { "allowed_function_names": [] } }),
        ] {
            let output = json!({ "hookSpecificOutput": { "toolConfig": selection } });
            let answer = interpreted(&output);
            let expected = json!({ "mode": "NONE" });
            assert_eq!(answer.output.specific("toolConfig"), Some(&expected));
        }
    }
}

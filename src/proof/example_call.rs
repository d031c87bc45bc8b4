//! Model calls of cases: request, answer, and the events that they fire.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{
    config::{ProofToolCall, ProofToolResult},
    dialect::{self, Call, DialectError, Document, History, ResponseDocument},
    event::{AfterTool, EventName},
    model::ModelName,
    test_case::{DEFAULT_MODEL, model_path, read_answer, request_line},
};

/// Prompt of calls whose case is not about the prompt.
const DEFAULT_PROMPT: &str = "Hello.";

/// Events of a request without an answer.
const REQUEST: &[EventName] = &[
    EventName::BeforeAgent,
    EventName::AfterTool,
    EventName::BeforeModel,
];

/// Events of a request and its answer.
const REQUEST_AND_ANSWER: &[EventName] = &[
    EventName::BeforeAgent,
    EventName::AfterTool,
    EventName::BeforeModel,
    EventName::AfterModel,
    EventName::BeforeTool,
    EventName::AfterAgent,
];

/// Events of an answer alone.
const ANSWER: &[EventName] = &[
    EventName::AfterModel,
    EventName::BeforeTool,
    EventName::AfterAgent,
];

/// A model call, parsed as the gateway parses it.
#[derive(Debug)]
pub(super) struct ExampleCall {
    pub(super) call: Call,
    pub(super) document: Document,
    /// New prompt of the request; empty if it has none.
    pub(super) prompt: String,
    /// Chunks of the model's answer.
    pub(super) answer: Vec<ResponseDocument>,
    /// Events that the case is about, in the order in which a call fires them.
    pub(super) events: &'static [EventName],
}

impl ExampleCall {
    /// A call with this path and body, and the model's answer to it.
    pub(super) fn from_request(
        path: Option<&str>,
        request: &Map<String, Value>,
        answer: Option<&Value>,
    ) -> Result<Self, String> {
        let path = path.map_or_else(|| model_path(DEFAULT_MODEL), str::to_owned);
        let events = match answer {
            Some(_) => REQUEST_AND_ANSWER,
            None => REQUEST,
        };
        Self::parse(&path, &json!(request), answer, events)
    }

    /// A call with this prompt.
    pub(super) fn from_prompt(model: Option<&str>, prompt: &str) -> Result<Self, String> {
        let contents = json!([user_text(prompt)]);
        let events = &[EventName::BeforeAgent, EventName::BeforeModel];
        Self::of_any_api(model, &contents, None, events)
    }

    /// A call whose answer calls this tool.
    pub(super) fn from_tool_call(
        model: Option<&str>,
        tool: &ProofToolCall,
    ) -> Result<Self, String> {
        let contents = json!([user_text(DEFAULT_PROMPT)]);
        let answer = response(&json!([function_call(&tool.name, &tool.args)]));
        let events = &[EventName::AfterModel, EventName::BeforeTool];
        Self::of_any_api(model, &contents, Some(&answer), events)
    }

    /// A call that brings the result of this tool.
    pub(super) fn from_tool_result(
        model: Option<&str>,
        tool: &ProofToolResult,
    ) -> Result<Self, String> {
        let result = match &tool.result {
            Value::Object(fields) => json!(fields),
            other => json!({ "output": other }),
        };
        let contents = json!([
            user_text(DEFAULT_PROMPT),
            { "role": "model", "parts": [function_call(&tool.name, &tool.args)] },
            { "role": "user", "parts": [
                { "functionResponse": { "name": tool.name, "response": result } },
            ] },
        ]);
        let events = &[EventName::AfterTool, EventName::BeforeModel];
        Self::of_any_api(model, &contents, None, events)
    }

    /// A call with this answer: a text, a response, or the list of its chunks.
    pub(super) fn from_answer(model: Option<&str>, answer: &Value) -> Result<Self, String> {
        let contents = json!([user_text(DEFAULT_PROMPT)]);
        let answer = match answer {
            Value::String(text) => response(&json!([{ "text": text }])),
            other => other.clone(),
        };
        Self::of_any_api(model, &contents, Some(&answer), ANSWER)
    }

    /// A call in the form that all APIs share, of a model of any API.
    fn of_any_api(
        model: Option<&str>,
        contents: &Value,
        answer: Option<&Value>,
        events: &'static [EventName],
    ) -> Result<Self, String> {
        let path = model_path(DEFAULT_MODEL);
        let request = json!({ "contents": contents });
        let mut example = Self::parse(&path, &request, answer, events)?;
        if let Some(name) = model {
            let parsed = ModelName::parse(name);
            let parsed = parsed.ok_or_else(|| format!("`{name}` is not a model name"))?;
            example.call.model = Some(parsed);
        }
        Ok(example)
    }

    fn parse(
        path: &str,
        request: &Value,
        answer: Option<&Value>,
        events: &'static [EventName],
    ) -> Result<Self, String> {
        let line = request_line(path);
        let recognized = dialect::recognize_call(line);
        let recognized = recognized.ok_or_else(|| format!("unknown path `{}`", line.path))?;
        let call = recognized.and_then(|recognized| recognized.call);
        let mut call = call.map_err(|error| error.to_string())?;
        let dialect = dialect::of(call.method.api);
        let answer = answer.map(|answer| read_answer(dialect, answer));
        let answer = answer.transpose().map_err(|error| error.to_string())?;
        let read = || -> Result<Self, DialectError> {
            let body = dialect.parse_request(Bytes::from(request.to_string()))?;
            let document = dialect.open_request(&mut call, body)?.form;
            Ok(Self {
                prompt: dialect::new_prompt(&call, &document)?.join("\n"),
                answer: answer.map(|answer| answer.chunks).unwrap_or_default(),
                call: call.clone(),
                document,
                events,
            })
        };
        read().map_err(|error| error.to_string())
    }

    /// The `AfterTool` events of the request's new tool results.
    ///
    /// # Errors
    ///
    /// Fails if the conversation cannot be read.
    pub(super) fn tool_results(&self) -> Result<Vec<AfterTool>, DialectError> {
        let Some(history) = History::read(&self.document)? else {
            return Ok(Vec::new());
        };
        let Some(last) = history.contents().len().checked_sub(1) else {
            return Ok(Vec::new());
        };
        let results = history.results(last)?.into_iter();
        Ok(results.map(AfterTool::from).collect())
    }
}

/// A call for this model, of which only the model matters.
pub(super) fn default_call(model: Option<&str>) -> Result<ExampleCall, String> {
    let contents = json!([user_text(DEFAULT_PROMPT)]);
    let events = &[EventName::BeforeModel];
    ExampleCall::of_any_api(model, &contents, None, events)
}

/// Reads the name of a reported event.
pub(super) fn event_name(event: &Map<String, Value>) -> Result<EventName, String> {
    let name = event.get("hook_event_name").and_then(Value::as_str);
    let name = name.ok_or("the event has no `hook_event_name`")?;
    EventName::parse(name).ok_or_else(|| format!("unknown event `{name}`"))
}

fn response(parts: &Value) -> Value {
    let content = json!({ "role": "model", "parts": parts });
    json!({ "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }] })
}

fn user_text(text: &str) -> Value {
    json!({ "role": "user", "parts": [{ "text": text }] })
}

fn function_call(name: &str, args: &Map<String, Value>) -> Value {
    json!({ "functionCall": { "name": name, "args": args } })
}

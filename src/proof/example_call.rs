//! Model calls of cases: request, answer, and the events that they fire.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{
    config::ProofCase,
    dialect::{self, Call, DialectError, Document, History, ResponseDocument},
    event::{AfterTool, EventName},
    model::ModelName,
    session::CallRole,
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
    /// The conversation of the request, if it has one.
    pub(super) history: Option<History>,
    pub(super) role: CallRole,
    /// Chunks of the model's answer.
    pub(super) answer: Vec<ResponseDocument>,
    /// Events that the case is about, in the order in which a call fires them.
    pub(super) events: &'static [EventName],
}

impl ExampleCall {
    /// Reads the call of a case, which may be a part of one, with this `User-Agent`. Returns its
    /// name in messages, too.
    ///
    /// # Errors
    ///
    /// Fails if request, answer or model cannot be read.
    pub(super) fn read(case: &ProofCase, agent: &str) -> Result<(String, Self), String> {
        let (label, events) = subject(case);
        let path = case.path.clone();
        let path = path.unwrap_or_else(|| model_path(DEFAULT_MODEL));
        let line = request_line(&path);
        let recognized = dialect::recognize_call(line);
        let recognized = recognized.ok_or_else(|| format!("unknown path `{}`", line.path))?;
        let call = recognized.and_then(|recognized| recognized.call);
        let mut call = call.map_err(|error| error.to_string())?;
        let dialect = dialect::of(call.method.api);
        let answer = answer(case).map(|answer| read_answer(dialect, &answer));
        let answer = answer.transpose().map_err(|error| error.to_string())?;
        let read = || -> Result<Self, DialectError> {
            let body = dialect.parse_request(Bytes::from(request(case).to_string()))?;
            let document = dialect.open_request(&mut call, body)?.form;
            let expectation = dialect::expected_response(&document)?;
            Ok(Self {
                history: History::read(&document)?,
                // Only a whole request shows a helper call.
                role: match case.request {
                    Some(_) => CallRole::of(&call, expectation, agent),
                    None => CallRole::Main,
                },
                answer: answer.map(|answer| answer.chunks).unwrap_or_default(),
                call: call.clone(),
                document,
                events,
            })
        };
        let mut example = read().map_err(|error| error.to_string())?;
        if let Some(name) = &case.model {
            let parsed = ModelName::parse(name);
            let parsed = parsed.ok_or_else(|| format!("`{name}` is not a model name"))?;
            example.call.model = Some(parsed);
        }
        Ok((label, example))
    }

    /// Returns the `AfterTool` events of the results in the last content.
    ///
    /// # Errors
    ///
    /// Fails if the conversation cannot be read.
    pub(super) fn tool_results(&self) -> Result<Vec<AfterTool>, DialectError> {
        let Some(history) = &self.history else {
            return Ok(Vec::new());
        };
        let Some(last) = history.contents().len().checked_sub(1) else {
            return Ok(Vec::new());
        };
        let results = history.results(last)?.into_iter();
        Ok(results.map(AfterTool::from).collect())
    }
}

/// Returns the call of a case in messages, and the events that the case is about.
fn subject(case: &ProofCase) -> (String, &'static [EventName]) {
    match case {
        ProofCase {
            request: Some(_),
            answer,
            ..
        } => {
            let events = answer.as_ref().map_or(REQUEST, |_| REQUEST_AND_ANSWER);
            ("this request".to_owned(), events)
        }
        ProofCase {
            prompt: Some(_), ..
        } => {
            let events = &[EventName::BeforeAgent, EventName::BeforeModel];
            ("this prompt".to_owned(), events)
        }
        ProofCase {
            tool_call: Some(tool),
            ..
        } => {
            let events = &[EventName::AfterModel, EventName::BeforeTool];
            (format!("a call of `{}`", tool.name), events)
        }
        ProofCase {
            tool_result: Some(tool),
            ..
        } => {
            let events = &[EventName::AfterTool, EventName::BeforeModel];
            (format!("this result of `{}`", tool.name), events)
        }
        ProofCase {
            answer: Some(_), ..
        } => ("this answer".to_owned(), ANSWER),
        ProofCase { model, .. } => {
            let label = format!("model `{}`", model.as_deref().unwrap_or_default());
            (label, &[EventName::BeforeModel])
        }
    }
}

/// Returns the request of a case, in the form that all APIs share unless it is given.
fn request(case: &ProofCase) -> Value {
    if let Some(request) = &case.request {
        return json!(request);
    }
    let prompt = case.prompt.as_deref().unwrap_or(DEFAULT_PROMPT);
    let mut contents = vec![content("user", &json!({ "text": prompt }))];
    if let Some(tool) = &case.tool_result {
        let result = match &tool.result {
            Value::Object(fields) => json!(fields),
            other => json!({ "output": other }),
        };
        let result = json!({ "functionResponse": { "name": tool.name, "response": result } });
        contents.push(content("model", &function_call(&tool.name, &tool.args)));
        contents.push(content("user", &result));
    }
    json!({ "contents": contents })
}

/// Returns the answer of a case, if it has one: a tool call, a text or a response.
fn answer(case: &ProofCase) -> Option<Value> {
    let part = match (&case.tool_call, &case.answer) {
        (Some(tool), _) => function_call(&tool.name, &tool.args),
        (None, Some(Value::String(text))) if case.request.is_none() => json!({ "text": text }),
        (None, answer) => return answer.clone(),
    };
    let content = content("model", &part);
    Some(json!({ "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }] }))
}

fn content(role: &str, part: &Value) -> Value {
    json!({ "role": role, "parts": [part] })
}

fn function_call(name: &str, args: &Map<String, Value>) -> Value {
    json!({ "functionCall": { "name": name, "args": args } })
}

//! The API families: requests, upstreams with fixed answers, and parsing of answers.

use std::convert::Infallible;

use eventsource_stream::Eventsource;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};

use super::client;
use crate::harness::{Answer, ReceivedRequest, TestGateway, Upstream, respond};

/// API family, with the form of its requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Gemini,
    Anthropic,
    Responses,
    Chat,
}

/// Every family. To add one: an entry here, and an arm in each `match` of this folder.
pub const ALL: &[Family] = &[
    Family::Gemini,
    Family::Anthropic,
    Family::Responses,
    Family::Chat,
];

/// Every family, each with `false` for a JSON answer and `true` for a stream.
pub fn each() -> impl Iterator<Item = (Family, bool)> {
    ALL.iter()
        .flat_map(|family| [(*family, false), (*family, true)])
}

/// One message of a conversation.
#[derive(Debug, Clone, Copy)]
pub enum Turn<'a> {
    User(&'a str),
    Model(&'a str),
    /// Name, and the one argument `x`.
    Call(&'a str, &'a str),
    /// Name of the tool, and the text of its result.
    Result(&'a str, &'a str),
}

/// A part of an answer of the model.
#[derive(Debug, Clone)]
pub enum Part {
    /// A text in pieces.
    Text(Vec<String>),
    Thought(Vec<String>),
    /// Name, and arguments as JSON in pieces.
    Call(String, Vec<String>),
    /// Name and text of a call whose input is not JSON, where the API has such calls.
    FreeText(String, String),
}

impl Part {
    pub fn text(pieces: &[&str]) -> Self {
        Self::Text(pieces.iter().map(|piece| (*piece).to_owned()).collect())
    }

    pub fn call(name: &str, x: &str) -> Self {
        Self::call_with(name, &json!({ "x": x }))
    }

    pub fn call_with(name: &str, args: &Value) -> Self {
        Self::Call(name.to_owned(), vec![args.to_string()])
    }

    pub fn is_call(&self) -> bool {
        matches!(self, Self::Call(..) | Self::FreeText(..))
    }
}

/// An answer as a client parses it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ParsedAnswer {
    pub text: String,
    pub thoughts: String,
    /// Names and arguments of the tool calls.
    pub calls: Vec<(String, String)>,
    /// `true` if the stop reason of the answer asks the client to run tools.
    pub wants_tools: bool,
}

const ANTHROPIC_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

impl Family {
    pub fn path(self, is_stream: bool) -> &'static str {
        match (self, is_stream) {
            (Self::Gemini, false) => "/v1beta/models/m:generateContent",
            (Self::Gemini, true) => "/v1beta/models/m:streamGenerateContent?alt=sse",
            (Self::Anthropic, _) => "/v1/messages",
            (Self::Responses, _) => "/v1/responses",
            (Self::Chat, _) => "/v1/chat/completions",
        }
    }

    /// A request with these turns and the tools `look` and `rm`.
    pub fn request(self, is_stream: bool, turns: &[Turn<'_>]) -> Value {
        self.request_with_tools(is_stream, &["look", "rm"], turns)
    }

    /// A request with these turns and tools.
    pub fn request_with_tools(self, is_stream: bool, tools: &[&str], turns: &[Turn<'_>]) -> Value {
        let schema = json!({ "type": "object", "properties": { "x": { "type": "string" } } });
        let tools = tools.iter().map(|name| match self {
            Self::Gemini => json!({ "name": name, "parametersJsonSchema": schema }),
            Self::Anthropic => json!({ "name": name, "input_schema": schema }),
            Self::Responses => json!({ "type": "function", "name": name, "parameters": schema }),
            Self::Chat => {
                json!({ "type": "function", "function": { "name": name, "parameters": schema } })
            }
        });
        let tools: Vec<Value> = tools.collect();
        let turns: Vec<Value> = turns.iter().map(|turn| self.turn(*turn)).collect();
        match self {
            Self::Gemini => json!({
                "contents": turns, "tools": [{ "functionDeclarations": tools }],
            }),
            Self::Anthropic => json!({
                "model": "m", "max_tokens": 99, "messages": turns, "tools": tools,
                "stream": is_stream, "system": "be kind",
            }),
            Self::Responses => json!({
                "model": "m", "input": turns, "tools": tools, "stream": is_stream,
                "instructions": "be kind", "store": false,
            }),
            Self::Chat => {
                json!({ "model": "m", "messages": turns, "tools": tools, "stream": is_stream })
            }
        }
    }

    fn turn(self, turn: Turn<'_>) -> Value {
        match (self, turn) {
            (Self::Gemini, Turn::User(text)) => {
                json!({ "role": "user", "parts": [{ "text": text }] })
            }
            (Self::Gemini, Turn::Model(text)) => {
                json!({ "role": "model", "parts": [{ "text": text }] })
            }
            (Self::Gemini, Turn::Call(name, x)) => {
                let call = json!({ "id": "c1", "name": name, "args": { "x": x } });
                json!({ "role": "model", "parts": [{ "functionCall": call }] })
            }
            (Self::Gemini, Turn::Result(name, text)) => {
                let result = json!({ "id": "c1", "name": name, "response": { "output": text } });
                json!({ "role": "user", "parts": [{ "functionResponse": result }] })
            }
            (Self::Responses, Turn::User(text)) => {
                json!({ "role": "user", "content": [{ "type": "input_text", "text": text }] })
            }
            (Self::Responses, Turn::Model(text)) => json!({
                "type": "message", "role": "assistant",
                "content": [{ "type": "output_text", "text": text, "annotations": [] }],
            }),
            (Self::Responses, Turn::Call(name, x)) => json!({
                "type": "function_call", "call_id": "c1", "name": name,
                "arguments": json!({ "x": x }).to_string(),
            }),
            (Self::Responses, Turn::Result(_, text)) => {
                json!({ "type": "function_call_output", "call_id": "c1", "output": text })
            }
            (Self::Anthropic | Self::Chat, Turn::User(text)) => {
                json!({ "role": "user", "content": text })
            }
            (Self::Anthropic | Self::Chat, Turn::Model(text)) => {
                json!({ "role": "assistant", "content": text })
            }
            (Self::Anthropic, Turn::Call(name, x)) => json!({ "role": "assistant", "content": [
                { "type": "tool_use", "id": "c1", "name": name, "input": { "x": x } },
            ] }),
            (Self::Anthropic, Turn::Result(_, text)) => json!({ "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "c1", "content": text },
            ] }),
            (Self::Chat, Turn::Call(name, x)) => {
                let function = json!({ "name": name, "arguments": json!({ "x": x }).to_string() });
                let call = json!({ "id": "c1", "type": "function", "function": function });
                json!({ "role": "assistant", "content": null, "tool_calls": [call] })
            }
            (Self::Chat, Turn::Result(_, text)) => {
                json!({ "role": "tool", "tool_call_id": "c1", "content": text })
            }
        }
    }

    /// The model in a request that upstream received.
    pub fn model(self, asked: &ReceivedRequest) -> String {
        if self == Self::Gemini {
            let (_, rest) = asked.path.rsplit_once("/models/").unwrap();
            return rest.split_once(':').unwrap().0.to_owned();
        }
        asked.json()["model"].as_str().unwrap().to_owned()
    }

    /// The names of the declared tools in a request that upstream received.
    pub fn tools(self, asked: &ReceivedRequest) -> Vec<String> {
        let body = asked.json();
        let tools = match self {
            Self::Gemini => body["tools"][0]["functionDeclarations"].clone(),
            _ => body["tools"].clone(),
        };
        let tools = tools.as_array().cloned().unwrap_or_default();
        let name = |tool: &Value| {
            let tool = if self == Self::Chat {
                &tool["function"]
            } else {
                tool
            };
            tool["name"].as_str().unwrap().to_owned()
        };
        tools.iter().map(name).collect()
    }

    /// A model API that sends these answers in order and then repeats the last one.
    pub async fn upstream(self, answers: Vec<Vec<Part>>) -> Upstream {
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        Upstream::with(move |asked: ReceivedRequest| {
            let index = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let parts = &answers[index.min(answers.len() - 1)];
            let is_stream = asked.query.contains("alt=sse")
                || (self != Self::Gemini && asked.json()["stream"] == true);
            if is_stream {
                respond(200, "text/event-stream", self.events(parts))
            } else {
                respond(200, "application/json", self.whole(parts).to_string())
            }
        })
        .await
    }

    /// A gateway in front of this upstream.
    pub async fn gateway(self, upstream: &Upstream, config: &str) -> TestGateway {
        self.gateway_with_files(upstream, config, &[]).await
    }

    /// A gateway in front of this upstream, with files in its folder.
    pub async fn gateway_with_files(
        self,
        upstream: &Upstream,
        config: &str,
        files: &[(&str, &str)],
    ) -> TestGateway {
        let name = match self {
            Self::Gemini => "gemini",
            Self::Anthropic => "anthropic",
            Self::Responses | Self::Chat => "openai",
        };
        let upstreams = format!("upstreams: {{ {name}: {{ url: \"{{upstream}}\" }} }}\n");
        TestGateway::with_files(upstream, &format!("{upstreams}{config}"), files).await
    }

    /// Sends a request with these turns.
    pub async fn ask(self, gateway: &TestGateway, is_stream: bool, turns: &[Turn<'_>]) -> Answer {
        let body = self.request(is_stream, turns).to_string();
        self.post(gateway, is_stream, body).await
    }

    /// Sends this exact body.
    pub async fn post(self, gateway: &TestGateway, is_stream: bool, body: String) -> Answer {
        self.post_with(gateway, is_stream, body, &[]).await
    }

    /// Sends this exact body with these headers.
    pub async fn post_with(
        self,
        gateway: &TestGateway,
        is_stream: bool,
        body: String,
        headers: &[(&'static str, &str)],
    ) -> Answer {
        let mut agent = gateway.agent();
        for (name, value) in headers {
            agent = agent.sending(name, value);
        }
        if self == Self::Anthropic {
            agent = agent.sending(ANTHROPIC_VERSION.0, ANTHROPIC_VERSION.1);
        }
        agent.post(self.path(is_stream), body).await
    }

    /// Checks that the answer is valid and returns it as a client parses it.
    #[track_caller]
    pub fn parse(self, is_stream: bool, answer: &Answer) -> ParsedAnswer {
        assert_eq!(answer.status, 200, "{self:?}: {}", answer.text());
        match (self, is_stream) {
            (Self::Gemini, false) => client::gemini(&[answer.json()]),
            (Self::Gemini, true) => client::gemini(&json_events(answer)),
            (Self::Anthropic, false) => client::anthropic(&answer.json()),
            (Self::Anthropic, true) => client::anthropic_stream(&events(answer)),
            (Self::Responses, false) => client::responses(&answer.json()),
            (Self::Responses, true) => client::responses_stream(&events(answer)),
            (Self::Chat, false) => client::chat(&answer.json()),
            (Self::Chat, true) => client::chat_stream(&events(answer)),
        }
    }
}

/// Names and data of a stream's events, parsed by an SSE library.
#[track_caller]
pub fn events(answer: &Answer) -> Vec<(String, String)> {
    let bytes = stream::iter([Ok::<_, Infallible>(answer.body.clone())]);
    let events = bytes.eventsource().map(|event| {
        let event = event.unwrap();
        (event.event, event.data)
    });
    events.collect::<Vec<_>>().now_or_never().unwrap()
}

#[track_caller]
fn json_events(answer: &Answer) -> Vec<Value> {
    let events = events(answer).into_iter();
    events
        .map(|(_, data)| serde_json::from_str(&data).unwrap())
        .collect()
}

//! Calls in every dialect, and a model API whose answer is selected by the prompt.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;

use crate::{
    families::family::{ALL, Family, Part, Turn},
    harness::{Agent, Answer, ReceivedRequest, Upstream, respond},
};

/// A key in AWS's format, which `redact` masks.
pub const SECRET: &str = "AKIAIOSFODNN7EXAMPLQ";

/// The reason of denied tool calls. The model answers a request that contains it with a text.
pub const REASON: &str = "not here";

/// Prompt, model and answer of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A prompt with the word `hello`.
    Text,
    /// A prompt with the word `hello`, to the model `big`.
    BigModel,
    /// The model calls the tool `look`.
    Look,
    /// The model calls the tool `rm`, which the base config denies.
    Remove,
    /// The answer has a secret, split over chunks.
    SecretAnswer,
    /// The prompt has a secret.
    SecretPrompt,
    /// The prompt has the word `aurora`.
    Aurora,
    /// The request declares the tools `look` and `rm`.
    Tools,
}

pub const TOPICS: &[Topic] = &[
    Topic::Text,
    Topic::BigModel,
    Topic::Look,
    Topic::Remove,
    Topic::SecretAnswer,
    Topic::SecretPrompt,
    Topic::Aurora,
    Topic::Tools,
];

/// One call of an agent.
#[derive(Debug, Clone)]
pub struct Call {
    pub family: Family,
    pub is_stream: bool,
    pub topic: Topic,
    pub caller: &'static str,
    /// Session name. Empty if the history identifies the session.
    pub session: String,
    pub turns: Vec<(TurnKind, String)>,
}

/// Kind of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnKind {
    User,
    Model,
    Call,
    Result,
}

impl Call {
    /// Returns the only call of a session.
    pub fn single(family: Family, is_stream: bool, topic: Topic, caller: &'static str) -> Self {
        let name = format!("{family:?}{is_stream}{topic:?}{caller}");
        Self {
            family,
            is_stream,
            topic,
            caller,
            turns: vec![(TurnKind::User, topic.prompt(&name))],
            session: name,
        }
    }

    /// Returns one unary call by `dev` and one streamed call by `ci` per topic and dialect.
    pub fn every() -> Vec<Self> {
        let mut calls = Vec::new();
        for family in ALL {
            for (topic, is_stream) in TOPICS
                .iter()
                .flat_map(|topic| [(*topic, false), (*topic, true)])
            {
                let caller = if is_stream { "ci" } else { "dev" };
                calls.push(Self::single(*family, is_stream, topic, caller));
            }
        }
        calls
    }

    /// Makes the call. Returns the id of the request.
    pub async fn make(&self, agent: &Agent) -> String {
        self.send(agent)
            .await
            .header("x-hookgate-request-id")
            .to_owned()
    }

    /// Makes the call. Returns its answer.
    pub async fn send(&self, agent: &Agent) -> Answer {
        let turns: Vec<Turn<'_>> = self
            .turns
            .iter()
            .map(|(kind, text)| turn(*kind, text))
            .collect();
        let tools: &[&str] = if self.topic == Topic::Tools {
            &["look", "rm"]
        } else {
            &[]
        };
        let mut body = self
            .family
            .request_with_tools(self.is_stream, tools, &turns);
        let mut path = self.family.path(self.is_stream).to_owned();
        if tools.is_empty() {
            body.as_object_mut().unwrap().remove("tools");
        }
        if self.topic == Topic::BigModel {
            path = path.replace("models/m:", "models/big:");
            if let Some(model) = body.get_mut("model") {
                *model = json!("big");
            }
        }
        let mut agent = agent.clone().sending("x-hookgate-key", self.caller);
        if !self.session.is_empty() {
            agent = agent.sending("x-hookgate-session", &self.session);
        }
        if self.family == Family::Anthropic {
            agent = agent.sending("anthropic-version", "2023-06-01");
        }
        agent.post(&path, body.to_string()).await
    }
}

impl Topic {
    /// Returns a prompt. The text in brackets selects the answer.
    pub fn prompt(self, name: &str) -> String {
        match self {
            Self::Text | Self::BigModel | Self::Tools => format!("hello {name} [[text|well|come]]"),
            Self::Look => format!("{name} [[call|look|a]]"),
            Self::Remove => format!("{name} [[call|rm|x]]"),
            Self::SecretAnswer => format!("{name} [[text|key AKIA|IOSFODNN7|EXAMPLQ end]]"),
            Self::SecretPrompt => format!("{name} {SECRET} [[text|ok]]"),
            Self::Aurora => format!("{name} aurora [[text|ok]]"),
        }
    }
}

fn turn(kind: TurnKind, text: &str) -> Turn<'_> {
    match kind {
        TurnKind::User => Turn::User(text),
        TurnKind::Model => Turn::Model(text),
        TurnKind::Call => Turn::Call(text, "a"),
        TurnKind::Result => Turn::Result("look", text),
    }
}

/// Starts a model API. The last brackets of a request select its answer, which is streamed in
/// small chunks.
pub async fn upstream() -> Upstream {
    Upstream::with(|asked| {
        let family = family_of_path(&asked.path);
        let is_stream = asked.query.contains("alt=sse")
            || (family != Family::Gemini && asked.json()["stream"] == true);
        let output = selected_output(&asked);
        if is_stream {
            let size = chunk_bytes(&output);
            stream_in_chunks(family.events(&[output]), size)
        } else {
            respond(200, "application/json", family.whole(&[output]).to_string())
        }
    })
    .await
}

fn family_of_path(path: &str) -> Family {
    match path {
        path if path.contains("/messages") => Family::Anthropic,
        path if path.contains("/responses") => Family::Responses,
        path if path.contains("/chat/") => Family::Chat,
        _ => Family::Gemini,
    }
}

fn selected_output(asked: &ReceivedRequest) -> Part {
    if asked.body.contains(REASON) {
        return Part::text(&["then ", "not"]);
    }
    let (_, last) = asked.body.rsplit_once("[[").unwrap_or(("", "text|ok]]"));
    let (selected, _) = last.split_once("]]").unwrap();
    let fields: Vec<&str> = selected.split('|').collect();
    match fields[0] {
        "call" => Part::call(fields[1], fields[2]),
        _ => Part::text(&fields[1..]),
    }
}

/// Size of a chunk. It depends on the first piece of a text, so that boundaries move.
fn chunk_bytes(output: &Part) -> usize {
    match output {
        Part::Text(pieces) => pieces.first().map_or(17, |first| first.len() + 3),
        _ => 17,
    }
}

/// Returns a stream in chunks of `size` bytes.
fn stream_in_chunks(events: String, size: usize) -> Response {
    let chunks: Vec<_> = events
        .into_bytes()
        .chunks(size)
        .map(|chunk| Ok::<_, std::convert::Infallible>(Bytes::copy_from_slice(chunk)))
        .collect();
    respond(
        200,
        "text/event-stream",
        Body::from_stream(stream::iter(chunks)),
    )
}

/// Returns streams in every dialect whose answer has a secret, split at each position.
pub fn split_secrets() -> Vec<Call> {
    let mut calls = Vec::new();
    for family in ALL {
        for cut in 1..SECRET.len() {
            let (first, second) = SECRET.split_at(cut);
            let name = format!("{family:?}cut{cut}");
            let prompt = format!("{name} [[text|key {first}|{second} end]]");
            calls.push(Call {
                turns: vec![(TurnKind::User, prompt)],
                session: name.clone(),
                ..Call::single(*family, true, Topic::SecretAnswer, "ci")
            });
        }
    }
    calls
}

/// Returns the calls of sessions in every dialect, identified by name and by history. Sessions
/// have tool calls, a denied tool call, continued, rolled-back and forked conversations.
pub fn sessions() -> Vec<Call> {
    let mut calls = Vec::new();
    for family in ALL {
        for is_stream in [false, true] {
            for session in ["", "named"] {
                calls.extend(session_calls(*family, is_stream, session));
            }
        }
    }
    calls
}

fn session_calls(family: Family, is_stream: bool, session: &str) -> Vec<Call> {
    let name = format!("{family:?}{is_stream}{session}");
    let session = if session.is_empty() {
        String::new()
    } else {
        name.clone()
    };
    let user = |text: &str| (TurnKind::User, format!("{name} {text}"));
    let model = |text: &str| (TurnKind::Model, text.to_owned());
    let start = vec![user("one [[text|well|come]]")];
    let second = [&start[..], &[model("welcome"), user("two [[call|look|a]]")]].concat();
    let call = (TurnKind::Call, "look".to_owned());
    let result = (TurnKind::Result, format!("{SECRET} [[text|seen]]"));
    let third = [&second[..], &[call, result]].concat();
    let fourth = [&third[..], &[model("seen"), user("three [[call|rm|x]]")]].concat();
    let fork = [
        &start[..],
        &[
            model("welcome"),
            user("other [[text|key AKIA|IOSFODNN7EXAMPLQ]]"),
        ],
    ];
    let conversations = [
        start.clone(),
        second.clone(),
        third,
        second,
        fourth,
        fork.concat(),
        start,
    ];
    let calls = conversations.into_iter().map(|turns| Call {
        family,
        is_stream,
        topic: Topic::Tools,
        caller: "ci",
        session: session.clone(),
        turns,
    });
    calls.collect()
}

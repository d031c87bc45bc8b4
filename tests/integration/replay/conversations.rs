//! Calls of agents in every dialect, and a model API whose answer each prompt chooses.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;

use crate::{
    families::family::{ALL, Family, Said, Turn},
    harness::{Agent, Answer, Asked, Upstream, respond},
};

/// A key in the form of AWS's, which `redact` masks.
pub const SECRET: &str = "AKIAIOSFODNN7EXAMPLQ";

/// The reason of denied tool calls. The model gives up when it reads it.
pub const REASON: &str = "not here";

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A prompt with the word `hello`.
    Text,
    /// The same, to the model `big`.
    BigModel,
    /// The model calls the tool `look`.
    Look,
    /// The model calls the tool `rm`, which the base config denies.
    Remove,
    /// The answer has a secret, cut in pieces.
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
    /// The name of its session; empty to be found by its history.
    pub session: String,
    pub turns: Vec<(Kind, String)>,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    User,
    Model,
    Call,
    Result,
}

impl Call {
    /// The only call of a session.
    pub fn single(family: Family, is_stream: bool, topic: Topic, caller: &'static str) -> Self {
        let name = format!("{family:?}{is_stream}{topic:?}{caller}");
        Self {
            family,
            is_stream,
            topic,
            caller,
            turns: vec![(Kind::User, topic.prompt(&name))],
            session: name,
        }
    }

    /// Every topic in every dialect, whole and streamed, of two callers.
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
    /// A prompt; what is in brackets chooses the answer.
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

fn turn(kind: Kind, text: &str) -> Turn<'_> {
    match kind {
        Kind::User => Turn::User(text),
        Kind::Model => Turn::Model(text),
        Kind::Call => Turn::Call(text, "a"),
        Kind::Result => Turn::Result("look", text),
    }
}

/// A model API that answers as the last brackets of a request say, in small pieces.
pub async fn upstream() -> Upstream {
    Upstream::with(|asked| {
        let family = family(&asked.path);
        let is_stream = asked.query.contains("alt=sse")
            || (family != Family::Gemini && asked.json()["stream"] == true);
        let said = said(&asked);
        if is_stream {
            let size = piece_bytes(&said);
            pieces(family.events(&[said]), size)
        } else {
            respond(200, "application/json", family.whole(&[said]).to_string())
        }
    })
    .await
}

fn family(path: &str) -> Family {
    match path {
        path if path.contains("/messages") => Family::Anthropic,
        path if path.contains("/responses") => Family::Responses,
        path if path.contains("/chat/") => Family::Chat,
        _ => Family::Gemini,
    }
}

fn said(asked: &Asked) -> Said {
    if asked.body.contains(REASON) {
        return Said::text(&["then ", "not"]);
    }
    let (_, last) = asked.body.rsplit_once("[[").unwrap_or(("", "text|ok]]"));
    let (chosen, _) = last.split_once("]]").unwrap();
    let words: Vec<&str> = chosen.split('|').collect();
    match words[0] {
        "call" => Said::call(words[1], words[2]),
        _ => Said::text(&words[1..]),
    }
}

/// Bytes of a piece: more or fewer by the first word of a text, so that cuts move.
fn piece_bytes(said: &Said) -> usize {
    match said {
        Said::Text(words) => words.first().map_or(17, |word| word.len() + 3),
        _ => 17,
    }
}

/// A stream that arrives in pieces of this many bytes.
fn pieces(events: String, size: usize) -> Response {
    let pieces: Vec<_> = events
        .into_bytes()
        .chunks(size)
        .map(|piece| Ok::<_, std::convert::Infallible>(Bytes::copy_from_slice(piece)))
        .collect();
    respond(
        200,
        "text/event-stream",
        Body::from_stream(stream::iter(pieces)),
    )
}

/// Streams in every dialect whose answer has a secret, cut at each of its places.
pub fn cuts() -> Vec<Call> {
    let mut calls = Vec::new();
    for family in ALL {
        for cut in 1..SECRET.len() {
            let (one, two) = SECRET.split_at(cut);
            let name = format!("{family:?}cut{cut}");
            let prompt = format!("{name} [[text|key {one}|{two} end]]");
            calls.push(Call {
                turns: vec![(Kind::User, prompt)],
                session: name.clone(),
                ..Call::single(*family, true, Topic::SecretAnswer, "ci")
            });
        }
    }
    calls
}

/// Sessions in every dialect, found by name and by history: they call tools, are denied one,
/// go on, repeat themselves, and fork.
pub fn sessions() -> Vec<Call> {
    let mut calls = Vec::new();
    for family in ALL {
        for is_stream in [false, true] {
            for session in ["", "named"] {
                calls.extend(session_of(*family, is_stream, session));
            }
        }
    }
    calls
}

fn session_of(family: Family, is_stream: bool, session: &str) -> Vec<Call> {
    let name = format!("{family:?}{is_stream}{session}");
    let session = if session.is_empty() {
        String::new()
    } else {
        name.clone()
    };
    let user = |text: &str| (Kind::User, format!("{name} {text}"));
    let model = |text: &str| (Kind::Model, text.to_owned());
    let start = vec![user("one [[text|well|come]]")];
    let second = [&start[..], &[model("welcome"), user("two [[call|look|a]]")]].concat();
    let call = (Kind::Call, "look".to_owned());
    let result = (Kind::Result, format!("{SECRET} [[text|seen]]"));
    let third = [&second[..], &[call, result]].concat();
    let fourth = [&third[..], &[model("seen"), user("three [[call|rm|x]]")]].concat();
    let fork = [
        &start[..],
        &[
            model("welcome"),
            user("other [[text|key AKIA|IOSFODNN7EXAMPLQ]]"),
        ],
    ];
    let talks = [
        start.clone(),
        second.clone(),
        third,
        second,
        fourth,
        fork.concat(),
        start,
    ];
    let calls = talks.into_iter().map(|turns| Call {
        family,
        is_stream,
        topic: Topic::Tools,
        caller: "ci",
        session: session.clone(),
        turns,
    });
    calls.collect()
}

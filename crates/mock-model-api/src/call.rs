//! Which call a request line is, and the request in it.

use axum::http::{Method, Uri};
use serde_json::{Value, json};

use super::code_assist;

/// A recognised request line.
#[derive(Debug)]
pub(super) enum Call<'a> {
    Generate(Line<'a>),
    CountTokens,
    Embed,
    BatchEmbed,
    ListModels,
    GetModel(&'a str),
    /// Of Code Assist, with its answer.
    Helper(Value),
    /// Content is kept, under this path behind the version.
    CreateCache(&'a str),
    /// Content that was kept is shown, changed or deleted.
    UseCache(&'a str),
}

/// What the request line of a generate call says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// Empty for Code Assist, which names the model in the body.
    pub(super) model: &'a str,
    pub(super) framing: Framing,
    /// Code Assist has the request under `request` and the answer under `response`.
    pub(super) wrapping: Wrapping,
}

/// How the chunks of an answer are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Object,
    Array,
    Events,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapping {
    Plain,
    CodeAssist,
}

/// A generate call with its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) line: Line<'a>,
    pub(super) model: &'a str,
    pub(super) request: &'a Value,
    /// The length of the body, which stands for the length of the prompt.
    pub(super) bytes: usize,
}

impl<'a> Call<'a> {
    /// Any prefix is accepted in front of `/models`: a version, a Vertex project, a session, nothing.
    pub(super) fn recognise(method: &Method, uri: &'a Uri) -> Option<Self> {
        let path = uri.path();
        let get = method == Method::GET;
        if get && path.ends_with("/models") {
            return Some(Self::ListModels);
        }
        if get && path.starts_with("/v1internal/operations/") {
            return Some(Self::Helper(code_assist::operation()));
        }
        if let Some((_, resource)) = path.trim_start_matches('/').split_once('/')
            && let Some((_, cache)) = format!("/{resource}").split_once("/cachedContents")
        {
            return Some(match (method.as_str(), cache) {
                ("POST", "") => Self::CreateCache(resource),
                _ => Self::UseCache(resource),
            });
        }
        let helper = path.strip_prefix("/v1internal:");
        if let Some(answer) = helper.and_then(|it| code_assist::answer(method, it)) {
            return Some(Self::Helper(answer));
        }
        let (model, verb, wrapping) = match path.strip_prefix("/v1internal:") {
            Some(verb) => ("", verb, Wrapping::CodeAssist),
            None => match path.rsplit_once("/models/")?.1.rsplit_once(':') {
                Some((model, verb)) => (model, verb, Wrapping::Plain),
                None if get => return Some(Self::GetModel(path.rsplit_once('/')?.1)),
                None => return None,
            },
        };
        if method != Method::POST {
            return None;
        }
        let generate = |framing| {
            Self::Generate(Line {
                model,
                framing,
                wrapping,
            })
        };
        match verb {
            "generateContent" => Some(generate(Framing::Object)),
            "streamGenerateContent" => Some(generate(stream_framing(uri))),
            "countTokens" => Some(Self::CountTokens),
            "embedContent" => Some(Self::Embed),
            "batchEmbedContents" => Some(Self::BatchEmbed),
            _ => None,
        }
    }
}

impl<'a> Asked<'a> {
    pub(super) fn new(line: Line<'a>, document: &'a Value, bytes: usize) -> Self {
        let (model, request) = match line.wrapping {
            Wrapping::Plain => (Some(line.model), Some(document)),
            Wrapping::CodeAssist => (
                document.get("model").and_then(Value::as_str),
                document.get("request"),
            ),
        };
        Self {
            line,
            model: model.unwrap_or_default(),
            request: request.unwrap_or(&Value::Null),
            bytes,
        }
    }
}

fn stream_framing(uri: &Uri) -> Framing {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    if parameters.any(|it| it == "alt=sse") {
        Framing::Events
    } else {
        Framing::Array
    }
}

/// The list of models. Pure.
pub(super) fn models() -> Value {
    let names = [
        "gemini-2.5-pro",
        "gemini-2.5-flash",
        "gemini-2.5-flash-lite",
        "gemini-embedding-001",
    ];
    json!({ "models": names.map(model) })
}

/// One model; every name is one. Pure.
pub(super) fn model(name: &str) -> Value {
    let methods: &[&str] = if name.contains("embedding") {
        &["embedContent", "batchEmbedContents", "countTokens"]
    } else {
        &["generateContent", "countTokens"]
    };
    json!({
        "name": format!("models/{name}"),
        "version": "001",
        "displayName": name,
        "description": "A model of the mock.",
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": methods,
    })
}

/// A field under its camelCase name or the same in `snake_case`, as the API reads both. Pure.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).or_else(|| value.get(snake_case(name)))
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

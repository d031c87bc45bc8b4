//! Recognises the API method of a request.

use axum::http::{Method, Uri};
use serde_json::{Value, json};

use super::code_assist;

/// A recognised API method.
#[derive(Debug)]
pub(super) enum Call<'a> {
    Generate(Line<'a>),
    CountTokens,
    Embed,
    BatchEmbed,
    ListModels,
    GetModel(&'a str),
    /// Code Assist method with a fixed response.
    Helper(Value),
    /// Creation of cached content at this path, without the version.
    CreateCache(&'a str),
    /// Read, change or deletion of cached content.
    UseCache(&'a str),
}

/// Model and format of a generate request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// Model in the path; empty for Code Assist, which has it in the body.
    pub(super) model: &'a str,
    pub(super) framing: Framing,
    /// Code Assist wraps the request in `request` and the response in `response`.
    pub(super) wrapping: Wrapping,
}

/// Format of the response.
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

/// A generate request with its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) line: Line<'a>,
    pub(super) model: &'a str,
    pub(super) request: &'a Value,
    /// Length of the body, from which prompt tokens are estimated.
    pub(super) bytes: usize,
}

impl<'a> Call<'a> {
    /// Accepts any prefix before `/models`, such as a version or a Vertex project.
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
        if let Some(answer) = helper.and_then(|verb| code_assist::answer(method, verb)) {
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
    if parameters.any(|parameter| parameter == "alt=sse") {
        Framing::Events
    } else {
        Framing::Array
    }
}

/// Returns the list of models.
pub(super) fn models() -> Value {
    let names = [
        "gemini-2.5-pro",
        "gemini-2.5-flash",
        "gemini-2.5-flash-lite",
        "gemini-embedding-001",
    ];
    json!({ "models": names.map(model) })
}

/// Returns a model; every name is valid.
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

/// Returns a field by its camelCase or `snake_case` name, as the API does.
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

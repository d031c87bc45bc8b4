//! The mock itself: from a recognised request to its reply.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use axum::http::{StatusCode, request::Parts};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    answer,
    anthropic::{self, AnthropicCall},
    blocks::BlockAnswer,
    call::{self, Asked, Call, Framing, Line, Wrapping},
    chat,
    config::MockConfig,
    content::string,
    family::Family,
    openai::{self, OpenAiCall},
    reply::Reply,
    request_log::RequestLog,
    responses,
    script::{ResponseForm, Script, ScriptedResponse},
};

/// Configuration and state of a mock.
#[derive(Debug)]
pub(super) struct Mock {
    script: Option<Mutex<Script>>,
    pub(super) config: MockConfig,
    pub(super) seen: RequestLog,
    answered: AtomicU64,
}

/// Functions that read a request of an API, and write its response whole or as frames of a stream.
struct ApiForm {
    family: Family,
    check: fn(&Value) -> Result<(), String>,
    content_form: fn(&Value) -> Value,
    whole: fn(&BlockAnswer, &Value) -> Value,
    streamed: fn(&BlockAnswer, &Value) -> Vec<Bytes>,
}

const MESSAGES: ApiForm = ApiForm {
    family: Family::Anthropic,
    check: anthropic::check,
    content_form: anthropic::content_form,
    whole: anthropic::message,
    streamed: anthropic::events,
};

const CHAT_COMPLETIONS: ApiForm = ApiForm {
    family: Family::OpenAi,
    check: chat::check,
    content_form: chat::content_form,
    whole: chat::completion,
    streamed: chat::chunks,
};

const RESPONSES: ApiForm = ApiForm {
    family: Family::OpenAi,
    check: responses::check,
    content_form: responses::content_form,
    whole: responses::response,
    streamed: responses::events,
};

/// A request body that is JSON.
struct JsonBody {
    document: Value,
    bytes: usize,
}

impl Mock {
    pub(super) fn new(mut config: MockConfig) -> Self {
        Self {
            script: config.script.take().map(Mutex::new),
            config,
            seen: RequestLog::default(),
            answered: AtomicU64::new(0),
        }
    }

    pub(super) fn reply(&self, head: &Parts, body: &[u8]) -> Reply {
        let family = Family::of(&head.uri, &head.headers);
        let parsed = || {
            let document = serde_json::from_slice(body)
                .map_err(|error| format!("Invalid JSON payload received. {error}"))?;
            Ok(JsonBody {
                document,
                bytes: body.len(),
            })
        };
        let path = head.uri.path();
        let reply = match family {
            _ if has_two_versions(path) => None,
            Family::Google => {
                Call::recognise(&head.method, &head.uri).map(|call| self.google(call, parsed))
            }
            Family::Anthropic => AnthropicCall::recognise(&head.method, path)
                .map(|call| self.anthropic(call, parsed)),
            Family::OpenAi => {
                OpenAiCall::recognise(&head.method, path).map(|call| self.openai(call, parsed))
            }
        };
        match reply {
            Some(Ok(reply)) => reply,
            Some(Err(message)) => Reply::bad_request(family, &message),
            None => {
                let message = format!("Nothing is served at {} {path}.", head.method);
                Reply::error(family, StatusCode::NOT_FOUND, &message)
            }
        }
    }

    fn google(
        &self,
        call: Call<'_>,
        parsed: impl Fn() -> Result<JsonBody, String>,
    ) -> Result<Reply, String> {
        let document = || parsed().map(|body| body.document);
        let answer = match call {
            Call::Generate(line) => {
                let body = parsed()?;
                let asked = Asked::new(line, &body.document, body.bytes);
                let (response, _) = self.response(&asked)?;
                return Ok(Reply::chunks(&response.chunks, line));
            }
            Call::CountTokens => json!({ "totalTokens": answer::tokens(parsed()?.bytes) }),
            Call::Embed => json!({ "embedding": answer::embedding(&document()?) }),
            Call::BatchEmbed => json!({ "embeddings": answer::embeddings(&document()?) }),
            Call::ListModels => call::models(),
            Call::GetModel(name) => call::model(name),
            Call::Helper(answer) => answer,
            Call::CreateCache(folder) => {
                let name = format!("{folder}/mock-{}", self.next_number());
                json!({ "name": name, "model": document()?.get("model") })
            }
            Call::UseCache(name) => json!({ "name": name }),
        };
        Ok(Reply::object(Family::Google, &answer))
    }

    fn anthropic(
        &self,
        call: AnthropicCall<'_>,
        parsed: impl Fn() -> Result<JsonBody, String>,
    ) -> Result<Reply, String> {
        let document = match call {
            AnthropicCall::Messages => return self.generate(&MESSAGES, &parsed()?),
            AnthropicCall::CountTokens => {
                json!({ "input_tokens": answer::tokens(parsed()?.bytes) })
            }
            AnthropicCall::ListModels => anthropic::models(),
            AnthropicCall::GetModel(name) => anthropic::model(name),
            AnthropicCall::Hello => json!({}),
        };
        Ok(Reply::object(Family::Anthropic, &document))
    }

    fn openai(
        &self,
        call: OpenAiCall<'_>,
        parsed: impl Fn() -> Result<JsonBody, String>,
    ) -> Result<Reply, String> {
        let document = match call {
            OpenAiCall::ChatCompletions => return self.generate(&CHAT_COMPLETIONS, &parsed()?),
            OpenAiCall::Responses => return self.generate(&RESPONSES, &parsed()?),
            OpenAiCall::CompactResponse => {
                responses::compaction(&parsed()?.document, self.next_number())
            }
            OpenAiCall::CountResponseInput => json!({
                "object": "response.input_tokens",
                "input_tokens": answer::tokens(parsed()?.bytes),
            }),
            OpenAiCall::Embeddings => {
                let body = parsed()?;
                openai::embeddings(&body.document, body.bytes)
            }
            OpenAiCall::ListModels => openai::models(),
            OpenAiCall::GetModel(name) => openai::model(name),
        };
        Ok(Reply::object(Family::OpenAi, &document))
    }

    /// Answers a request in the form of its own API.
    fn generate(&self, api: &ApiForm, body: &JsonBody) -> Result<Reply, String> {
        let request = &body.document;
        (api.check)(request)?;
        let model = string(request, "model");
        let streamed = request.get("stream") == Some(&Value::Bool(true));
        let asked = Asked {
            line: Line {
                model,
                framing: if streamed {
                    Framing::Events
                } else {
                    Framing::Object
                },
                wrapping: Wrapping::Plain,
            },
            model,
            request: &(api.content_form)(request),
            bytes: body.bytes,
        };
        let (response, number) = self.response(&asked)?;
        if response.form == ResponseForm::Native {
            return Ok(Reply::native(
                api.family,
                response.chunks,
                asked.line.framing,
            ));
        }
        let mut answer = BlockAnswer::new(&response.chunks, model, number);
        answer.is_scripted = self.script.is_some();
        Ok(if streamed {
            Reply::events(api.family, (api.streamed)(&answer, request))
        } else {
            Reply::object(api.family, &(api.whole)(&answer, request))
        })
    }

    /// Returns the next response and its number.
    fn response(&self, asked: &Asked<'_>) -> Result<(ScriptedResponse, u64), &'static str> {
        let number = self.next_number();
        let response = if let Some(script) = &self.script {
            let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
            script.next(asked.line.framing)?
        } else {
            ScriptedResponse {
                chunks: answer::chunks(asked, number, &self.config)?,
                form: ResponseForm::Gemini,
            }
        };
        Ok((response, number))
    }

    fn next_number(&self) -> u64 {
        self.answered.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Returns whether a path has two versions in a row, as under a base URL that ends with one.
fn has_two_versions(path: &str) -> bool {
    let is_version = |segment: &str| segment.starts_with("v1");
    let following = path.split('/').skip(1);
    let mut pairs = path.split('/').zip(following);
    pairs.any(|(one, next)| is_version(one) && is_version(next))
}

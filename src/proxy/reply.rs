//! What the agent is told: an answer of hooks, a denial, or upstream's answer.

use std::mem;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;

use super::{exchange_recorder::Facts, stream::Frames};
use crate::{
    config::Denials,
    dialect::{
        AnswerFormat, Call, Dialect, Framing, Functions, Operation, ResponseDocument,
        ResponseExpectation,
    },
    event::Reason,
    model::ResponseMutation,
    state::{ApiError, ErrorReason, OnBodyEnd},
    upstream::{UpstreamResponse, content_headers::UnexpectedContentType, headers},
};

/// What came of an exchange.
#[derive(Debug)]
pub(super) enum Reply {
    /// A hook answered.
    Answered(ResponseMutation),
    /// Hooks refused.
    Denied(Reason),
    /// Upstream's answer, edited or not.
    Upstream(Response),
}

/// Upstream's answer as it is.
pub(super) fn passed(mut answer: UpstreamResponse, facts: &Facts) -> Response {
    if answer.media_type() == "text/html" {
        return no_json(&answer, facts);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status;
    // The body is what it was, so its length is, too.
    *response.headers_mut() = headers::response_headers(mem::take(&mut answer.headers));
    *response.body_mut() = Body::new(answer.into_body());
    response
}

/// A page for people is no answer for an agent. An error keeps its status.
fn no_json(answer: &UpstreamResponse, facts: &Facts) -> Response {
    let error = if answer.status.is_success() {
        let message = "the model API answered with HTML";
        ApiError::new(ErrorReason::UpstreamUnreadable, message)
    } else {
        ApiError::upstream_status(answer.status)
    };
    let error = error.because(&UnexpectedContentType::from_headers(&answer.headers));
    facts.failed(&error);
    let mut response = error.render(facts.request_id());
    if let Some(after) = answer.headers.get(header::RETRY_AFTER) {
        let after: HeaderValue = after.clone();
        response.headers_mut().insert(header::RETRY_AFTER, after);
    }
    response
}

/// The same response, with what an agent may want to know; how it ends is
/// remembered.
pub(super) fn told(mut response: Response, facts: &Facts) -> Response {
    facts.status(response.status());
    facts.tell(response.headers_mut());
    response.map(|body| track(body, facts))
}

/// The same body; how it ends is remembered.
fn track(body: Body, facts: &Facts) -> Body {
    let facts = facts.clone();
    Body::new(OnBodyEnd::new(body, move |ended| facts.ended(ended)))
}

/// How a denial is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DenialForm {
    /// As the model's own words, with status 200.
    Message,
    /// As an error, with status 403.
    Error,
}

/// Whether gemini-cli makes this call for itself: to choose a model, to compress
/// its history. Its agents stream, and declare functions.
pub(super) fn is_helper(operation: Operation, wish: ResponseExpectation, agent: &str) -> bool {
    let from_cli = agent.starts_with("GeminiCLI") || agent.starts_with("CloudCodeVSCode");
    from_cli && operation == Operation::Generate && wish.functions == Functions::Absent
}

/// An agent retries for minutes when a call that wants JSON, or a helper call
/// of gemini-cli, is answered with words; an embedding has no words at all.
pub(super) fn denial_form(
    denials: Denials,
    operation: Operation,
    wish: ResponseExpectation,
    agent: &str,
) -> DenialForm {
    let helper = is_helper(operation, wish, agent);
    let words = operation.generates() && wish.format == AnswerFormat::Text && !helper;
    match denials {
        Denials::Message if words => DenialForm::Message,
        Denials::Message | Denials::Error => DenialForm::Error,
    }
}

/// Tells the agent of one exchange what came of it.
#[derive(Debug)]
pub(super) struct ResponseBuilder {
    pub(super) dialect: &'static dyn Dialect,
    /// The call as the agent made it.
    pub(super) call: Call,
    pub(super) form: DenialForm,
    pub(super) facts: Facts,
}

impl ResponseBuilder {
    /// The response, when none of it is out yet.
    pub(super) fn tell(&self, reply: Reply) -> Response {
        let response = match reply {
            Reply::Upstream(response) => response,
            Reply::Answered(answer) => self.compose(&self.answer(&answer)),
            Reply::Denied(reason) => match self.form {
                DenialForm::Message => self.compose(&self.message(&reason)),
                DenialForm::Error => ApiError::denied(&reason).render(self.facts.request_id()),
            },
        };
        told(response, &self.facts)
    }

    /// The body, when status 200 is out already: a denial can only be told as a
    /// message, and an error of upstream only by breaking off.
    pub(super) fn tell_late(&self, reply: Result<Reply, ApiError>, framing: Framing) -> Body {
        self.facts.status(StatusCode::OK);
        let body = match reply {
            Ok(Reply::Upstream(response)) if response.status().is_success() => response.into_body(),
            Ok(Reply::Upstream(_)) => broken_body(),
            Ok(Reply::Answered(answer)) => {
                Frames::only(framing, &self.wire(&self.answer(&answer))).into()
            }
            Ok(Reply::Denied(reason)) => {
                Frames::only(framing, &self.wire(&self.message(&reason))).into()
            }
            Err(error) => {
                let reason = error.reason().parts().2;
                self.facts.report(&error);
                let request_id = self.facts.request_id();
                tracing::warn!(request.id = request_id, reason, "a stream breaks off");
                broken_body()
            }
        };
        track(body, &self.facts)
    }

    /// The last chunk of a refused stream.
    pub(super) fn message(&self, reason: &Reason) -> Value {
        let id = self.response_id();
        self.dialect
            .compose_message(&self.call, reason.as_str(), &id)
    }

    /// What a reply says, if it is ours, as an answer of the model.
    pub(super) fn words(&self, reply: &Reply) -> Result<Option<ResponseDocument>, ApiError> {
        let words = match reply {
            Reply::Upstream(_) => return Ok(None),
            Reply::Answered(answer) => self.answer(answer),
            Reply::Denied(reason) => self.message(reason),
        };
        Ok(Some(ResponseDocument::parse(words.to_string().into())?))
    }

    fn answer(&self, answer: &ResponseMutation) -> Value {
        let id = self.response_id();
        self.dialect.compose_answer(&self.call, answer, &id)
    }

    fn response_id(&self) -> String {
        format!("hookgate-{}", self.facts.request_id())
    }

    /// An answer of our own as the agent gets it.
    fn wire(&self, document: &Value) -> Bytes {
        self.dialect.wrap_answer(document.to_string().into())
    }

    fn compose(&self, document: &Value) -> Response {
        let document = self.wire(document);
        let (body, media_type) = match self.call.operation {
            Operation::Stream(framing) => (Frames::only(framing, &document), media_type(framing)),
            _ => (document, media_type(Framing::Array)),
        };
        let mut response = Response::new(Body::from(body));
        let value = HeaderValue::from_static(media_type);
        response.headers_mut().insert(header::CONTENT_TYPE, value);
        response
    }
}

/// The media type of a stream.
pub(super) const fn media_type(framing: Framing) -> &'static str {
    match framing {
        Framing::Sse => "text/event-stream",
        Framing::Array => "application/json; charset=UTF-8",
    }
}

/// A body that breaks off at once.
fn broken_body() -> Body {
    let error = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    Body::from_stream(stream::iter([Err::<Bytes, _>(error)]))
}

//! Replies to the agent: a hook's answer, a denial, or upstream's response.

use std::{io, mem, ops::ControlFlow};

use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderValue, header};
use serde_json::Value;

use super::{model_request::ModelRequest, recording, request_context::RequestContext};
use crate::{
    config::Denials,
    dialect::{
        self, Call, Dialect, DialectError, Framing, Operation, ResponseDocument, ResponseFormat,
    },
    error::{ApiError, ErrorReason},
    event::Reason,
    model::ResponseMutation,
    observe::recorder::{ExchangeEvent, Recorder},
    upstream::{UpstreamResponse, content_headers::UnexpectedContentType, headers, sse},
};

/// The reply to one call.
#[derive(Debug)]
pub(super) enum Reply {
    /// A hook's answer in the place of the model's.
    Answered(ResponseMutation),
    /// A denial by hooks.
    Denied(Reason),
    /// Upstream's response, edited or not.
    Upstream(Response),
}

/// The result of a stage that may end the call.
pub(super) type StageResult = Result<ControlFlow<Reply>, ApiError>;

/// Builds the HTTP response of one call.
#[derive(Debug)]
pub(super) struct Responder {
    dialect: &'static dyn Dialect,
    /// The call as the agent made it.
    call: Call,
    denials: Denials,
    pub(super) recorder: Recorder,
}

impl Responder {
    /// Builds the responses to a hooked call.
    ///
    /// Agents retry for minutes if a call that expects JSON, or a helper call of gemini-cli, is
    /// answered with text. Embeddings contain no text at all. Such calls are denied with an
    /// error.
    pub(super) fn new(context: &RequestContext, request: &ModelRequest) -> Self {
        let can_be_text = request.call.operation.generates()
            && request.expectation.format == ResponseFormat::Text
            && !request.is_helper(&context.hook_context.caller.agent);
        Self {
            dialect: context.dialect,
            call: request.call.clone(),
            denials: if can_be_text {
                context.snapshot.config.denials
            } else {
                Denials::Error
            },
            recorder: context.recorder.clone(),
        }
    }

    /// Builds the response while nothing of it is sent.
    pub(super) fn respond(&self, reply: Reply) -> Response {
        let response = match (reply, self.denials) {
            (Reply::Upstream(response), _) => response,
            (Reply::Denied(reason), Denials::Error) => {
                ApiError::denied(&reason).render(self.recorder.request_id())
            }
            (Reply::Answered(answer), _) => self.respond_with(&self.answer(&answer)),
            (Reply::Denied(reason), Denials::Message) => self.respond_with(&self.message(&reason)),
        };
        finish(response, &self.recorder)
    }

    /// Builds the rest of the body once status 200 is sent: a denial can only be a message, and
    /// an error of upstream can only break the stream.
    pub(super) fn respond_in_stream(&self, reply: Reply, framing: Framing) -> Body {
        let document = match reply {
            Reply::Upstream(response) if response.status().is_success() => {
                return response.into_body();
            }
            Reply::Upstream(response) => {
                return self.break_stream(&ApiError::upstream_status(response.status()));
            }
            Reply::Answered(answer) => self.answer(&answer),
            Reply::Denied(reason) => self.message(&reason),
        };
        StreamEncoder::encode_single(framing, &self.to_wire(&document)).into()
    }

    /// Records an error and builds the rest of a body that breaks off.
    pub(super) fn break_stream(&self, error: &ApiError) -> Body {
        let reason = error.reason().as_str();
        recording::record_cause(&self.recorder, error);
        self.recorder
            .record(&ExchangeEvent::StreamAborted { reason });
        Body::from_stream(stream::iter([Err::<Bytes, _>(io::Error::other(reason))]))
    }

    /// Builds the last chunk of a response that a reply of hooks ends. Returns `None` for
    /// upstream's own response.
    pub(super) fn chunk(&self, reply: &Reply) -> Result<Option<ResponseDocument>, DialectError> {
        let document = match reply {
            Reply::Upstream(_) => return Ok(None),
            Reply::Answered(answer) => self.answer(answer),
            Reply::Denied(reason) => self.message(reason),
        };
        ResponseDocument::parse(document.to_string().into()).map(Some)
    }

    fn message(&self, reason: &Reason) -> Value {
        dialect::build_text_response(&self.call, reason.as_str(), &self.response_id())
    }

    fn answer(&self, answer: &ResponseMutation) -> Value {
        dialect::build_response(&self.call, answer, &self.response_id())
    }

    fn response_id(&self) -> String {
        format!("hookgate-{}", self.recorder.request_id())
    }

    fn to_wire(&self, document: &Value) -> Bytes {
        self.dialect
            .response_envelope()
            .wrap(document.to_string().into())
    }

    fn respond_with(&self, document: &Value) -> Response {
        let json = self.to_wire(document);
        let (body, media_type) = match self.call.operation {
            Operation::Stream(framing) => (
                StreamEncoder::encode_single(framing, &json),
                media_type(framing),
            ),
            _ => (json, media_type(Framing::Array)),
        };
        let mut response = Response::new(Body::from(body));
        let value = HeaderValue::from_static(media_type);
        response.headers_mut().insert(header::CONTENT_TYPE, value);
        response
    }
}

/// Encodes chunks as server-sent events, or as elements of one JSON array.
#[derive(Debug)]
pub(super) struct StreamEncoder {
    pub(super) framing: Framing,
    /// Bytes before the next element of an array.
    separator: &'static [u8],
}

impl StreamEncoder {
    pub(super) const fn new(framing: Framing) -> Self {
        let separator = b"[";
        Self { framing, separator }
    }

    /// Encodes a stream of one chunk.
    pub(super) fn encode_single(framing: Framing, json: &[u8]) -> Bytes {
        let mut encoder = Self::new(framing);
        let mut out = BytesMut::new();
        encoder.write(&mut out, json);
        encoder.write_end(&mut out);
        out.freeze()
    }

    pub(super) fn write(&mut self, out: &mut BytesMut, json: &[u8]) {
        match self.framing {
            Framing::Sse => sse::write_event(out, json),
            Framing::Array => {
                let separator = mem::replace(&mut self.separator, b",\r\n");
                out.extend_from_slice(separator);
                out.extend_from_slice(json);
            }
        }
    }

    pub(super) fn write_end(&self, out: &mut BytesMut) {
        match (self.framing, self.separator) {
            (Framing::Sse, _) => (),
            (Framing::Array, b"[") => out.extend_from_slice(b"[]"),
            (Framing::Array, _) => out.extend_from_slice(b"]"),
        }
    }
}

/// Returns the media type of a stream.
pub(super) const fn media_type(framing: Framing) -> &'static str {
    match framing {
        Framing::Sse => "text/event-stream",
        Framing::Array => "application/json; charset=UTF-8",
    }
}

/// Adds hookgate's headers to a response, and records how its body ends.
pub(super) fn finish(mut response: Response, recorder: &Recorder) -> Response {
    recording::add_headers(recorder, response.headers_mut());
    recording::record_response(recorder, response)
}

/// Returns upstream's response as it is.
pub(super) fn passed(mut answer: UpstreamResponse, recorder: &Recorder) -> Response {
    if answer.media_type() == "text/html" {
        return not_json(&answer, recorder);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status;
    // The body is unchanged, so `content-length` holds.
    *response.headers_mut() = headers::response_headers(mem::take(&mut answer.headers));
    *response.body_mut() = Body::new(answer.into_body());
    response
}

/// Returns an error in the place of an HTML page. An error of upstream keeps its status.
fn not_json(answer: &UpstreamResponse, recorder: &Recorder) -> Response {
    let error = if answer.status.is_success() {
        ApiError::new(
            ErrorReason::UpstreamUnreadable,
            "the model API answered with HTML",
        )
    } else {
        ApiError::upstream_status(answer.status)
    };
    let error = error.with_source(&UnexpectedContentType::from_headers(&answer.headers));
    recording::record_failure(recorder, &error);
    let mut response = error.render(recorder.request_id());
    if let Some(after) = answer.headers.get(header::RETRY_AFTER) {
        let after: HeaderValue = after.clone();
        response.headers_mut().insert(header::RETRY_AFTER, after);
    }
    response
}

/// Error for a response that cannot be parsed, and so cannot be inspected.
pub(super) fn unreadable() -> ApiError {
    let message = "the model API's response cannot be parsed";
    ApiError::new(ErrorReason::UpstreamUnreadable, message)
}

/// Error for a response in which `error` was found.
pub(super) fn unreadable_response(error: &DialectError) -> ApiError {
    unreadable().with_source(error)
}

//! Replies to the agent: a hook's answer, a denial, or upstream's response.

use std::{mem, ops::ControlFlow, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt;

use super::{exchange_events, model_request::ModelRequest, request_context::RequestContext};
use crate::{
    config::Denials,
    dialect::{
        self, Call, Dialect, DialectError, Framing, Operation, ResponseDocument, ResponseFormat,
    },
    error::{ApiError, ErrorReason},
    event::Reason,
    model::ResponseMutation,
    observe::recorder::Recorder,
    session::is_helper_call,
    upstream::{UpstreamResponse, content_headers::UnexpectedContentType, headers},
};

/// The reply to one call.
#[derive(Debug)]
pub(super) enum Reply {
    /// An answer or a denial by hooks.
    Hooks(HookReply),
    /// Upstream's response, edited or not.
    Upstream(Response),
}

/// Decision of hooks that ends a call.
#[derive(Debug)]
pub(super) enum HookReply {
    /// A hook's answer in the place of the model's.
    Answered(ResponseMutation),
    /// A denial by hooks.
    Denied(Reason),
}

/// The result of a stage that may end the call.
pub(super) type StageResult = Result<ControlFlow<HookReply>, ApiError>;

/// Builds the HTTP response of one call.
#[derive(Debug)]
pub(super) struct Responder {
    pub(super) dialect: &'static dyn Dialect,
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
        let (call, expectation) = (&request.call, request.expectation);
        let can_be_text = call.operation.generates()
            && expectation.format == ResponseFormat::Text
            && !is_helper_call(call, expectation, &context.hook_context.caller.agent);
        Self {
            dialect: context.dialect,
            call: call.clone(),
            denials: if can_be_text {
                context.snapshot.config.denials
            } else {
                Denials::Error
            },
            recorder: context.recorder.clone(),
        }
    }

    /// Returns whether a reply is an error while nothing is sent.
    pub(super) const fn is_error(&self, reply: &HookReply) -> bool {
        matches!(
            (reply, self.denials),
            (HookReply::Denied(_), Denials::Error)
        )
    }

    /// Returns the framing of the response; that of an array if it is one JSON body.
    pub(super) const fn framing(&self) -> Framing {
        if let Operation::Stream(framing) = self.call.operation {
            framing
        } else {
            Framing::Array
        }
    }

    /// Returns the media type of the response.
    pub(super) const fn media_type(&self) -> HeaderValue {
        HeaderValue::from_static(match self.framing() {
            Framing::Sse => "text/event-stream",
            Framing::Array => "application/json; charset=UTF-8",
        })
    }

    /// Builds the response while nothing of it is sent.
    pub(super) fn respond(&self, reply: Reply) -> Response {
        let response = match (reply, self.denials) {
            (Reply::Upstream(response), _) => response,
            (Reply::Hooks(HookReply::Denied(reason)), Denials::Error) => {
                ApiError::denied(&reason).render(self.recorder.request_id(), self.dialect)
            }
            (Reply::Hooks(reply), _) => match self.respond_with(&reply) {
                Ok(response) => response,
                Err(error) => {
                    let error = ApiError::from(error);
                    exchange_events::record_failure(&self.recorder, &error);
                    error.render(self.recorder.request_id(), self.dialect)
                }
            },
        };
        finish(response, &self.recorder)
    }

    /// Builds the rest of the body once status 200 is sent: a denial can only be a message, and
    /// an error of upstream can only break the stream.
    pub(super) fn respond_in_stream(&self, reply: Reply) -> Body {
        match reply {
            Reply::Upstream(response) if response.status().is_success() => response.into_body(),
            Reply::Upstream(response) => self.break_stream(&late_error(response.status())),
            Reply::Hooks(reply) => match self.stream_of(&reply) {
                Ok(stream) => stream.into(),
                Err(error) => self.break_stream(&error.into()),
            },
        }
    }

    /// Records an error and builds the rest of a body that breaks off.
    pub(super) fn break_stream(&self, error: &ApiError) -> Body {
        let error = exchange_events::record_break(&self.recorder, error);
        Body::from_stream(stream::iter([Err::<Bytes, _>(error)]))
    }

    /// Builds the last chunk of a response that a reply of hooks ends.
    pub(super) fn chunk(&self, reply: &HookReply) -> Result<ResponseDocument, DialectError> {
        let id = format!("hookgate-{}", self.recorder.request_id());
        let document = match reply {
            HookReply::Answered(answer) => dialect::build_response(&self.call, answer, &id),
            HookReply::Denied(reason) => {
                dialect::build_text_response(&self.call, reason.as_str(), &id)
            }
        };
        ResponseDocument::parse(document.to_string().into())
    }

    fn respond_with(&self, reply: &HookReply) -> Result<Response, DialectError> {
        let body = if let Operation::Stream(_) = self.call.operation {
            self.stream_of(reply)?
        } else {
            self.dialect.close_response(&self.chunk(reply)?)?
        };
        let mut response = Response::new(Body::from(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, self.media_type());
        Ok(response)
    }

    /// Builds a stream with one reply.
    fn stream_of(&self, reply: &HookReply) -> Result<Bytes, DialectError> {
        let mut writer = self.dialect.chunk_writer(self.framing());
        writer.write(&self.chunk(reply)?)?;
        writer.write_end()?;
        Ok(writer.output().split().freeze())
    }
}

/// Adds hookgate's headers to a response, and records how its body ends.
pub(super) fn finish(mut response: Response, recorder: &Recorder) -> Response {
    exchange_events::add_headers(recorder, response.headers_mut());
    exchange_events::record_response(recorder, response)
}

/// Returns upstream's response as it is, unless it is an HTML page.
pub(super) fn passed(answer: UpstreamResponse, context: &RequestContext) -> Response {
    if answer.has_media_type("text/html") {
        return not_json(&answer, context);
    }
    unchanged(answer, context)
}

/// Returns upstream's response as it is.
pub(super) fn unchanged(answer: UpstreamResponse, context: &RequestContext) -> Response {
    let mut answer = exchange_events::record_usage(&context.recorder, answer);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status;
    // The body is unchanged, so `content-length` holds.
    *response.headers_mut() = headers::response_headers(mem::take(&mut answer.headers));
    let recorder = context.recorder.clone();
    let body = answer.into_body();
    let body = body.map_err(move |error| exchange_events::record_break(&recorder, &error.into()));
    *response.body_mut() = Body::new(body);
    response
}

/// Returns an error in the place of an HTML page. An error of upstream keeps its status.
fn not_json(answer: &UpstreamResponse, context: &RequestContext) -> Response {
    let recorder = &context.recorder;
    let error = if answer.status.is_success() {
        ApiError::new(
            ErrorReason::UpstreamUnreadable,
            "the model API answered with HTML",
        )
    } else {
        ApiError::upstream_status(answer.status, "without JSON")
    };
    let mut error = error.with_source(&UnexpectedContentType::from_headers(&answer.headers));
    exchange_events::record_failure(recorder, &error);
    let retry_after = answer.headers.get(header::RETRY_AFTER);
    // Some body forms name the seconds, too.
    if let Some(seconds) = retry_after.and_then(|value| value.to_str().ok()?.parse().ok()) {
        error = error.with_retry_after(Duration::from_secs(seconds));
    }
    let mut response = error.render(recorder.request_id(), context.dialect);
    if let Some(after) = retry_after {
        // It may be a date.
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, after.clone());
    }
    response
}

/// Error for an error response of upstream that comes once status 200 is sent.
pub(super) fn late_error(status: StatusCode) -> ApiError {
    ApiError::upstream_status(status, "after the start of the stream")
}

/// Error for a response that cannot be parsed, and so cannot be inspected.
pub(super) fn unreadable() -> ApiError {
    let message = "the model API's response cannot be parsed";
    ApiError::new(ErrorReason::UpstreamUnreadable, message)
}

/// Error for a response in which `error` was found.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn unreadable_response(error: DialectError) -> ApiError {
    unreadable().with_source(&error)
}

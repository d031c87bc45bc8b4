//! Records requests: starts a recorder, passes bodies and errors to it, and writes its summary
//! into response headers.

use std::io;

use axum::{body::Body, extract::Request, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use http_body_util::BodyExt;

use crate::{
    audit_log::CallerRecord,
    error::{ApiError, ErrorReason},
    event::Caller,
    middleware::{Authenticated, ListenerKind, OnBodyEnd, RejectedRequest, RequestId},
    observe::{
        UsageScanner,
        recorder::{BodySide, ExchangeEvent, ExchangeSummary, Recorder, SinkNeed},
    },
    state::App,
    upstream::UpstreamResponse,
};

const ACTION_HEADER: HeaderName = HeaderName::from_static("x-hookgate-action");
const SESSION_HEADER: HeaderName = HeaderName::from_static("x-hookgate-session");
const HOOKS_HEADER: HeaderName = HeaderName::from_static("x-hookgate-hooks");
const SYSTEM_MESSAGE_HEADER: HeaderName = HeaderName::from_static("x-hookgate-system-message");

/// The summary of a request that has just arrived.
pub(super) fn exchange(authenticated: &Authenticated, request: &Request) -> ExchangeSummary {
    let caller = Caller {
        name: authenticated.identity.name.to_string(),
        ..Caller::default()
    };
    ExchangeSummary::new(RequestId::from_extensions(request.extensions()), caller)
}

/// Starts to record a request.
pub(super) fn start(
    app: &App,
    authenticated: &Authenticated,
    exchange: ExchangeSummary,
    head: &Parts,
) -> Recorder {
    let Authenticated {
        identity, snapshot, ..
    } = authenticated;
    let rejected = || {
        let rejected =
            RejectedRequest::new(&head.method, &head.uri, &head.headers, &head.extensions);
        let mut rejected = rejected.into_record(ListenerKind::Agents);
        rejected.caller = CallerRecord::from(&identity.caller());
        rejected
    };
    snapshot.exchange_recorder(exchange, head, rejected, app.resources.abort.clone())
}

/// Records the pieces of a body and its end, if a sink needs them.
pub(super) fn record_body(recorder: &Recorder, side: BodySide, body: Body) -> Body {
    if !recorder.needs(SinkNeed::Bodies) {
        return body;
    }
    let recording = BodyRecording {
        recorder: recorder.clone(),
        side,
    };
    Body::new(body.map_frame(move |frame| {
        if let Some(piece) = frame.data_ref() {
            let event = ExchangeEvent::BodyPiece(recording.side, piece);
            recording.recorder.record(&event);
        }
        frame
    }))
}

/// Records the end of a body when it is dropped.
struct BodyRecording {
    recorder: Recorder,
    side: BodySide,
}

impl Drop for BodyRecording {
    fn drop(&mut self) {
        self.recorder.record(&ExchangeEvent::BodyEnded(self.side));
    }
}

/// Records the head of upstream's response, and its body as it is read, if a sink needs them.
pub(super) fn record_upstream(recorder: &Recorder, answer: UpstreamResponse) -> UpstreamResponse {
    if !recorder.needs(SinkNeed::Upstream) {
        return answer;
    }
    recorder.record(&ExchangeEvent::UpstreamHead {
        status: answer.status.as_u16(),
        headers: &answer.headers,
    });
    let recorder = recorder.clone();
    answer.with_observer(move |piece| recorder.record(&ExchangeEvent::UpstreamPiece(piece)))
}

/// Records the token counts at the end of a response that is not edited, if a sink needs them.
pub(super) fn record_usage(recorder: &Recorder, answer: UpstreamResponse) -> UpstreamResponse {
    if !recorder.needs(SinkNeed::Usage) {
        return answer;
    }
    let mut usage = UsageRecording {
        recorder: recorder.clone(),
        scanner: UsageScanner::default(),
    };
    answer.with_observer(move |piece| {
        if let Some(piece) = piece {
            usage.scanner.push(piece);
        }
    })
}

/// Records token counts when the response is dropped.
struct UsageRecording {
    recorder: Recorder,
    scanner: UsageScanner,
}

impl Drop for UsageRecording {
    fn drop(&mut self) {
        if let Some(usage) = self.scanner.usage() {
            self.recorder.record(&ExchangeEvent::UsageReported(usage));
        }
    }
}

/// Records the cause of an error, if it has one.
fn record_cause(recorder: &Recorder, error: &ApiError) {
    if let Some(cause) = error.cause() {
        recorder.record(&ExchangeEvent::UpstreamFailed {
            error: cause,
            has_response: error.reason() == ErrorReason::UpstreamUnreadable,
        });
    }
}

/// Records an error that breaks off a response whose status is known. Returns the error of its
/// body.
pub(super) fn record_break(recorder: &Recorder, error: &ApiError) -> io::Error {
    record_cause(recorder, error);
    let reason = error.reason().as_str();
    recorder.record(&ExchangeEvent::StreamAborted { reason });
    io::Error::other(reason)
}

/// Records that a request ends with an error.
pub(super) fn record_failure(recorder: &Recorder, error: &ApiError) {
    record_cause(recorder, error);
    recorder.record(&ExchangeEvent::Failed {
        reason: error.reason().as_str(),
        status: error.status().as_u16(),
    });
}

/// Records the status of a response, and later how its body ends.
pub(super) fn record_response(recorder: &Recorder, response: Response) -> Response {
    let status = response.status().as_u16();
    recorder.record(&ExchangeEvent::ResponseStarted { status });
    let recorder = recorder.clone();
    let record_end = move |end| recorder.record(&ExchangeEvent::ResponseEnded(end));
    response.map(|body| Body::new(OnBodyEnd::new(body, record_end)))
}

/// Adds the `x-hookgate-` headers.
pub(super) fn add_headers(recorder: &Recorder, headers: &mut HeaderMap) {
    let summary = recorder.take_summary();
    headers.insert(ACTION_HEADER, HeaderValue::from_static(summary.action));
    let values = [
        (SESSION_HEADER, &summary.session_id),
        (HOOKS_HEADER, &summary.hooks),
        (SYSTEM_MESSAGE_HEADER, &summary.system_message),
    ];
    for (name, value) in values.into_iter().filter(|(_, value)| !value.is_empty()) {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
}

//! Recorded inputs of a replayed call: its request, session, answers and outputs of hooks. Pure.

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::Value;

use super::comparison::UnknownReason;
use crate::{
    event::{EventName, HookOutput, HookResult, HookStatus},
    recording::{RecordedExchange, RecordedResponse},
    session::{MatchKind, RecordedMatch},
    transport::{RequestRuns, RunKey},
    upstream::StoredAnswer,
};

/// First bytes of gzip (RFC 1952, section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

pub(super) fn request(recorded: &RecordedExchange, body: Vec<u8>) -> Option<Request> {
    let mut request = Request::builder()
        .method(recorded.method.as_str())
        .uri(recorded.target.as_str())
        .body(Body::from(body))
        .ok()?;
    let headers = request.headers_mut();
    headers.extend(header_map(&recorded.headers));
    headers
        .entry(header::HOST)
        .or_insert(HeaderValue::from_static("localhost"));
    Some(request)
}

pub(super) fn header_map(headers: &[(String, String)]) -> HeaderMap {
    let headers = headers.iter().filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value).ok()?))
    });
    headers.collect()
}

pub(super) fn stored_answer(response: &RecordedResponse) -> Result<StoredAnswer, UnknownReason> {
    let pieces = response.chunks.iter().map(|chunk| {
        let bytes = chunk.bytes.bytes();
        let bytes = bytes.ok_or(UnknownReason::AnswerNotRecorded)?;
        Ok(Bytes::from(bytes.into_owned()))
    });
    let pieces: Vec<Bytes> = pieces.collect::<Result<_, _>>()?;
    let mut headers = header_map(&response.head);
    let first = pieces.first();
    if !first.is_some_and(|piece| piece.starts_with(&GZIP_MAGIC)) {
        // Bodies that are inspected are recorded without their content encoding.
        headers.remove(header::CONTENT_ENCODING);
    }
    headers.remove(header::CONTENT_LENGTH);
    Ok(StoredAnswer {
        status: StatusCode::from_u16(response.status).map_err(|_| UnknownReason::NotReplayed)?,
        headers,
        pieces,
        is_complete: response.complete,
    })
}

pub(super) fn session(recorded: &RecordedExchange) -> Option<RecordedMatch> {
    let session = recorded.session.as_ref()?;
    let mut kinds = MatchKind::ALL.into_iter();
    let reported = session.reported.iter();
    Some(RecordedMatch {
        id: session.id.clone(),
        match_kind: kinds.find(|kind| kind.as_str() == session.match_kind)?,
        reported: reported.filter_map(|name| EventName::parse(name)).collect(),
    })
}

/// Returns the recorded outputs of the hooks of a call.
pub(super) fn request_runs(recorded: &RecordedExchange) -> RequestRuns {
    let mut runs = RequestRuns::default();
    for event in &recorded.events {
        let Some(name) = EventName::parse(&event.name) else {
            continue;
        };
        for run in &event.hooks {
            let Some(input) = run.input.clone() else {
                continue;
            };
            let definition = run.definition.clone();
            let key = RunKey { definition, input };
            let output = match &run.output {
                Value::Object(fields) => HookOutput::read(fields.clone(), name).0,
                _ => HookOutput::default(),
            };
            let status = match run.status.as_str() {
                "block" => HookStatus::Block,
                "failed" => HookStatus::Failed,
                _ => HookStatus::Ok,
            };
            runs.results.entry(key).or_default().push_back(HookResult {
                status,
                output,
                diagnostics: Vec::new(),
            });
        }
    }
    runs
}

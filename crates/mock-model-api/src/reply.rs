//! Response formats: JSON object, JSON array, server-sent events, and Google's errors.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};

use super::{
    call::{Framing, Line, Wrapping},
    request_log::Finished,
};

/// A response whose body is sent frame by frame.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    frames: Vec<Bytes>,
}

impl Reply {
    pub(super) fn object(document: &Value) -> Self {
        Self::json(StatusCode::OK, vec![document.to_string().into()])
    }

    pub(super) fn bad_request(message: &str) -> Self {
        Self::error(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", message)
    }

    pub(super) fn not_found(message: &str) -> Self {
        Self::error(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    /// Creates a response of chunks, each one JSON text.
    pub(super) fn chunks(chunks: &[String], line: Line<'_>) -> Self {
        let chunks = chunks.iter().map(|chunk| match line.wrapping {
            Wrapping::Plain => chunk.clone(),
            Wrapping::CodeAssist => format!("{{\"response\":{chunk},\"traceId\":\"mock\"}}"),
        });
        match line.framing {
            Framing::Object => Self::json(StatusCode::OK, chunks.map(Bytes::from).collect()),
            Framing::Array => Self::json(StatusCode::OK, array(chunks.collect())),
            Framing::Events => Self {
                status: StatusCode::OK,
                content_type: "text/event-stream",
                frames: chunks
                    .map(|it| format!("data: {it}\r\n\r\n").into())
                    .collect(),
            },
        }
    }

    fn error(status: StatusCode, name: &str, message: &str) -> Self {
        let document = json!({
            "error": { "code": status.as_u16(), "message": message, "status": name }
        });
        Self::json(status, vec![document.to_string().into()])
    }

    fn json(status: StatusCode, frames: Vec<Bytes>) -> Self {
        Self {
            status,
            content_type: "application/json; charset=UTF-8",
            frames,
        }
    }

    /// Returns the whole response at once.
    pub(super) fn into_response(self) -> Response {
        let body = Body::from(self.frames.concat());
        respond(self.status, self.content_type, body)
    }

    /// Returns the response frame by frame, with a pause before each. If the client
    /// disconnects, `finished` is never set.
    pub(super) fn stream(self, pause: Duration, finished: Finished) -> Response {
        if self.frames.is_empty() {
            finished.set();
        }
        let frames = (self.frames.into_iter(), finished);
        let body = stream::unfold(frames, move |(mut frames, finished)| async move {
            let frame = frames.next()?;
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            if frames.len() == 0 {
                finished.set();
            }
            Some((Ok::<_, Infallible>(frame), (frames, finished)))
        });
        respond(self.status, self.content_type, Body::from_stream(body))
    }
}

/// Splits one JSON array into frames of one element each.
fn array(chunks: Vec<String>) -> Vec<Bytes> {
    let last = chunks.len().saturating_sub(1);
    if chunks.is_empty() {
        return vec!["[]".into()];
    }
    let frame = |(index, chunk)| {
        let before = if index == 0 { "[" } else { ",\r\n" };
        let after = if index == last { "]" } else { "" };
        format!("{before}{chunk}{after}").into()
    };
    chunks.into_iter().enumerate().map(frame).collect()
}

fn respond(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

//! Response formats: JSON object, JSON array, server-sent events, errors.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;

use super::{
    call::{Framing, Line, Wrapping},
    family::{Family, REQUEST_ID},
    request_log::Finished,
    sse::native_events,
};

/// A response whose body is sent frame by frame.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    family: Family,
    frames: Vec<Bytes>,
}

impl Reply {
    pub(super) fn object(family: Family, document: &Value) -> Self {
        Self::json(family, StatusCode::OK, vec![document.to_string().into()])
    }

    /// Creates an error in the shape of the family.
    pub(super) fn error(family: Family, status: StatusCode, message: &str) -> Self {
        let document = family.error(status, message);
        Self::json(family, status, vec![document.to_string().into()])
    }

    pub(super) fn bad_request(family: Family, message: &str) -> Self {
        Self::error(family, StatusCode::BAD_REQUEST, message)
    }

    /// Creates a stream of server-sent events, several of them to a frame.
    pub(super) fn events(family: Family, frames: Vec<Bytes>) -> Self {
        Self {
            status: StatusCode::OK,
            content_type: "text/event-stream; charset=utf-8",
            family,
            frames,
        }
    }

    /// Creates a response of JSON texts that are in the form of the family.
    pub(super) fn native(family: Family, texts: Vec<String>, framing: Framing) -> Self {
        match framing {
            Framing::Events => Self::events(family, native_events(&texts)),
            Framing::Object | Framing::Array => {
                let frames = texts.into_iter().map(Bytes::from).collect();
                Self::json(family, StatusCode::OK, frames)
            }
        }
    }

    /// Creates a response of chunks, each one JSON text.
    pub(super) fn chunks(chunks: &[String], line: Line<'_>) -> Self {
        let chunks = chunks.iter().map(|chunk| match line.wrapping {
            Wrapping::Plain => chunk.clone(),
            Wrapping::CodeAssist => format!("{{\"response\":{chunk},\"traceId\":\"mock\"}}"),
        });
        match line.framing {
            Framing::Object => Self::json(
                Family::Google,
                StatusCode::OK,
                chunks.map(Bytes::from).collect(),
            ),
            Framing::Array => Self::json(Family::Google, StatusCode::OK, array(chunks.collect())),
            Framing::Events => Self {
                status: StatusCode::OK,
                content_type: "text/event-stream",
                family: Family::Google,
                frames: chunks
                    .map(|chunk| format!("data: {chunk}\r\n\r\n").into())
                    .collect(),
            },
        }
    }

    fn json(family: Family, status: StatusCode, frames: Vec<Bytes>) -> Self {
        let content_type = match family {
            Family::Google => "application/json; charset=UTF-8",
            Family::Anthropic | Family::OpenAi => "application/json",
        };
        Self {
            status,
            content_type,
            family,
            frames,
        }
    }

    /// Returns the whole response at once.
    pub(super) fn into_response(mut self) -> Response {
        let body = std::mem::take(&mut self.frames).concat();
        self.respond(body.into())
    }

    /// Returns the response frame by frame, with a pause before each. If the client
    /// disconnects, `finished` is never set.
    pub(super) fn stream(mut self, pause: Duration, finished: Finished) -> Response {
        if self.frames.is_empty() {
            finished.set();
        }
        let frames = (std::mem::take(&mut self.frames).into_iter(), finished);
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
        self.respond(Body::from_stream(body))
    }

    /// Returns a response with the head of this reply.
    fn respond(&self, body: Body) -> Response {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if let Some(name) = self.family.request_id_header() {
            headers.insert(name, HeaderValue::from_static(REQUEST_ID));
        }
        response
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

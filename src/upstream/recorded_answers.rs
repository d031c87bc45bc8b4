//! Recorded answers of a model API, given instead of calls.

use std::{collections::VecDeque, mem};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;

use super::{
    error::UpstreamError,
    request::OutgoingRequest,
    response::{BodySource, UpstreamResponse},
};
use crate::mutex::Mutex;

/// The answers to the calls of one request, in order. Sends nothing.
#[derive(Debug)]
pub struct RecordedAnswers(Mutex<AnswerQueue>);

#[derive(Debug)]
struct AnswerQueue {
    answers: VecDeque<Option<StoredAnswer>>,
    sent: Vec<SentRequest>,
}

/// One answer of a model API.
#[derive(Debug, Clone)]
pub struct StoredAnswer {
    /// HTTP status of the answer.
    pub status: StatusCode,
    /// Headers that describe the body.
    pub headers: HeaderMap,
    /// Pieces of the body, as they arrived.
    pub pieces: Vec<Bytes>,
    /// True if the body was read to its end.
    pub is_complete: bool,
}

/// A request that would have been sent.
#[derive(Debug)]
pub struct SentRequest {
    /// Path and query of the request.
    pub target: String,
    /// Body of the request.
    pub body: Bytes,
}

impl RecordedAnswers {
    /// Gives these answers. `None` is a call without an answer.
    pub fn new(answers: impl IntoIterator<Item = Option<StoredAnswer>>) -> Self {
        Self(Mutex::new(AnswerQueue {
            answers: answers.into_iter().collect(),
            sent: Vec::new(),
        }))
    }

    /// Reads a request to its end and returns the next answer.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::NotRecorded`] if there is none.
    pub async fn send(&self, outgoing: OutgoingRequest) -> Result<UpstreamResponse, UpstreamError> {
        let body = outgoing.body.into_http_body().collect().await;
        let body = body.map_err(|_| UpstreamError::NotRecorded)?.to_bytes();
        let answer = {
            let mut queue = self.0.lock();
            queue.sent.push(SentRequest {
                target: outgoing.target.to_string(),
                body,
            });
            queue.answers.pop_front().flatten()
        };
        let answer = answer.ok_or(UpstreamError::NotRecorded)?;
        let source = BodySource::Recorded {
            pieces: answer.pieces.into(),
            is_complete: answer.is_complete,
        };
        Ok(UpstreamResponse::recorded(
            answer.status,
            answer.headers,
            source,
        ))
    }

    /// Takes the requests so far.
    pub fn take_sent(&self) -> Vec<SentRequest> {
        mem::take(&mut self.0.lock().sent)
    }
}

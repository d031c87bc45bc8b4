//! Requests as they arrived.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::http::{HeaderMap, Method, Uri, request::Parts};
use bytes::Bytes;
use serde_json::{Map, Value, json};

const MAX_REQUESTS: usize = 10_000;
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The last requests, bounded in number and in bytes of their bodies.
#[derive(Debug, Default)]
pub(super) struct RequestLog(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    requests: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    finished: Arc<AtomicBool>,
}

/// Records that a response was sent completely.
#[derive(Debug)]
pub(super) struct Finished(Arc<AtomicBool>);

impl Finished {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl RequestLog {
    /// Records a request and drops the oldest ones beyond the bounds.
    pub(super) fn record(&self, head: &Parts, body: Bytes) -> Finished {
        let finished = Arc::new(AtomicBool::new(false));
        let entry = Entry {
            method: head.method.clone(),
            uri: head.uri.clone(),
            headers: head.headers.clone(),
            body,
            finished: finished.clone(),
        };
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.bytes += entry.body.len();
        log.requests.push_back(entry);
        while log.requests.len() > MAX_REQUESTS || log.bytes > MAX_BYTES {
            let Some(oldest) = log.requests.pop_front() else {
                break;
            };
            log.bytes -= oldest.body.len();
        }
        Finished(finished)
    }

    pub(super) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Entries::default();
    }

    /// Returns all recorded requests, oldest first.
    pub(super) fn to_json(&self) -> Value {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.requests.iter().map(Entry::to_json).collect()
    }
}

impl Entry {
    fn to_json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        let body = serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| Value::String(text.clone().into_owned()));
        json!({
            "method": self.method.as_str(),
            "path": self.uri.path(),
            "query": self.uri.query().unwrap_or_default(),
            "headers": headers(&self.headers),
            "body": body,
            "body_text": text,
            "finished": self.finished.load(Ordering::Acquire),
        })
    }
}

/// Returns headers with lower-case names; repeated headers are joined by `, `.
fn headers(headers: &HeaderMap) -> Map<String, Value> {
    headers
        .keys()
        .map(|name| {
            let values: Vec<_> = headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()))
                .collect();
            (name.to_string(), Value::String(values.join(", ")))
        })
        .collect()
}

//! Recordings as an HTTP Archive (HAR 1.2): what agents sent and received.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::Source;
use crate::{
    cli::{
        failure::Failure,
        output::{print, print_record},
    },
    recording::{RecordedBody, RecordedExchange},
};

/// Address of the gateway in the archive, whose own is not recorded.
const BASE_URL: &str = "http://hookgate";

/// Prints the archive. Entry by entry, so that a recording of any size fits.
pub(super) fn export(source: &Source) -> Result<(), Failure> {
    let creator = json!({ "name": "hookgate", "version": env!("CARGO_PKG_VERSION") });
    print(&format!(
        "{{\"log\":{{\"version\":\"1.2\",\"creator\":{creator},\"entries\":["
    ))?;
    let mut separator = "";
    let read = source.for_each(|exchange| {
        let printed = print_record(&format!("{separator}{}", entry(exchange)))?;
        separator = ",";
        Ok(printed)
    });
    print("]}}")?;
    read
}

fn entry(exchange: &RecordedExchange) -> Value {
    let answer = exchange.answer.as_ref();
    let wait = answer.map_or(exchange.outcome.ms, |answer| answer.ms);
    let receive = exchange.outcome.ms.saturating_sub(wait);
    json!({
        "startedDateTime": exchange.time,
        "time": exchange.outcome.ms,
        "request": request(exchange),
        "response": response(exchange),
        "cache": {},
        "timings": { "send": 0, "wait": wait, "receive": receive },
        "_hookgate": {
            "id": exchange.id, "caller": exchange.caller, "session": exchange.session,
            "revision": exchange.revision, "outcome": exchange.outcome,
        },
    })
}

fn request(exchange: &RecordedExchange) -> Value {
    let body = content(exchange.request.bytes().map(Cow::into_owned));
    let (_, query) = exchange.target.split_once('?').unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        json!({ "name": name, "value": value })
    });
    let headers = exchange.headers.iter();
    let headers = headers.map(|(name, value)| json!({ "name": name, "value": value }));
    json!({
        "method": exchange.method,
        "url": format!("{BASE_URL}{}", exchange.target),
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": headers.collect::<Vec<_>>(),
        "queryString": pairs.collect::<Vec<_>>(),
        "postData": body,
        "headersSize": -1,
        "bodySize": body.get("size"),
    })
}

fn response(exchange: &RecordedExchange) -> Value {
    let content = content(exchange.answer_bytes());
    json!({
        "status": exchange.answer.as_ref().map_or(0, |answer| answer.status),
        "statusText": "",
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": [],
        "content": content,
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": content.get("size"),
    })
}

/// Returns a body with its length; empty if it is not recorded.
fn content(bytes: Option<Vec<u8>>) -> Value {
    let bytes = bytes.unwrap_or_default();
    let is_stream = bytes.starts_with(b"data:") || bytes.starts_with(b"event:");
    let media_type = if is_stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    match RecordedBody::from_bytes(&bytes) {
        RecordedBody::Base64(text) => json!({
            "size": bytes.len(), "mimeType": "application/octet-stream", "text": text,
            "encoding": "base64",
        }),
        RecordedBody::Text(text) => {
            json!({ "size": bytes.len(), "mimeType": media_type, "text": text })
        }
        RecordedBody::Same | RecordedBody::Omitted(_) => Value::Null,
    }
}

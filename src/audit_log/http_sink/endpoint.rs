//! The endpoint of a sink: request bodies in its format, and the meaning of responses.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    ops::Range,
    sync::Arc,
};

use chained_log::PlacedLine;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde::Deserialize;
use thiserror::Error;

use crate::{
    audit_log::field_mask::masked,
    config::{AuditSinkSettings, SinkFormat},
    service_client::{ClientError, RequestError, client_builder, read_body},
};

/// Bytes of a response that are read. Elasticsearch reports on each line, so the batch of a longer
/// one is too large.
const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;

/// An endpoint that receives lines.
#[derive(Debug)]
pub(in crate::audit_log) struct SinkEndpoint {
    pub(in crate::audit_log) settings: AuditSinkSettings,
    client: reqwest::Client,
    headers: HeaderMap,
}

/// Error of reading lines from the log or sending them to the endpoint.
#[derive(Debug, Error)]
pub(super) enum SendError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("request or its response too large")]
    TooLarge,
    #[error("some lines were refused for now")]
    Busy,
    #[error("the response is not one of the bulk API")]
    Response,
    #[error("failed to read the log: {0}")]
    Disk(#[from] io::Error),
}

/// Lines that the endpoint has answered, but does not have.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnsentLines {
    /// Lines that it will never accept.
    pub(super) refused: u64,
    /// Lines that are damaged on the disk, and were left out.
    pub(super) damaged: u64,
}

/// Compressed body of a request, and the number of its lines.
#[derive(Debug)]
struct EncodedLines {
    bytes: Vec<u8>,
    lines: u64,
}

/// Response of the bulk API.
#[derive(Deserialize)]
struct BulkResponse {
    errors: bool,
    #[serde(default)]
    items: Vec<BTreeMap<String, BulkItem>>,
}

#[derive(Deserialize)]
struct BulkItem {
    status: u16,
}

/// The fields of a line that formats need.
#[derive(Deserialize)]
struct LineKey<'a> {
    time: &'a str,
    hash: &'a str,
}

impl SinkEndpoint {
    /// Creates an endpoint; opens no connection.
    ///
    /// # Errors
    ///
    /// Fails if the HTTP client cannot be built.
    pub(in crate::audit_log) fn new(settings: &AuditSinkSettings) -> Result<Self, ClientError> {
        let client = client_builder().timeout(settings.timeout).http1_only();
        let client = client.build()?;
        let mut headers = settings.header_map();
        let content_type = match settings.format {
            SinkFormat::JsonArray | SinkFormat::SplunkHec => "application/json",
            SinkFormat::ElasticBulk => "application/x-ndjson",
        };
        let gzip = HeaderValue::from_static("gzip");
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::CONTENT_ENCODING, gzip);

        Ok(Self {
            settings: settings.clone(),
            client,
            headers,
        })
    }

    /// Sends lines once. Returns the number of those that the endpoint will never have.
    pub(super) async fn send(
        self: &Arc<Self>,
        lines: &Arc<Vec<PlacedLine>>,
        range: Range<usize>,
    ) -> Result<UnsentLines, SendError> {
        let all = range.len() as u64;
        let (endpoint, lines) = (Arc::clone(self), Arc::clone(lines));
        let body = tokio::task::spawn_blocking(move || {
            endpoint.body(lines.get(range).unwrap_or_default())
        });
        let body = body.await.map_err(io::Error::from)??;
        let damaged = all.saturating_sub(body.lines);
        let refused = if body.lines > 0 {
            self.post(body.bytes).await?
        } else {
            0
        };
        Ok(UnsentLines { refused, damaged })
    }

    /// Sends a body. Returns the number of lines that the endpoint will never accept.
    async fn post(&self, body: Vec<u8>) -> Result<u64, SendError> {
        let request = self.client.post(self.settings.url.clone());
        let sent = request.headers(self.headers.clone()).body(body).send();
        let response = sent.await.map_err(RequestError::from)?;
        match response.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Err(SendError::TooLarge),
            status if !status.is_success() => Err(RequestError::Status(status).into()),
            _ if self.settings.format == SinkFormat::ElasticBulk => {
                let body = read_body(response, MAX_RESPONSE_BYTES).await;
                let body = body.map_err(RequestError::from)?;
                refused_lines(&body.ok_or(SendError::TooLarge)?)
            }
            _ => Ok(0),
        }
    }

    /// Returns the body of a request with these lines, but for those that are no JSON.
    fn body(&self, lines: &[PlacedLine]) -> io::Result<EncodedLines> {
        let mut body = GzEncoder::new(Vec::new(), Compression::fast());
        let is_array = self.settings.format == SinkFormat::JsonArray;
        if is_array {
            body.write_all(b"[")?;
        }
        let lines = lines.iter();
        let lines = lines.filter_map(|line| masked(&self.settings.mask, &line.bytes));
        let mut count = 0;
        for line in lines {
            let (before, after) = match self.settings.format {
                SinkFormat::JsonArray if count == 0 => (Some(String::new()), ""),
                SinkFormat::JsonArray => (Some(",".to_owned()), ""),
                SinkFormat::SplunkHec => (splunk_event(&line), "}\n"),
                SinkFormat::ElasticBulk => (bulk_action(&line), "\n"),
            };
            // Damaged within its time or hash.
            let Some(before) = before else { continue };
            body.write_all(before.as_bytes())?;
            body.write_all(&line)?;
            body.write_all(after.as_bytes())?;
            count += 1;
        }
        if is_array {
            body.write_all(b"]")?;
        }
        Ok(EncodedLines {
            bytes: body.finish()?,
            lines: count,
        })
    }
}

impl SendError {
    /// Returns the label of metrics.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Request(RequestError::Connection) => "connection",
            Self::Request(RequestError::Timeout) => "timeout",
            Self::Request(RequestError::Status(_)) | Self::TooLarge | Self::Busy => "status",
            Self::Response => "response",
            Self::Disk(_) => "disk",
        }
    }
}

/// Returns the beginning of an event of Splunk's HTTP Event Collector, up to its `event`; `None` if
/// the line has no time.
fn splunk_event(line: &[u8]) -> Option<String> {
    let time: Timestamp = key(line)?.time.parse().ok()?;
    let (seconds, milliseconds) = (time.as_second(), time.subsec_millisecond());
    Some(format!(
        r#"{{"time":{seconds}.{milliseconds:03},"source":"hookgate","sourcetype":"hookgate:audit","event":"#
    ))
}

/// Returns the action of the bulk API for a line. The hash as id makes a line that is
/// sent twice one document.
fn bulk_action(line: &[u8]) -> Option<String> {
    let hash = key(line)?.hash;
    Some(format!("{{\"create\":{{\"_id\":\"{hash}\"}}}}\n"))
}

fn key(line: &[u8]) -> Option<LineKey<'_>> {
    serde_json::from_slice(line).ok()
}

/// Returns the number of lines that the bulk API will never accept; 409 means that it has
/// a line already.
fn refused_lines(response: &[u8]) -> Result<u64, SendError> {
    let response = serde_json::from_slice(response);
    let response: BulkResponse = response.map_err(|_| SendError::Response)?;
    if !response.errors {
        return Ok(0);
    }
    let items = response.items.iter().flat_map(BTreeMap::values);
    let statuses: Vec<u16> = items.map(|item| item.status).collect();
    let is_busy = |status: &u16| *status == 429 || *status >= 500;
    if statuses.iter().any(is_busy) {
        return Err(SendError::Busy);
    }
    let refused = |status: &&u16| **status >= 400 && **status != 409;
    Ok(statuses.iter().filter(refused).count() as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use chained_log::ReadPosition;
    use flate2::read::GzDecoder;

    use super::*;

    const LINE: &str =
        r#"{"seq":1,"prev":"P","time":"2026-11-25T10:00:00.007Z","kind":"stop","hash":"H"}"#;

    /// Returns the text of a body with these lines, and the number of lines in it.
    fn body(format: &str, lines: &[&str]) -> (String, u64) {
        let settings = serde_json::json!({ "url": "http://127.0.0.1:9/", "format": format });
        let settings = serde_json::from_value(settings).unwrap();
        let position = ReadPosition {
            file: 1,
            offset: 0,
            seq: 1,
            hash: "H".to_owned(),
        };
        let lines = lines.iter().map(|line| PlacedLine {
            bytes: line.as_bytes().to_vec(),
            position: position.clone(),
        });
        let lines: Vec<PlacedLine> = lines.collect();
        let body = SinkEndpoint::new(&settings).unwrap().body(&lines).unwrap();
        let mut text = String::new();
        let mut decoder = GzDecoder::new(io::Cursor::new(body.bytes));
        decoder.read_to_string(&mut text).unwrap();
        (text, body.lines)
    }

    #[test]
    fn bodies_hold_the_bytes_of_intact_lines_in_each_format() {
        let damaged = LINE.trim_end_matches('}');
        let body = |format: &str| {
            let (text, lines) = body(format, &[damaged, LINE, LINE]);
            assert_eq!(lines, 2);
            text
        };
        assert_eq!(body("json_array"), format!("[{LINE},{LINE}]"));
        let event = format!(
            "{{\"time\":1764064800.007,\"source\":\"hookgate\",\"sourcetype\":\"hookgate:audit\",\"event\":{LINE}}}\n"
        )
        .replace("1764064800", &"2026-11-25T10:00:00Z".parse::<Timestamp>().unwrap().as_second().to_string());
        assert_eq!(body("splunk_hec"), event.repeat(2));
        let item = format!("{{\"create\":{{\"_id\":\"H\"}}}}\n{LINE}\n");
        assert_eq!(body("elastic_bulk"), item.repeat(2));
    }

    #[test]
    fn a_line_with_a_damaged_time_or_hash_is_left_out() {
        for (format, name) in [("splunk_hec", "time"), ("elastic_bulk", "hash")] {
            let damaged = LINE.replace(&format!("\"{name}\":\""), &format!("\"{name}\":\"\\u0000"));
            let (text, lines) = body(format, &[&damaged, LINE]);
            assert_eq!((lines, text.contains("u0000")), (1, false), "{format}");
        }
    }

    #[test]
    fn a_bulk_response_is_read_line_by_line() {
        let response = |statuses: &[u16]| {
            let item = |status: &u16| format!(r#"{{"create":{{"status":{status},"_id":"x"}}}}"#);
            let items: Vec<String> = statuses.iter().map(item).collect();
            format!(
                r#"{{"took":1,"errors":true,"items":[{}]}}"#,
                items.join(",")
            )
        };

        let refused = refused_lines(response(&[201, 409, 400, 403]).as_bytes());
        assert_eq!(refused.unwrap(), 2);
        for busy in [[201, 429], [503, 201]] {
            let result = refused_lines(response(&busy).as_bytes());
            assert!(matches!(result, Err(SendError::Busy)));
        }
        assert_eq!(refused_lines(br#"{"errors":false}"#).unwrap(), 0);
        assert!(matches!(refused_lines(b"<html>"), Err(SendError::Response)));
    }
}

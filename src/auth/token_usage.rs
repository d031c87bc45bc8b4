//! Token usage read from the bytes of a response as they pass.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use memchr::memmem;

use crate::{model::CallSize, observe::UsageScanner};

/// Reader of the token usage of one response, of any API. Each chunk of a stream reports the
/// numbers so far, so the largest one of each field counts.
///
/// A model that writes such a field as an argument of a call can only increase the count.
///
/// Some APIs report usage in the last chunk only, or only on request, and that of Anthropic reports
/// the request's in the first one. A response that is abandoned, breaks off or reports nothing is
/// charged by an estimate of what it did not report, so that leaving early and not asking are not
/// free.
pub struct UsageReader {
    on_usage: Box<dyn FnMut(u64) + Send>,
    /// Size of the request, which may still be arriving.
    request_bytes: Arc<AtomicUsize>,
    /// Size of the response, while the estimate may still be needed.
    received: Option<CallSize>,
    /// True if the response is part of the estimate.
    counts_response: bool,
    scanner: UsageScanner,
    counted: u64,
}

impl UsageReader {
    /// Creates a reader that calls `on_usage` with tokens as soon as they are known.
    pub fn new(on_usage: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            on_usage: Box::new(on_usage),
            request_bytes: Arc::default(),
            received: None,
            counts_response: true,
            scanner: UsageScanner::default(),
            counted: 0,
        }
    }

    /// Marks that a model was called with a request of this size. From then on, dropping
    /// the reader without a reported usage charges the estimate. It is that of the request
    /// alone if the model writes no text.
    pub fn start(&mut self, request_bytes: Arc<AtomicUsize>, writes_text: bool) {
        self.request_bytes = request_bytes;
        self.counts_response = writes_text;
        self.received = Some(CallSize::default());
    }

    /// Marks the call as failed, which costs nothing.
    pub fn cancel(&mut self) {
        self.received = None;
    }

    /// Reads the next chunk.
    pub fn read(&mut self, chunk: &[u8]) {
        if let Some(received) = &mut self.received
            && self.counts_response
        {
            received.response_bytes += chunk.len() as u64;
            received.events += memmem::find_iter(chunk, b"data:").count() as u64;
        }
        self.scanner.push(chunk);
        let total = self.scanner.reported().total();
        let new = total.saturating_sub(self.counted);
        if new > 0 {
            self.counted = total;
            (self.on_usage)(new);
        }
    }

    /// Marks the clean end of the response. One that has reported its usage is paid for.
    pub fn finish(&mut self) {
        if self.counted > 0 {
            self.received = None;
        }
    }
}

impl Drop for UsageReader {
    fn drop(&mut self) {
        let Some(received) = self.received else {
            return;
        };
        let tokens = if self.counted == 0 {
            let transferred = CallSize {
                request_bytes: self.request_bytes.load(Relaxed) as u64,
                ..received
            };
            transferred.estimated_tokens()
        } else {
            // The reported tokens of the request are exact.
            let reported = self.scanner.reported().answer();
            received.estimated_tokens().saturating_sub(reported)
        };
        if tokens > 0 {
            (self.on_usage)(tokens);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Returns the tokens counted of a response that comes in these chunks.
    fn counted<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> u64 {
        let spent = Arc::<AtomicU64>::default();
        let sink = Arc::clone(&spent);
        let mut reader = UsageReader::new(move |tokens| {
            sink.fetch_add(tokens, Relaxed);
        });
        for chunk in chunks {
            reader.read(chunk);
        }
        spent.load(Relaxed)
    }

    #[test]
    fn the_largest_total_counts_in_either_spelling() {
        let stream = concat!(
            r#"data: {"usageMetadata":{"totalTokenCount": 12}}"#,
            "\r\n\r\n",
            r#"data: {"usageMetadata":{"promptTokenCount":9,"totalTokenCount":31}}"#,
        );
        assert_eq!(counted([stream.as_bytes()]), 31);
        assert_eq!(
            counted([&b"{\"usage\":{\"total_token_count\"\n:\n 5}}"[..]]),
            5
        );
        assert_eq!(
            counted([&b"{\"usage\":{\"totalTokenCount\":99999999999999999999999}}"[..]]),
            u64::MAX
        );
        assert_eq!(counted([&b"{}"[..]]), 0);
    }

    #[test]
    fn each_api_reports_its_usage_in_its_own_fields() {
        let chat = br#"data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#;
        assert_eq!(counted([&chat[..]]), 12);
        let responses = br#"{"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12}}"#;
        assert_eq!(counted([&responses[..]]), 12);
        let started = br#"data: {"type":"message_start","message":{"usage":{"input_tokens":9,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":1}}}"#;
        let ended = br#"data: {"type":"message_delta","usage":{"output_tokens":31}}"#;
        assert_eq!(counted([&started[..], &ended[..]]), 9 + 100 + 1000 + 31);
    }

    /// Returns the charge of a request of 40 bytes with this response, which may end.
    fn charge(response: &[u8], is_complete: bool) -> u64 {
        let spent = Arc::<AtomicU64>::default();
        let sink = Arc::clone(&spent);
        let mut reader = UsageReader::new(move |tokens| {
            sink.fetch_add(tokens, Relaxed);
        });
        reader.start(Arc::new(40.into()), true);
        reader.read(response);
        if is_complete {
            reader.finish();
        }
        drop(reader);
        spent.load(Relaxed)
    }

    #[test]
    fn a_response_that_reports_nothing_is_estimated() {
        for is_complete in [true, false] {
            assert_eq!(charge(b"{\"a\":12345}", is_complete), 13);
            assert_eq!(charge(b"data: {}\n\ndata: {}\n\n", is_complete), 12);
        }
        assert_eq!(charge(br#"{"usage":{"total_tokens":5}}"#, true), 5);
    }

    #[test]
    fn an_abandoned_response_pays_for_what_it_has_not_reported() {
        let started = r#"data: {"message":{"usage":{"input_tokens":9,"output_tokens":1}}}"#;
        let response = format!("{started}\n\n{}", "data: {}\n\n".repeat(49));
        assert_eq!(charge(response.as_bytes(), false), 9 + 50);
        assert_eq!(charge(response.as_bytes(), true), 9 + 1);
        let counted = r#"data: {"usageMetadata":{"promptTokenCount":9,"totalTokenCount":20}}"#;
        assert_eq!(charge(counted.as_bytes(), false), 20);
    }

    #[test]
    fn a_total_inside_a_text_does_not_count() {
        let text = serde_json::json!({ "text": "{\"usage\":{\"total_tokens\": 77}}" }).to_string();
        assert_eq!(counted([text.as_bytes()]), 0);
    }
}

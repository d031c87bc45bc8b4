//! Token usage read from the bytes of a response as they pass.

use memchr::memmem;

use crate::model::CallSize;

/// Fields with a total: Gemini in both spellings, OpenAI.
const TOTAL_FIELDS: [&[u8]; 3] = [
    b"\"totalTokenCount\"",
    b"\"total_token_count\"",
    b"\"total_tokens\"",
];

/// Fields that add up to a total: Anthropic. A stream reports them in several events.
const ADDED_FIELDS: [&[u8]; 4] = [
    b"\"input_tokens\"",
    b"\"cache_creation_input_tokens\"",
    b"\"cache_read_input_tokens\"",
    b"\"output_tokens\"",
];

/// Bytes kept between two chunks: enough for a field name, blanks and a number.
const MAX_TAIL_BYTES: usize = 256;

/// Reader of the token usage of one response, of any API. Each chunk of a stream reports the
/// numbers so far, so the largest one of each field counts.
///
/// A field name inside a text is escaped and does not match. A model that writes one as
/// an argument of a call can only increase the count.
///
/// Some APIs report usage in the last chunk only, or only on request. A response that is
/// abandoned, breaks off before that or reports nothing is charged by an estimate, so that
/// leaving early and not asking are not free.
pub struct UsageReader {
    on_usage: Box<dyn FnMut(u64) + Send>,
    /// Size of request and response, while the estimate may still be needed.
    transferred: Option<CallSize>,
    /// True if the response is part of the estimate.
    counts_response: bool,
    /// End of the last chunk, in which a number may have been cut.
    tail: Vec<u8>,
    /// Largest number of each of [`ADDED_FIELDS`].
    added: [u64; ADDED_FIELDS.len()],
    counted: u64,
}

impl UsageReader {
    /// Creates a reader that calls `on_usage` with tokens as soon as they are known.
    pub fn new(on_usage: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            on_usage: Box::new(on_usage),
            transferred: None,
            counts_response: true,
            tail: Vec::new(),
            added: [0; ADDED_FIELDS.len()],
            counted: 0,
        }
    }

    /// Marks that a model was called with a request of this size. From then on, dropping
    /// the reader without a reported usage charges the estimate. It is that of the request
    /// alone if the model writes no text.
    pub fn start(&mut self, request_bytes: usize, writes_text: bool) {
        self.counts_response = writes_text;
        self.transferred = Some(CallSize {
            request_bytes: request_bytes as u64,
            ..CallSize::default()
        });
    }

    /// Marks the call as failed, which costs nothing.
    pub fn cancel(&mut self) {
        self.transferred = None;
    }

    /// Reads the next chunk.
    pub fn read(&mut self, chunk: &[u8]) {
        if let Some(transferred) = &mut self.transferred
            && self.counts_response
        {
            transferred.response_bytes += chunk.len() as u64;
            transferred.events += memmem::find_iter(chunk, b"data:").count() as u64;
        }
        // The tail and the start of the chunk contain every number that was cut.
        let (start, _) = chunk.split_at(chunk.len().min(MAX_TAIL_BYTES));
        self.tail.extend_from_slice(start);
        let mut total = 0;
        for text in [&self.tail, chunk] {
            total = largest(&TOTAL_FIELDS, text).max(total);
            for (field, added) in ADDED_FIELDS.iter().zip(&mut self.added) {
                *added = largest(&[field], text).max(*added);
            }
        }
        let sum = self.added.iter().copied().fold(0, u64::saturating_add);
        let total = total.max(sum);
        let new = total.saturating_sub(self.counted);
        if new > 0 {
            self.counted = total;
            (self.on_usage)(new);
        }
        if chunk.len() > MAX_TAIL_BYTES {
            let (_, end) = chunk.split_at(chunk.len() - MAX_TAIL_BYTES);
            self.tail = end.to_vec();
        } else {
            let old = self.tail.len().saturating_sub(MAX_TAIL_BYTES);
            self.tail.drain(..old);
        }
    }
}

impl Drop for UsageReader {
    fn drop(&mut self) {
        if let (Some(transferred), 0) = (self.transferred, self.counted) {
            (self.on_usage)(transferred.estimated_tokens());
        }
    }
}

/// Returns the largest number of these fields in a text, which may end within a number.
fn largest(fields: &[&[u8]], text: &[u8]) -> u64 {
    let totals = fields.iter().flat_map(|field| {
        let positions = memmem::find_iter(text, field);
        positions.filter_map(move |at| number_after_colon(text.get(at + field.len()..)?))
    });
    totals.max().unwrap_or(0)
}

fn number_after_colon(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start().strip_prefix(b":")?;
    let digits = text.trim_ascii_start().iter();
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number: u64, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use proptest::prelude::*;

    use super::*;

    /// Returns the tokens counted of a response that comes in these chunks.
    fn counted<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> u64 {
        let spent = Arc::<AtomicU64>::default();
        let sink = Arc::clone(&spent);
        let mut reader = UsageReader::new(move |tokens| {
            sink.fetch_add(tokens, Ordering::Relaxed);
        });
        for chunk in chunks {
            reader.read(chunk);
        }
        spent.load(Ordering::Relaxed)
    }

    #[test]
    fn the_largest_total_counts_in_either_spelling() {
        let stream = concat!(
            r#"data: {"usageMetadata":{"totalTokenCount": 12}}"#,
            "\r\n\r\n",
            r#"data: {"usageMetadata":{"promptTokenCount":9,"totalTokenCount":31}}"#,
        );
        assert_eq!(counted([stream.as_bytes()]), 31);
        assert_eq!(counted([&b"{\"total_token_count\"\n:\n 5}"[..]]), 5);
        assert_eq!(
            counted([&b"{\"totalTokenCount\":99999999999999999999999}"[..]]),
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

    #[test]
    fn a_response_that_reports_nothing_is_estimated() {
        let estimate = |request_bytes, response: &'static [u8]| {
            let spent = Arc::<AtomicU64>::default();
            let sink = Arc::clone(&spent);
            let mut reader = UsageReader::new(move |tokens| {
                sink.fetch_add(tokens, Ordering::Relaxed);
            });
            reader.start(request_bytes, true);
            reader.read(response);
            drop(reader);
            spent.load(Ordering::Relaxed)
        };
        assert_eq!(estimate(40, b"{\"a\":12345}"), 13);
        assert_eq!(estimate(40, b"data: {}\n\ndata: {}\n\n"), 12);
        assert_eq!(estimate(40, br#"{"total_tokens":5}"#), 5);
    }

    #[test]
    fn a_total_inside_a_text_does_not_count() {
        let text = serde_json::json!({ "text": "{\"totalTokenCount\": 77}" }).to_string();
        assert_eq!(counted([text.as_bytes()]), 0);
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(cuts in prop::collection::vec(0_usize..700, 0..20)) {
            let filler = "x".repeat(300);
            let whole = format!(
                r#"{{"a":"{filler}","usageMetadata":{{"totalTokenCount" : 4711}},"b":"{filler}"}}"#
            );
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut start = 0;
            for cut in cuts.into_iter().chain([whole.len()]) {
                chunks.push(&whole.as_bytes()[start..cut]);
                start = cut;
            }
            prop_assert_eq!(counted(chunks), 4711);
        }
    }
}

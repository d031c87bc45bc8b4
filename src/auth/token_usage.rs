//! Token usage read from the bytes of a response as they pass.

use memchr::memmem;

/// Field with the total, in both spellings of the API.
const TOTAL_FIELDS: [&[u8]; 2] = [b"\"totalTokenCount\"", b"\"total_token_count\""];

/// Bytes kept between two chunks: enough for a field name, blanks and a number.
const MAX_TAIL_BYTES: usize = 256;

/// Estimate for responses that report no usage.
const BYTES_PER_TOKEN: u64 = 4;

/// Reader of the token usage of one response. Each chunk of a stream reports the total
/// so far, so the largest number counts.
///
/// A field name inside a text is escaped and does not match. A model that writes one as
/// an argument of a call can only increase the count.
///
/// Some APIs report usage in the last chunk only. A response that is abandoned or breaks
/// off before that is charged by an estimate, so that leaving early is not free.
pub struct UsageReader {
    on_usage: Box<dyn FnMut(u64) + Send>,
    /// Bytes of request and response, while the estimate may still be needed.
    transferred: Option<u64>,
    /// End of the last chunk, in which a number may have been cut.
    tail: Vec<u8>,
    counted: u64,
}

impl UsageReader {
    /// Creates a reader that calls `on_usage` with tokens as soon as they are known.
    pub fn new(on_usage: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            on_usage: Box::new(on_usage),
            transferred: None,
            tail: Vec::new(),
            counted: 0,
        }
    }

    /// Marks that a model was called with a request of this size. From then on, dropping
    /// the reader without a reported usage charges the estimate.
    pub fn start(&mut self, request_bytes: usize) {
        self.transferred = Some(request_bytes as u64);
    }

    /// Marks the response as complete, which disables the estimate.
    pub fn end(&mut self) {
        self.transferred = None;
    }

    /// Reads the next chunk.
    pub fn read(&mut self, chunk: &[u8]) {
        let bytes = chunk.len() as u64;
        self.transferred = self.transferred.map(|all| all.saturating_add(bytes));
        // The tail and the start of the chunk contain every number that was cut.
        let (start, _) = chunk.split_at(chunk.len().min(MAX_TAIL_BYTES));
        self.tail.extend_from_slice(start);
        let total = largest_total(&self.tail).max(largest_total(chunk));
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
        if let (Some(bytes), 0) = (self.transferred, self.counted) {
            (self.on_usage)(bytes.div_ceil(BYTES_PER_TOKEN));
        }
    }
}

/// Returns the largest total in a text, which may end within a number.
fn largest_total(text: &[u8]) -> u64 {
    let totals = TOTAL_FIELDS.iter().flat_map(|field| {
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

//! How many tokens an answer says it cost. Read off the bytes as they pass, so
//! that it is known whether anybody reads the answer or not.

use std::fmt;

use memchr::memmem;

/// How the API writes the sum, in both spellings.
const NAMES: [&[u8]; 2] = [b"\"totalTokenCount\"", b"\"total_token_count\""];

/// What is kept of a piece for the next: a name, blanks and a number fit in.
const KEPT: usize = 256;

/// How many bytes are taken for a token where nobody counts.
const BYTES_PER_TOKEN: u64 = 4;

/// Reads what one answer cost. Each chunk of a stream says what all chunks so far
/// cost, so the largest number counts.
///
/// A name in a text is escaped and not found; one that the model writes as an
/// argument of a call could only make the answer dearer.
///
/// Some APIs count in the last chunk alone. An agent that leaves before that, or an
/// answer that breaks off, costs what can be guessed: nobody reads for nothing.
pub struct UsageReader {
    spend: Box<dyn FnMut(u64) + Send>,
    /// How many bytes went to and fro, as long as what they cost may yet be said.
    open: Option<u64>,
    /// How many bytes of the answer are to come, if that is known.
    rest: Option<u64>,
    /// The end of what was read, where a number may have been cut.
    tail: Vec<u8>,
    counted: u64,
}

impl UsageReader {
    /// `spend` is told of tokens as soon as they are known.
    pub fn new(spend: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            spend: Box::new(spend),
            open: None,
            rest: None,
            tail: Vec::new(),
            counted: 0,
        }
    }

    /// A model is asked with so many bytes. From here on, dropping the reader is
    /// leaving early.
    pub fn begin(&mut self, asked: usize) {
        self.open = Some(asked as u64);
    }

    /// The answer is so many bytes long.
    pub fn expect(&mut self, length: u64) {
        self.rest = Some(length);
    }

    /// All has come that will.
    pub fn end(&mut self) {
        self.open = None;
    }

    /// Reads the next piece.
    pub fn read(&mut self, piece: &[u8]) {
        self.pass(piece.len() as u64);
        // All that can be in the tail and the piece's start together.
        let (start, _) = piece.split_at(piece.len().min(KEPT));
        self.tail.extend_from_slice(start);
        let most = largest(&self.tail).max(largest(piece));
        let fresh = most.saturating_sub(self.counted);
        if fresh > 0 {
            self.counted = most;
            (self.spend)(fresh);
        }
        if piece.len() > KEPT {
            let (_, end) = piece.split_at(piece.len() - KEPT);
            self.tail = end.to_vec();
        } else {
            let old = self.tail.len().saturating_sub(KEPT);
            self.tail.drain(..old);
        }
    }

    fn pass(&mut self, bytes: u64) {
        self.open = self.open.map(|it| it.saturating_add(bytes));
        self.rest = self.rest.map(|it| it.saturating_sub(bytes));
        if self.rest == Some(0) {
            self.end();
        }
    }
}

impl Drop for UsageReader {
    fn drop(&mut self) {
        if let (Some(bytes), 0) = (self.open, self.counted) {
            (self.spend)(bytes.div_ceil(BYTES_PER_TOKEN));
        }
    }
}

/// The largest sum in a text, as far as it is there.
fn largest(text: &[u8]) -> u64 {
    let sums = NAMES.iter().flat_map(|name| {
        let found = memmem::find_iter(text, name);
        found.filter_map(move |at| sum(text.get(at + name.len()..)?))
    });
    sums.max().unwrap_or(0)
}

/// The number after a name.
fn sum(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start().strip_prefix(b":")?;
    let digits = text.trim_ascii_start().iter();
    let digits = digits.take_while(|it| it.is_ascii_digit());
    let sum = |sum: u64, digit: &u8| {
        let sum = sum.saturating_mul(10);
        sum.saturating_add(u64::from(digit - b'0'))
    };
    Some(digits.fold(0, sum))
}

impl fmt::Debug for UsageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsageReader")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use proptest::prelude::*;

    use super::*;

    /// What is counted of an answer that comes in these pieces.
    fn counted<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
        let spent = Arc::<AtomicU64>::default();
        let sink = Arc::clone(&spent);
        let mut reader = UsageReader::new(move |it| {
            sink.fetch_add(it, Ordering::Relaxed);
        });
        for piece in pieces {
            reader.read(piece);
        }
        spent.load(Ordering::Relaxed)
    }

    #[test]
    fn the_largest_sum_counts_in_either_spelling() {
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
    fn what_a_text_says_does_not_count() {
        let text = serde_json::json!({ "text": "{\"totalTokenCount\": 77}" }).to_string();
        assert_eq!(counted([text.as_bytes()]), 0);
    }

    proptest! {
        #[test]
        fn however_it_is_cut(cuts in prop::collection::vec(0_usize..700, 0..20)) {
            let filler = "x".repeat(300);
            let whole = format!(
                r#"{{"a":"{filler}","usageMetadata":{{"totalTokenCount" : 4711}},"b":"{filler}"}}"#
            );
            let mut cuts: Vec<usize> = cuts.into_iter().map(|it| it.min(whole.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut start = 0;
            for cut in cuts.into_iter().chain([whole.len()]) {
                pieces.push(&whole.as_bytes()[start..cut]);
                start = cut;
            }
            prop_assert_eq!(counted(pieces), 4711);
        }
    }
}

//! Server-sent events: bounded reader. Pure.
//!
//! `eventsource-stream` takes ten times as long for a chunk, and quadratic time for a
//! large event that arrives in many pieces (numbers in `ARCHITECTURE.md`). Tests compare
//! this reader with it.

use bytes::Bytes;
use memchr::{memchr, memchr2};
use thiserror::Error;

/// Reasons why a stream cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SseError {
    /// An event exceeds the limit in bytes.
    #[error("one event of the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// A line has no known field. The WHATWG standard ignores such lines, but some
    /// servers write errors between events like this.
    #[error("a line of the answer has no known event field")]
    UnknownField,
}

/// Reads the `data` of events from bytes that may be cut anywhere. Events with empty data are left
/// out: some servers keep a connection open with them.
///
/// Accepts CRLF, LF and CR, comments, other fields, data over several lines and a
/// leading byte order mark (WHATWG HTML, section 9.2).
#[derive(Debug)]
pub struct SseReader {
    limit: usize,
    /// Start of a line that is not complete.
    line: Vec<u8>,
    /// Data lines of the current event, if there are any.
    data: Option<Vec<u8>>,
    /// The last byte was CR: an LF right after it belongs to the same line end.
    after_cr: bool,
    at_start: bool,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

impl SseReader {
    /// Returns a reader that buffers at most `limit` bytes of one event.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: None,
            after_cr: false,
            at_start: true,
        }
    }

    /// Reads the next piece and returns the data of each event that it completes.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Bytes>, SseError> {
        let mut events = Vec::new();
        let mut rest = piece;
        if self.after_cr && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            self.after_cr = false;
        }
        while let Some(at) = memchr2(b'\r', b'\n', rest) {
            let (line, end) = rest.split_at_checked(at).unwrap_or_default();
            self.check_limit(line)?;
            events.extend(self.finish_line(line)?);
            rest = match end {
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
                [] => end,
            };
            self.after_cr = end == b"\r";
        }
        self.check_limit(rest)?;
        self.line.extend_from_slice(rest);
        Ok(events)
    }

    /// Returns the data of a last event without a blank line after it.
    pub fn finish(mut self) -> Result<Option<Bytes>, SseError> {
        let last = self.finish_line(&[])?;
        Ok(last.or_else(|| self.take_data()))
    }

    fn take_data(&mut self) -> Option<Bytes> {
        let data = self.data.take().filter(|data| !data.is_empty());
        data.map(Bytes::from)
    }

    fn check_limit(&self, piece: &[u8]) -> Result<(), SseError> {
        let data = self.data.as_ref().map_or(0, Vec::len);
        if self.line.len() + data + piece.len() > self.limit {
            return Err(SseError::TooLarge(self.limit));
        }
        Ok(())
    }

    fn finish_line(&mut self, end: &[u8]) -> Result<Option<Bytes>, SseError> {
        if self.line.is_empty() {
            return self.read_line(end);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(end);
        self.read_line(&line)
    }

    fn read_line(&mut self, mut line: &[u8]) -> Result<Option<Bytes>, SseError> {
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.take_data());
        }
        let colon = memchr(b':', line).unwrap_or(line.len());
        let (field, value) = line.split_at_checked(colon).unwrap_or_default();
        match field {
            b"data" => {
                let value = value.strip_prefix(b":").unwrap_or(value);
                let value = value.strip_prefix(b" ").unwrap_or(value);
                match &mut self.data {
                    Some(data) => {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                    None => self.data = Some(value.to_vec()),
                }
            }
            // A line with an empty field is a comment.
            b"" | b"event" | b"id" | b"retry" => (),
            _ => return Err(SseError::UnknownField),
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use eventsource_stream::Eventsource;
    use futures_util::{FutureExt, StreamExt, stream};
    use proptest::prelude::*;

    use bytes::BytesMut;

    use super::*;
    use crate::dialect::write_event;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut reader = SseReader::new(1000);
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(reader.push(piece).unwrap());
        }
        events.extend(reader.finish().unwrap());
        let text = |event: Bytes| String::from_utf8(event.to_vec()).unwrap();
        events.into_iter().map(text).collect()
    }

    fn read_by_crate(bytes: &[u8]) -> Vec<String> {
        let bytes = stream::iter([Ok::<_, Infallible>(bytes.to_vec())]);
        let events = bytes.eventsource().map(|event| event.unwrap().data);
        let mut events: Vec<String> = events.collect().now_or_never().unwrap();
        events.retain(|data| !data.is_empty());
        events
    }

    #[test]
    fn every_form_of_the_standard_is_read() {
        for text in [
            "data: {\"a\":1}\r\n\r\ndata: b\r\n\r\n",
            "data: {\"a\":1}\n\ndata: b\n\n",
            "data: {\"a\":1}\r\rdata: b\r\r",
            "\u{feff}: hello\n\nevent: x\nid: 5\ndata:{\"a\":1}\nretry: 1\n\n\n\ndata: b\n\n",
            "data: {\"a\":1}\n\ndata: b",
            "data: {\"a\":1}\r\n\ndata: b\r\n",
        ] {
            assert_eq!(read(&[text.as_bytes()]), ["{\"a\":1}", "b"], "{text:?}");
        }
        assert_eq!(read(&[b"data: a\ndata: b\ndata\n\n"]), ["a\nb\n"]);
        assert_eq!(read(&[b"event: a\n\n: data: b\n\n"]), [""; 0]);
        assert_eq!(read(&[b"data:\n\nevent: ping\ndata: \n\ndata"]), [""; 0]);
    }

    #[test]
    fn a_line_without_a_known_field_is_an_error() {
        for text in ["datax: a\n", "{\"error\":{}}\n", " data: a\n", "Data: a\n"] {
            let pushed = SseReader::new(100).push(text.as_bytes());
            assert_eq!(pushed, Err(SseError::UnknownField), "{text}");
            let mut reader = SseReader::new(100);
            reader.push(text.trim_end().as_bytes()).unwrap();
            assert_eq!(reader.finish(), Err(SseError::UnknownField), "{text}");
        }
    }

    #[test]
    fn an_event_over_the_limit_is_an_error_however_it_is_cut() {
        let mut reader = SseReader::new(10);
        assert!(reader.push(b"data: 0123456789").is_err());
        let mut reader = SseReader::new(10);
        let pieces = std::iter::repeat_n(b"data: 1\n", 9);
        assert!(
            pieces
                .map(|piece| reader.push(piece))
                .any(|read| read.is_err())
        );
    }

    proptest! {
        #[test]
        fn events_are_the_same_however_the_bytes_are_cut(cuts in prop::collection::vec(0_usize..90, 0..8)) {
            let text = "data: {\"t\":\"é😀\"}\r\n\r\n: c\r\ndata: x\rdata: y\n\ndata: z\r\n\r\ndata: last\r\n\r\n".as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut start = 0;
            for cut in cuts {
                pieces.push(&text[start..cut]);
                start = cut;
            }
            pieces.push(&text[start..]);
            prop_assert_eq!(read(&pieces), read(&[text]));
        }

        #[test]
        fn written_events_are_read_back(events in prop::collection::vec("[a-z:é ]{1,9}", 0..5)) {
            let mut written = BytesMut::new();
            for event in &events {
                write_event(&mut written, event.as_bytes());
            }
            prop_assert_eq!(&read(&[&written]), &events);
            prop_assert_eq!(read_by_crate(&written), events);
        }

        #[test]
        fn streams_are_read_as_eventsource_stream_reads_them(
            lines in prop::collection::vec("(data: ?[a-z é]{0,5}|: c|id: 1|event: x|)(\r\n|\n|\r)", 0..12),
        ) {
            // The crate drops a last event without a blank line.
            let text = lines.concat() + "\n\n";
            prop_assert_eq!(read(&[text.as_bytes()]), read_by_crate(text.as_bytes()));
        }
    }
}

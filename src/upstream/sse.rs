//! Bytes to server-sent events and back. Pure.
//!
//! Our own reader, because a bound on one event is part of the contract and
//! `eventsource-stream` has none: it holds whatever an upstream sends.

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr2};
use thiserror::Error;

/// Why a stream cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SseError {
    /// One event is larger than the limit.
    #[error("one event of the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// A line is in no field that events have. The standard would have it skipped,
    /// but such lines are errors that some servers write between events.
    #[error("a line of the answer is of no event")]
    UnknownField,
}

/// Reads the `data` of events out of bytes that may be cut anywhere.
///
/// Understands CRLF, LF and CR, comments, other fields, data over several
/// lines and a leading byte order mark, as the WHATWG standard has them.
#[derive(Debug)]
pub struct SseReader {
    limit: usize,
    /// The start of a line whose end has not come.
    line: Vec<u8>,
    /// The data lines of the event under way, if it has any.
    data: Option<Vec<u8>>,
    /// The last byte was CR: an LF right after it belongs to it.
    after_cr: bool,
    at_start: bool,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

impl SseReader {
    /// A reader that holds at most `limit` bytes of one event.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: None,
            after_cr: false,
            at_start: true,
        }
    }

    /// Takes the next piece in and gives the data of each event it completes.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Bytes>, SseError> {
        let mut events = Vec::new();
        let mut rest = piece;
        if self.after_cr && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            self.after_cr = false;
        }
        while let Some(at) = memchr2(b'\r', b'\n', rest) {
            let (line, end) = rest.split_at_checked(at).unwrap_or_default();
            self.bound(line)?;
            events.extend(self.take(line)?);
            rest = match end {
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
                [] => end,
            };
            self.after_cr = end == b"\r";
        }
        self.bound(rest)?;
        self.line.extend_from_slice(rest);
        Ok(events)
    }

    /// The data of an event that has no blank line behind it, if there is one.
    pub fn finish(mut self) -> Result<Option<Bytes>, SseError> {
        let last = self.take(&[])?;
        Ok(last.or_else(|| self.dispatch()))
    }

    fn bound(&self, piece: &[u8]) -> Result<(), SseError> {
        let data = self.data.as_ref().map_or(0, Vec::len);
        if self.line.len() + data + piece.len() > self.limit {
            return Err(SseError::TooLarge(self.limit));
        }
        Ok(())
    }

    /// Takes in a line, of which this is the end.
    fn take(&mut self, end: &[u8]) -> Result<Option<Bytes>, SseError> {
        if self.line.is_empty() {
            return self.take_whole(end);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(end);
        self.take_whole(&line)
    }

    fn take_whole(&mut self, mut line: &[u8]) -> Result<Option<Bytes>, SseError> {
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.dispatch());
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
            // The first is a comment.
            b"" | b"event" | b"id" | b"retry" => (),
            _ => return Err(SseError::UnknownField),
        }
        Ok(None)
    }

    fn dispatch(&mut self) -> Option<Bytes> {
        self.data.take().map(Bytes::from)
    }
}

/// What keeps a quiet stream open: clients trip over anything else.
pub const KEEP_ALIVE: &[u8] = b"\r\n";

/// Writes one event in the one form that every client reads. Line ends inside
/// JSON are white space, so they become blanks.
pub fn write_event(out: &mut BytesMut, json: &[u8]) {
    out.reserve(json.len() + 10);
    out.extend_from_slice(b"data: ");
    let mut rest = json;
    while let Some(at) = memchr2(b'\r', b'\n', rest) {
        let (line, end) = rest.split_at_checked(at).unwrap_or_default();
        out.extend_from_slice(line);
        out.extend_from_slice(b" ");
        rest = end.get(1..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(b"\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut reader = SseReader::new(1000);
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(reader.push(piece).unwrap());
        }
        events.extend(reader.finish().unwrap());
        let text = |it: Bytes| String::from_utf8(it.to_vec()).unwrap();
        events.into_iter().map(text).collect()
    }

    #[test]
    fn every_legal_form_is_read() {
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
    }

    #[test]
    fn a_line_of_no_event_is_not_skipped() {
        for text in ["datax: a\n", "{\"error\":{}}\n", " data: a\n", "Data: a\n"] {
            let pushed = SseReader::new(100).push(text.as_bytes());
            assert_eq!(pushed, Err(SseError::UnknownField), "{text}");
            let mut reader = SseReader::new(100);
            reader.push(text.trim_end().as_bytes()).unwrap();
            assert_eq!(reader.finish(), Err(SseError::UnknownField), "{text}");
        }
    }

    #[test]
    fn an_event_over_the_limit_is_refused_however_it_is_cut() {
        let mut reader = SseReader::new(10);
        assert!(reader.push(b"data: 0123456789").is_err());
        let mut reader = SseReader::new(10);
        let pieces = std::iter::repeat_n(b"data: 1\n", 9);
        assert!(pieces.map(|it| reader.push(it)).any(|it| it.is_err()));
    }

    proptest! {
        #[test]
        fn every_way_of_cutting_gives_the_same_events(cuts in prop::collection::vec(0_usize..90, 0..8)) {
            let text = "data: {\"t\":\"é😀\"}\r\n\r\n: c\r\ndata: x\rdata: y\n\ndata: z\r\n\r\ndata: last\r\n\r\n".as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|it| it.min(text.len())).collect();
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
        fn what_is_written_is_read_back(events in prop::collection::vec("[a-z:é ]{1,9}", 0..5)) {
            let mut written = BytesMut::new();
            for event in &events {
                write_event(&mut written, event.as_bytes());
            }
            prop_assert_eq!(read(&[&written]), events);
        }
    }
}

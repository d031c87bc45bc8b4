//! An exchange as the sink collects it, and its conversion into a line on the writer thread.

use std::{fmt, io::Read, mem, time::SystemTime};

use bytes::Bytes;
use http::{request::Parts, uri::PathAndQuery};
use jiff::Timestamp;

use super::{
    format::{
        AnswerBody, RecordedAnswer, RecordedBody, RecordedChunk, RecordedEvent, RecordedExchange,
        RecordedResponse, RecordedRound,
    },
    input_hash::{hashed_part, input_hash},
    memory_budget::{MAX_EXCHANGE_BYTES, ReservedBytes},
    recording_mask::{RecordingMask, mask_target},
    request_head::{request_head, without_credentials},
};
use crate::{
    event::EventName,
    observe::redaction::{Redactor, TooManyStrings},
    timestamp::rfc3339,
};

/// Bytes of a body once it is decompressed.
const MAX_DECODED_BYTES: usize = 2 * MAX_EXCHANGE_BYTES;

/// Pieces up to this length are copied, so that they do not keep a read buffer in memory.
const MAX_COPIED_BYTES: usize = 16 * 1024;

/// Bytes beside the content of each piece, event and round.
pub(super) const ITEM_BYTES: usize = 64;

/// A piece of a body and its time in milliseconds.
#[derive(Debug)]
pub(super) struct WirePiece {
    ms: u64,
    bytes: Bytes,
}

/// A call of the model API.
#[derive(Debug)]
pub(super) struct RawRound {
    pub(super) ms: u64,
    pub(super) target: String,
    /// Body; `None` if the agent's is passed through.
    pub(super) sent: Option<Bytes>,
    pub(super) response: Option<RawResponse>,
}

/// A response of the model API, or to the agent.
#[derive(Debug, Default)]
pub(super) struct RawResponse {
    pub(super) ms: u64,
    pub(super) status: u16,
    pub(super) head: Vec<(String, String)>,
    pub(super) pieces: Vec<WirePiece>,
    pub(super) is_complete: bool,
}

/// An exchange as the sink collects it, until it is read.
pub struct CollectedExchange {
    /// Its line, to which [`Self::into_recorded`] adds bodies, rounds and events.
    pub(super) line: RecordedExchange,
    /// Pieces of the request as received; empty once `request` is known.
    pub(super) received: Vec<WirePiece>,
    /// Body of the request, decoded.
    pub(super) request: Option<Bytes>,
    pub(super) rounds: Vec<RawRound>,
    /// Events, with the inputs of their runs.
    pub(super) events: Vec<(RecordedEvent, Vec<Bytes>)>,
    pub(super) answer: Option<RawResponse>,
    pub(super) memory: ReservedBytes,
}

/// A body with the ends of its pieces.
struct WireBody {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    times: Vec<u64>,
    /// Number of bytes as received, if the decoded body is too large, and is cut here.
    omitted: Option<u64>,
}

impl fmt::Debug for CollectedExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectedExchange")
            .field("id", &self.line.id)
            .finish_non_exhaustive()
    }
}

impl WirePiece {
    pub(super) fn new(ms: u64, bytes: &Bytes) -> Self {
        let bytes = if bytes.len() > MAX_COPIED_BYTES {
            bytes.clone()
        } else {
            Bytes::copy_from_slice(bytes)
        };
        Self { ms, bytes }
    }
}

impl CollectedExchange {
    /// An exchange with this head, which arrived at this time.
    pub(super) fn new(head: &Parts, started: SystemTime, memory: ReservedBytes) -> Self {
        let target = head.uri.path_and_query();
        Self {
            line: RecordedExchange {
                v: RecordedExchange::VERSION,
                time: timestamp(started),
                method: head.method.to_string(),
                target: without_credentials(target.map_or("", PathAndQuery::as_str)),
                headers: request_head(&head.headers),
                ..RecordedExchange::default()
            },
            received: Vec::new(),
            request: None,
            rounds: Vec::new(),
            events: Vec::new(),
            answer: None,
            memory,
        }
    }

    /// Returns the bytes of the exchange and of its head.
    pub(super) fn head_bytes(&self) -> usize {
        let headers = self.line.headers.iter();
        let headers = headers.map(|(name, value)| name.len() + value.len() + ITEM_BYTES);
        size_of::<Self>() + self.line.target.len() + headers.sum::<usize>()
    }

    /// Returns whether a body is in memory as that of the request or of the last round.
    pub(super) fn shares_body(&self, body: &Bytes) -> bool {
        let sent = self.rounds.last().and_then(|round| round.sent.as_ref());
        let mut others = self.request.iter().chain(sent);
        others.any(|other| (other.as_ptr(), other.len()) == (body.as_ptr(), body.len()))
    }

    /// Makes the line of the exchange, without a mask, and returns it with the memory that it
    /// holds.
    pub fn into_recorded(self) -> (RecordedExchange, ReservedBytes) {
        self.into_masked(None)
    }

    /// Drops the pieces of the request, and releases their memory.
    pub(super) fn drop_received(&mut self) {
        let received = mem::take(&mut self.received);
        let bytes = received.iter().map(|piece| piece.bytes.len() + ITEM_BYTES);
        self.memory.release(bytes.sum());
    }

    /// Makes the line of the exchange like [`Self::into_recorded`]; masked, unless `mask` is `None`.
    pub(super) fn into_masked(
        self,
        mask: Option<&RecordingMask>,
    ) -> (RecordedExchange, ReservedBytes) {
        let mut redactor = mask.map(RecordingMask::redactor);
        let redactor = &mut redactor;
        let received = match self.request {
            Some(request) => WireBody::whole(&request),
            None => WireBody::new(&self.received),
        };
        let last = self.rounds.last().and_then(|round| round.response.as_ref());
        let mut line = self.line;
        line.answer = self.answer.map(|answer| {
            let is_same = last.is_some_and(|last| last.has_bytes_of(&answer));
            let body = if is_same {
                AnswerBody::Same
            } else {
                AnswerBody::Chunks(WireBody::new(&answer.pieces).into_chunks(redactor))
            };
            let (ms, status) = (answer.ms, answer.status);
            RecordedAnswer { ms, status, body }
        });
        let rounds = self.rounds.into_iter();
        let rounds = rounds.map(|round| round.into_recorded(&received.bytes, redactor));
        line.rounds = rounds.collect();
        let events = self.events.into_iter();
        let events = events.map(|(event, inputs)| masked_event(event, &inputs, redactor));
        line.events = events.collect();
        if let (Some(mask), Some(redactor)) = (mask, &mut *redactor) {
            mask.mask_head(&mut line, redactor);
        }
        line.request = received.into_body(redactor);
        if let Some(redactor) = redactor.take() {
            line.masked = redactor.found().into_keys().collect();
        }
        (line, self.memory)
    }
}

impl RawRound {
    fn into_recorded(self, received: &[u8], redactor: &mut Option<Redactor<'_>>) -> RecordedRound {
        let mut target = self.target;
        if let Some(redactor) = redactor {
            mask_target(&mut target, redactor);
        }
        RecordedRound {
            ms: self.ms,
            target,
            sent: match self.sent {
                Some(sent) if *sent != *received => WireBody::whole(&sent).into_body(redactor),
                _ => RecordedBody::Same,
            },
            response: self.response.map(|response| RecordedResponse {
                ms: response.ms,
                status: response.status,
                head: response.head,
                chunks: WireBody::new(&response.pieces).into_chunks(redactor),
                complete: response.is_complete,
            }),
        }
    }
}

impl RawResponse {
    fn has_bytes_of(&self, other: &Self) -> bool {
        let bytes = |response: &Self| -> usize {
            response.pieces.iter().map(|piece| piece.bytes.len()).sum()
        };
        let flat = |response: &Self| WireBody::concat(&response.pieces);
        bytes(self) == bytes(other) && flat(self) == flat(other)
    }
}

impl WireBody {
    fn whole(bytes: &Bytes) -> Self {
        Self {
            bytes: bytes.to_vec(),
            ends: vec![bytes.len()],
            times: vec![0],
            omitted: None,
        }
    }

    /// Joins pieces. A compressed body is decoded, and becomes one piece.
    fn new(pieces: &[WirePiece]) -> Self {
        let bytes = Self::concat(pieces);
        let times: Vec<u64> = pieces.iter().map(|piece| piece.ms).collect();
        if let Some(decoded) = decoded(&bytes) {
            let is_too_large = decoded.len() > MAX_DECODED_BYTES;
            return Self {
                ends: vec![decoded.len()],
                bytes: decoded,
                times: times.last().copied().into_iter().collect(),
                omitted: is_too_large.then_some(bytes.len() as u64),
            };
        }
        let ends = pieces.iter().scan(0, |end, piece| {
            *end += piece.bytes.len();
            Some(*end)
        });
        Self {
            ends: ends.collect(),
            bytes,
            times,
            omitted: None,
        }
    }

    fn concat(pieces: &[WirePiece]) -> Vec<u8> {
        let length = pieces.iter().map(|piece| piece.bytes.len()).sum();
        let mut bytes = Vec::with_capacity(length);
        for piece in pieces {
            bytes.extend_from_slice(&piece.bytes);
        }
        bytes
    }

    fn into_body(self, redactor: &mut Option<Redactor<'_>>) -> RecordedBody {
        match self.masked(redactor) {
            Ok(body) => match String::from_utf8(body.bytes) {
                Ok(text) => RecordedBody::Text(text),
                Err(error) => RecordedBody::from_bytes(error.as_bytes()),
            },
            Err(length) => RecordedBody::Omitted(length),
        }
    }

    fn into_chunks(self, redactor: &mut Option<Redactor<'_>>) -> Vec<RecordedChunk> {
        let last_ms = self.times.last().copied().unwrap_or_default();
        let body = match self.masked(redactor) {
            Ok(body) => body,
            Err(length) => {
                let bytes = RecordedBody::Omitted(length);
                return vec![RecordedChunk { ms: last_ms, bytes }];
            }
        };
        let mut start = 0;
        let chunks = body.times.iter().zip(&body.ends).map(|(ms, end)| {
            let bytes = body.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            RecordedChunk {
                ms: *ms,
                bytes: RecordedBody::from_bytes(bytes),
            }
        });
        chunks.collect()
    }

    /// Masks the body.
    ///
    /// # Errors
    ///
    /// The number of bytes of a body that is too large, or cannot be masked: it is no text, or has
    /// too many strings.
    fn masked(mut self, redactor: &mut Option<Redactor<'_>>) -> Result<Self, u64> {
        if let Some(length) = self.omitted {
            return Err(length);
        }
        let Some(redactor) = redactor else {
            return Ok(self);
        };
        let length = self.bytes.len() as u64;
        let text = str::from_utf8(&self.bytes).map_err(|_| length)?;
        let masked = redactor.body(text, &mut self.ends);
        if let Some(masked) = masked.map_err(|TooManyStrings| length)? {
            self.bytes = masked.into_bytes();
        }
        Ok(self)
    }
}

fn masked_event(
    mut event: RecordedEvent,
    inputs: &[Bytes],
    redactor: &mut Option<Redactor<'_>>,
) -> RecordedEvent {
    // The input of a chunk may have a part of a secret that chunks split.
    let is_chunk = event.name == EventName::AfterModel.as_str();
    let is_split = is_chunk && redactor.as_ref().is_some_and(Redactor::has_found);
    for (run, input) in event.hooks.iter_mut().zip(inputs) {
        let is_hashed = !input.is_empty() && !is_split && !has_secret(input, redactor.as_ref());
        run.input = is_hashed.then(|| input_hash(input));
    }
    let Some(redactor) = redactor else {
        return event;
    };
    let texts = event.subject.iter_mut().chain(&mut event.reason);
    texts.for_each(|text| redactor.text(text));
    for run in &mut event.hooks {
        redactor.text(&mut run.name);
        redactor.value(&mut run.output);
        for refusal in &mut run.refused {
            redactor.text(&mut refusal.tool);
            redactor.text(&mut refusal.reason);
        }
    }
    event
}

/// Returns whether a hook's input has a secret, which could be guessed by the hash of the input.
fn has_secret(input: &[u8], redactor: Option<&Redactor<'_>>) -> bool {
    redactor.is_some_and(|redactor| {
        let fields = String::from_utf8_lossy(hashed_part(input));
        redactor.finds(&format!("{{{fields}"))
    })
}

/// Decodes a body that begins like a gzip or zstd stream, to at most one byte beyond
/// [`MAX_DECODED_BYTES`]; `None` if it is none.
fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let limit = MAX_DECODED_BYTES as u64 + 1;
    let read = match bytes {
        [0x1f, 0x8b, ..] => flate2::read::MultiGzDecoder::new(bytes)
            .take(limit)
            .read_to_end(&mut out),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            zstd::Decoder::new(bytes).and_then(|decoder| decoder.take(limit).read_to_end(&mut out))
        }
        _ => return None,
    };
    read.is_ok().then_some(out)
}

fn timestamp(time: SystemTime) -> String {
    Timestamp::try_from(time).map_or_else(|_| String::new(), rfc3339)
}

#[cfg(test)]
mod tests {
    use stream_redact::Mask;

    use super::*;

    fn pieces(texts: &[&[u8]]) -> Vec<WirePiece> {
        let pieces = texts.iter().enumerate();
        pieces
            .map(|(at, text)| WirePiece::new(at as u64, &Bytes::copy_from_slice(text)))
            .collect()
    }

    #[test]
    fn chunks_keep_their_cuts_also_within_a_character() {
        let body = WireBody::new(&pieces(&[b"a\xc3", b"\xa9b"]));

        let chunks = body.into_chunks(&mut None);

        let bytes: Vec<_> = chunks
            .iter()
            .map(|chunk| chunk.bytes.bytes().unwrap())
            .collect();
        assert_eq!(bytes, [&b"a\xc3"[..], b"\xa9b"]);
        assert_eq!(chunks[1].ms, 1);
    }

    #[test]
    fn a_compressed_body_is_decoded_to_be_masked() {
        let compressed = zstd::encode_all(&b"write to john@example.com"[..], 1).unwrap();
        let mask = Mask::new(&["email"], &[], &stream_redact::Style::Label).unwrap();

        let body = WireBody::new(&pieces(&[&compressed]));
        let body = body.into_body(&mut Some(Redactor::new(&mask)));

        assert_eq!(
            body,
            RecordedBody::Text("write to [REDACTED:email]".to_owned())
        );
    }

    #[test]
    fn bytes_that_cannot_be_masked_are_omitted() {
        let mask = Mask::new(&["email"], &[], &stream_redact::Style::Label).unwrap();
        let body = |redactor: &mut Option<Redactor<'_>>| {
            WireBody::new(&pieces(&[b"\xff\xfe"])).into_body(redactor)
        };

        assert_eq!(
            body(&mut Some(Redactor::new(&mask))),
            RecordedBody::Omitted(2)
        );
        assert_eq!(body(&mut None), RecordedBody::Base64("//4=".to_owned()));
    }

    #[test]
    fn a_body_with_too_many_strings_to_be_masked_is_omitted() {
        let mask = Mask::new(&["email"], &[], &stream_redact::Style::Label).unwrap();
        let text = format!("[{}1]", r#""\t","#.repeat(530_000));
        let arguments = serde_json::json!({ "arguments": text }).to_string();
        for text in [text, arguments] {
            let pieces = pieces(&[b"[1,", text.as_bytes(), b"]"]);
            let omitted = RecordedBody::Omitted(text.len() as u64 + 4);
            let mut redactor = Some(Redactor::new(&mask));

            let body = WireBody::new(&pieces).into_body(&mut redactor);
            let chunks = WireBody::new(&pieces).into_chunks(&mut redactor);

            assert!(body == omitted);
            assert!(chunks.len() == 1 && chunks[0].bytes == omitted);
        }
    }
}

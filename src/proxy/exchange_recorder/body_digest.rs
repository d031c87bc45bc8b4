//! Bodies whose print is taken as they pass, and the count of tokens at the end
//! of an answer that nobody reads.

use axum::body::Body;
use http_body_util::BodyExt;
use memchr::memmem;
use serde_json::{Deserializer, Value};

use super::ExchangeRecorder;
use crate::audit_log::BodyDigester;

/// How much of an answer's end is kept to find the count in.
const TAIL: usize = 16 * 1024;

/// How the count is called.
const USAGE: [&[u8]; 2] = [b"\"usageMetadata\"", b"\"usage_metadata\""];

/// How the model is called that has answered.
const MODEL: [&[u8]; 2] = [b"\"modelVersion\"", b"\"model_version\""];

/// What the end of an answer says of it.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// How many tokens it was.
    pub(super) usage: Option<Value>,
    /// Which model it is of.
    pub(super) model: Option<Value>,
}

/// Which body it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The request as it came.
    Request,
    /// The answer as it is told.
    Response,
}

/// The same body, of which the print is taken. `facts` are told when the body is
/// dropped.
pub(super) fn watched(
    body: Body,
    side: Side,
    facts: ExchangeRecorder,
    sampler: BodyDigester,
) -> Body {
    let mut watcher = Watcher {
        facts,
        side,
        sampler: Some(sampler),
        tail: Vec::new(),
    };
    Body::new(body.map_frame(move |frame| {
        if let Some(piece) = frame.data_ref() {
            watcher.take(piece);
        }
        frame
    }))
}

/// Tells what it has seen when it is dropped.
#[derive(Debug)]
struct Watcher {
    facts: ExchangeRecorder,
    side: Side,
    sampler: Option<BodyDigester>,
    tail: Vec<u8>,
}

impl Watcher {
    fn take(&mut self, piece: &[u8]) {
        if let Some(sampler) = &mut self.sampler {
            sampler.take(piece);
        }
        if self.side == Side::Response {
            self.tail.extend_from_slice(piece);
            let over = self.tail.len().saturating_sub(TAIL);
            // Not for each piece anew.
            if over > TAIL {
                self.tail.drain(..over);
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(sampler) = self.sampler.take() {
            let said = Said {
                usage: last(&self.tail, &USAGE),
                model: last(&self.tail, &MODEL),
            };
            self.facts.sampled(self.side, sampler.finish(), &said);
        }
    }
}

/// What the last field of such a name holds in the end of an answer. In a text of
/// the model, a quote would stand behind a backslash.
fn last(tail: &[u8], names: &[&[u8]]) -> Option<Value> {
    let places = names.iter().flat_map(|name| {
        let found = memmem::find_iter(tail, name);
        found.map(|at| (at, at + name.len()))
    });
    let free = |it: &(usize, usize)| it.0 == 0 || tail.get(it.0 - 1) != Some(&b'\\');
    let (_, end) = places.filter(free).max()?;
    let rest = tail.get(end..)?.trim_ascii_start().strip_prefix(b":")?;
    Deserializer::from_slice(rest).into_iter().next()?.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_count_counts_and_no_text_is_one() {
        let count = |text: &str| last(text.as_bytes(), &USAGE);

        assert_eq!(count("{}"), None);
        assert_eq!(
            count(r#"data: {"usageMetadata":{"n":1}}\r\ndata: {"usageMetadata" : {"n":2},"x":3}"#),
            Some(json!({ "n": 2 }))
        );
        assert_eq!(
            count(r#"{"usage_metadata":{"n":1},"text":"\"usageMetadata\":{\"n\":9}"}"#),
            Some(json!({ "n": 1 }))
        );
        assert_eq!(count(r#"{"usageMetadata":{"n":"#), None);
    }
}

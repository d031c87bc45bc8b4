//! Details of thoughts, which repeat the texts: they wait until policies release these.

use std::{collections::VecDeque, mem};

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::document::read_json;

/// Details of the thoughts of one choice that are not sent yet.
#[derive(Debug, Default)]
pub struct WaitingDetails {
    /// Details, each with the length of the thoughts up to the end of its piece.
    details: VecDeque<(usize, Bytes)>,
    /// Bytes of the details.
    bytes: usize,
    /// Length of the thoughts so far.
    read: usize,
    /// End of the thoughts that is not sent yet.
    unsent: String,
    /// True if a thought is sent otherwise than the model sent it.
    is_changed: bool,
    /// Name of the latest thought.
    pub name: Option<&'static str>,
}

/// Details for the end of an answer.
pub struct LastDetails {
    pub details: Vec<Bytes>,
    /// True if the thoughts at the end are sent as the model sent them.
    pub has_texts: bool,
}

impl WaitingDetails {
    /// Returns the number of bytes that wait.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the end of a thought is not sent yet.
    pub const fn waits(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Takes the details of a piece with the thought that was `read`, and what is `sent` of it.
    /// Returns the details whose texts are sent now. Those of a changed thought lose their texts.
    pub fn pass(&mut self, details: Vec<Bytes>, read: &str, sent: &str) -> Vec<Bytes> {
        self.read += read.len();
        let end = self.read;
        self.bytes += details.iter().map(Bytes::len).sum::<usize>();
        self.details
            .extend(details.into_iter().map(|detail| (end, detail)));
        let waiting = mem::take(&mut self.unsent) + read;
        match waiting.strip_prefix(sent) {
            Some(rest) if !self.is_changed => rest.clone_into(&mut self.unsent),
            Some("") => (),
            Some(_) | None => {
                self.is_changed = true;
                self.remove_texts();
            }
        }
        let sent = self.read - self.unsent.len();
        let count = self.details.iter().take_while(|(end, _)| *end <= sent);
        let count = count.count();
        let details = self.details.drain(..count).map(|(_, detail)| detail);
        let details: Vec<Bytes> = details.collect();
        self.bytes -= details.iter().map(Bytes::len).sum::<usize>();
        details
    }

    /// Takes the thought of the last chunk. Returns the details that are left.
    pub fn finish(mut self, read: &str, sent: &str) -> LastDetails {
        let was_changed = mem::take(&mut self.is_changed);
        let mut details = self.pass(Vec::new(), read, sent);
        let has_texts = !self.is_changed && !self.waits();
        if was_changed || !has_texts {
            self.remove_texts();
        }
        details.extend(self.details.into_iter().map(|(_, detail)| detail));
        LastDetails { details, has_texts }
    }

    fn remove_texts(&mut self) {
        self.details.retain(|(_, detail)| {
            let detail = read_json::<Value>(detail);
            detail.is_ok_and(|detail| !has_text(&detail))
        });
        self.bytes = self.details.iter().map(|(_, detail)| detail.len()).sum();
    }
}

/// Returns whether a detail repeats the text of its thought.
pub fn has_text(detail: &Value) -> bool {
    let mut texts = ["text", "summary"].iter();
    texts.any(|name| detail.get(name).is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = r#"{"index":0,"text":"a b"}"#;
    const C: &str = r#"{"index":0,"text":"c"}"#;
    const SIGNATURE: &str = r#"{"index":0,"signature":"s"}"#;

    fn passed(
        waiting: &mut WaitingDetails,
        detail: &'static str,
        read: &str,
        sent: &str,
    ) -> String {
        let details = waiting.pass(vec![Bytes::from_static(detail.as_bytes())], read, sent);
        String::from_utf8(details.concat()).unwrap()
    }

    #[test]
    fn details_wait_until_their_text_is_sent() {
        let mut waiting = WaitingDetails::default();
        assert_eq!(passed(&mut waiting, A, "a b", "a "), "");
        assert_eq!(passed(&mut waiting, C, "c", "b"), A);
        assert_eq!(passed(&mut waiting, SIGNATURE, "", ""), "");
        assert_eq!(waiting.bytes(), C.len() + SIGNATURE.len());
        let last = waiting.finish("", "c");
        assert!(last.has_texts);
        assert_eq!(last.details.concat(), [C, SIGNATURE].concat().as_bytes());
    }

    #[test]
    fn details_of_a_changed_thought_lose_their_texts() {
        let mut waiting = WaitingDetails::default();
        assert_eq!(passed(&mut waiting, A, "a b", "a "), "");
        assert_eq!(passed(&mut waiting, SIGNATURE, "", ""), "");
        assert_eq!(passed(&mut waiting, C, "c", "*"), SIGNATURE);
        assert_eq!(passed(&mut waiting, C, "c", "c"), C);
        assert!(waiting.finish("x", "x").has_texts);
    }

    #[test]
    fn details_of_a_thought_that_is_never_sent_lose_their_texts() {
        let mut waiting = WaitingDetails::default();
        assert_eq!(passed(&mut waiting, A, "a b", ""), "");
        let last = waiting.finish("", "");
        assert!(!last.has_texts);
        assert!(last.details.is_empty());
    }
}

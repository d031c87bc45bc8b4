//! Details of thoughts, which repeat the texts: they wait until policies release these.

use std::{collections::VecDeque, mem, ops::Range};

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    document::{Document, read_json},
    error::Result,
    openai_chat::response::answer::{DETAIL_TEXTS, THOUGHT_DETAILS},
};

/// A detail of a thought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThoughtDetail {
    /// Field of the delta with the list that it is in.
    pub list: &'static str,
    pub json: Bytes,
}

/// Details of the thoughts of one choice that are not sent yet.
#[derive(Debug, Default)]
pub struct WaitingDetails {
    details: VecDeque<WaitingDetail>,
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

#[derive(Debug)]
struct WaitingDetail {
    /// Place of its text in the thoughts; the end of its piece, if it repeats no part of it.
    place: Range<usize>,
    detail: ThoughtDetail,
}

/// Details for the end of an answer.
pub struct LastDetails {
    pub details: Vec<ThoughtDetail>,
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
    /// Returns the details whose texts are sent now; one whose text is sent in part is split. Those
    /// of a changed thought lose their texts.
    pub fn pass(
        &mut self,
        details: &[ThoughtDetail],
        read: &str,
        sent: &str,
    ) -> Vec<ThoughtDetail> {
        self.add(details, read);
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
        let mut passed = Vec::new();
        while let Some(mut detail) = self.details.pop_front() {
            self.bytes -= detail.bytes();
            if detail.place.end > sent {
                passed.extend(detail.split_off(sent));
                self.bytes += detail.bytes();
                self.details.push_front(detail);
                break;
            }
            passed.push(detail.detail);
        }
        passed
    }

    fn add(&mut self, details: &[ThoughtDetail], read: &str) {
        let start = self.read;
        self.read += read.len();
        for list in details.chunk_by(|one, other| one.list == other.list) {
            self.add_list(list, start, read);
        }
    }

    /// Adds the details of one list. The thought that was read with them begins at `start`.
    fn add_list(&mut self, details: &[ThoughtDetail], start: usize, read: &str) {
        let texts = details.iter().map(|detail| text_of(&detail.json));
        let texts: Vec<String> = texts.map(Option::unwrap_or_default).collect();
        let repeats_thought = texts.concat() == read;
        let mut end = if repeats_thought { start } else { self.read };
        for (detail, text) in details.iter().cloned().zip(texts) {
            let start = end;
            if repeats_thought {
                end += text.len();
            }
            self.bytes += detail.json.len();
            let place = start..end;
            self.details.push_back(WaitingDetail { place, detail });
        }
    }

    /// Takes the thought of the last chunk. Returns the details that are left.
    pub fn finish(mut self, read: &str, sent: &str) -> LastDetails {
        let was_changed = mem::take(&mut self.is_changed);
        let mut details = self.pass(&[], read, sent);
        let has_texts = !self.is_changed && !self.waits();
        if was_changed || !has_texts {
            self.remove_texts();
        }
        details.extend(self.details.into_iter().map(|waiting| waiting.detail));
        LastDetails { details, has_texts }
    }

    fn remove_texts(&mut self) {
        self.details
            .retain(|waiting| text_of(&waiting.detail.json).is_none());
        self.bytes = self.details.iter().map(WaitingDetail::bytes).sum();
    }
}

impl WaitingDetail {
    const fn bytes(&self) -> usize {
        self.detail.json.len()
    }

    /// Splits off the text before a place in the thoughts, as a detail of its own.
    fn split_off(&mut self, place: usize) -> Option<ThoughtDetail> {
        let length = place.checked_sub(self.place.start);
        let length = length.filter(|length| *length > 0)?;
        let text = text_of(&self.detail.json)?;
        let (sent, rest) = text.split_at_checked(length)?;
        let (sent, rest) = (self.detail.with_text(sent)?, self.detail.with_text(rest)?);
        self.detail = rest;
        self.place.start = place;
        Some(sent)
    }
}

impl ThoughtDetail {
    /// Reads the details in a delta.
    ///
    /// # Errors
    ///
    /// Fails for lists of another type.
    pub fn read_all(delta: &Document) -> Result<Vec<Self>> {
        let mut details = Vec::new();
        for list in THOUGHT_DETAILS {
            let elements = delta.list(&[list])?.unwrap_or_default();
            details.extend(elements.into_iter().map(|json| Self { list, json }));
        }
        Ok(details)
    }

    fn with_text(&self, text: &str) -> Option<Self> {
        let mut detail = Document::from_checked(self.json.clone()).ok()?;
        let name = DETAIL_TEXTS.into_iter().find(|name| detail.has(&[*name]))?;
        detail.set(&[name], &text.into()).ok()?;
        let json = detail.to_bytes();
        Some(Self { json, ..*self })
    }
}

/// Returns the text of a thought that a detail repeats.
fn text_of(detail: &Bytes) -> Option<String> {
    let detail: Value = read_json(detail).ok()?;
    text_in(&detail).map(str::to_owned)
}

/// Returns whether a detail repeats the text of its thought.
pub fn has_text(detail: &Value) -> bool {
    text_in(detail).is_some()
}

fn text_in(detail: &Value) -> Option<&str> {
    let mut names = DETAIL_TEXTS.into_iter();
    names.find_map(|name| detail.get(name)?.as_str())
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
        let json = Bytes::from_static(detail.as_bytes());
        let list = "reasoning_details";
        jsons(&waiting.pass(&[ThoughtDetail { list, json }], read, sent))
    }

    fn jsons(details: &[ThoughtDetail]) -> String {
        let jsons = details.iter().map(|detail| detail.json.to_vec());
        String::from_utf8(jsons.flatten().collect()).unwrap()
    }

    #[test]
    fn details_are_sent_with_their_texts() {
        let mut waiting = WaitingDetails::default();
        let sent = r#"{"index":0,"text":"a "}"#;
        assert_eq!(passed(&mut waiting, A, "a b", "a "), sent);
        let rest = r#"{"index":0,"text":"b"}"#;
        assert_eq!(passed(&mut waiting, C, "c", "b"), rest);
        assert_eq!(passed(&mut waiting, SIGNATURE, "", ""), "");
        assert_eq!(waiting.bytes(), C.len() + SIGNATURE.len());
        let last = waiting.finish("", "c");
        assert!(last.has_texts);
        assert_eq!(jsons(&last.details), [C, SIGNATURE].concat());
    }

    #[test]
    fn a_detail_with_another_text_waits_for_the_end_of_its_piece() {
        let mut waiting = WaitingDetails::default();
        let summary = r#"{"summary":"about a"}"#;
        assert_eq!(passed(&mut waiting, summary, "a b", "a "), "");
        assert_eq!(
            passed(&mut waiting, SIGNATURE, "", "b"),
            [summary, SIGNATURE].concat()
        );
    }

    #[test]
    fn details_of_a_changed_thought_lose_their_texts() {
        let mut waiting = WaitingDetails::default();
        let sent = r#"{"index":0,"text":"a "}"#;
        assert_eq!(passed(&mut waiting, A, "a b", "a "), sent);
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

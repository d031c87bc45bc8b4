//! State of one transcript: the messages that it contains, and the records to append. No IO.

use std::hash::RandomState;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    entry::{TranscriptRequest, TranscriptResponse},
    file::in_lines,
    format::{self, Author, MessageGroup, ModelMessage, ModelText, groups},
};
use crate::session::Fingerprint;

/// Maximum size of a transcript, which then ends with a note.
pub(super) const MAX_TRANSCRIPT_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct TranscriptLog {
    written: Vec<LoggedMessage>,
    /// The last message, if it is a response that no request has confirmed yet, and the hash of
    /// its text and calls.
    unconfirmed: Option<(ModelMessage, u64)>,
    /// The last message, if it is the model's: tool results may follow.
    last: Option<ModelMessage>,
    hasher: RandomState,
    bytes: usize,
}

#[derive(Debug)]
struct LoggedMessage {
    id: String,
    prefix: Fingerprint,
}

impl TranscriptLog {
    /// A transcript with `bytes` in its file.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes,
            written: Vec::new(),
            unconfirmed: None,
            last: None,
            hasher: RandomState::new(),
        }
    }

    /// Adds a request. Returns the text of the new records.
    pub(super) fn append_request(&mut self, request: TranscriptRequest<'_>) -> Option<String> {
        let groups = groups(request.conversation);
        let mut same = self.same(&groups);
        let mut lines = Vec::new();
        let confirmed = groups.get(same).filter(|_| same == self.written.len());
        let confirmed = confirmed.filter(|group| group.author == Author::Model);
        match (self.unconfirmed.take(), confirmed) {
            (Some((message, hash)), Some(group))
                if group.text(request.history).hash(&self.hasher) == hash =>
            {
                let (id, prefix) = (message.id.clone(), group.prefix);
                self.written.push(LoggedMessage { id, prefix });
                self.last = Some(message);
                same += 1;
            }
            (unconfirmed, _) => {
                let id = unconfirmed.map(|(message, _)| message.id);
                lines.extend(self.rewind(same, id));
            }
        }
        let (kept, new) = groups.split_at(same);
        let mut before = kept.last();
        for group in new {
            lines.extend(self.add(group, before, request));
            before = Some(group);
        }
        if !lines.is_empty() {
            lines.push(json!({ "$set": { "lastUpdated": request.now } }));
        }
        self.fit(&lines, request.now)
    }

    /// Returns how many written messages are unchanged. Tool results belong to the message
    /// before them, which is written again with them.
    fn same(&self, groups: &[MessageGroup]) -> usize {
        let pairs = self.written.iter().zip(groups);
        let same = pairs.take_while(|(written, group)| written.prefix == group.prefix);
        let same = same.count();
        let continues = same == self.written.len() && self.last.is_some();
        match groups.get(same) {
            Some(group) if group.author == Author::Tools && !continues => same.saturating_sub(1),
            _ => same,
        }
    }

    /// Rewinds to the first messages; without others, to the unconfirmed one.
    fn rewind(&mut self, to: usize, unconfirmed: Option<String>) -> Option<Value> {
        let first = self.written.get(to).map(|message| message.id.clone());
        if first.is_some() {
            self.last = None;
        }
        self.written.truncate(to);
        first.or(unconfirmed).map(|id| json!({ "$rewindTo": id }))
    }

    /// Adds a message of a request, and the results of the calls in the one before it.
    fn add(
        &mut self,
        group: &MessageGroup,
        before: Option<&MessageGroup>,
        request: TranscriptRequest<'_>,
    ) -> Vec<Value> {
        let TranscriptRequest { history, now, .. } = request;
        let id = Uuid::new_v4().to_string();
        let mut lines = Vec::new();
        let last = self.last.take();
        match group.author {
            Author::User | Author::Tools => {
                let parts = group.parts(history);
                let called = last.zip(before).filter(|_| group.author == Author::Tools);
                if let Some((message, before)) = called {
                    let text = before.text(history);
                    lines.push(message.record_with_results(&text, &parts, now));
                }
                lines.push(format::user_record(&id, &parts, now));
            }
            Author::Model => {
                let message = ModelMessage::new(&id, request.model, &Value::Null, now);
                lines.push(message.record(&group.text(history)));
                self.last = Some(message);
            }
        }
        let prefix = group.prefix;
        self.written.push(LoggedMessage { id, prefix });
        lines
    }

    /// Adds a response, in the place of one that the agent has not confirmed. Returns the text of
    /// the new records.
    pub(super) fn append_response(&mut self, response: TranscriptResponse<'_>) -> Option<String> {
        let mut lines = Vec::new();
        if let Some((message, _)) = self.unconfirmed.take() {
            lines.push(json!({ "$rewindTo": message.id }));
        }
        let calls = response.calls.iter();
        let calls = calls.map(|(name, args)| json!({ "name": name, "args": args }));
        let text = ModelText {
            text: response.text.trim().to_owned(),
            calls: calls.collect(),
        };
        let id = Uuid::new_v4().to_string();
        let message = ModelMessage::new(&id, response.model, response.usage, response.now);
        lines.push(message.record(&text));
        lines.push(json!({ "$set": { "lastUpdated": response.now } }));
        self.last = None;
        self.unconfirmed = Some((message, text.hash(&self.hasher)));
        self.fit(&lines, response.now)
    }

    /// Returns the lines as text, or a final note if they exceed the size limit.
    fn fit(&mut self, lines: &[Value], now: &str) -> Option<String> {
        if lines.is_empty() || self.bytes > MAX_TRANSCRIPT_BYTES {
            return None;
        }
        let mut text = in_lines(lines);
        self.bytes += text.len();
        if self.bytes > MAX_TRANSCRIPT_BYTES {
            let end = "this transcript is full: what follows is not in it";
            let id = Uuid::new_v4().to_string();
            let end = json!({ "id": id, "timestamp": now, "type": "info", "content": end });
            text = in_lines(&[end]);
        }
        Some(text)
    }
}

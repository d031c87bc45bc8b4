//! State of one transcript: the messages that it contains, and the records to append. No IO.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    entry::{TranscriptRequest, TranscriptResponse},
    file::in_lines,
    format::{self, Author, MessageGroup, ModelText, groups},
};
use crate::session::Fingerprint;

/// Maximum size of a transcript, which then ends with a note.
pub(super) const MAX_TRANSCRIPT_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct TranscriptLog {
    written: Vec<LoggedMessage>,
    /// The last message, if it is a response that no request has confirmed yet.
    unconfirmed: Option<ModelMessage>,
    /// The last message, if it is the model's: tool results may follow.
    last: Option<ModelMessage>,
    bytes: usize,
}

#[derive(Debug)]
struct LoggedMessage {
    id: String,
    prefix: Fingerprint,
}

#[derive(Debug, Clone)]
struct ModelMessage {
    id: String,
    text: ModelText,
    record: Value,
}

impl TranscriptLog {
    /// A transcript with `bytes` in its file.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes,
            written: Vec::new(),
            unconfirmed: None,
            last: None,
        }
    }

    /// Adds a request. Returns the text of the new records.
    pub(super) fn append_request(&mut self, request: TranscriptRequest<'_>) -> Option<String> {
        let groups = groups(request.conversation);
        let mut same = self.same(&groups);
        let mut lines = Vec::new();
        let confirmed = groups.get(same).filter(|_| same == self.written.len());
        let confirmed = confirmed.filter(|group| group.author == Author::Model);
        let confirmed = confirmed.map(|group| (group.prefix, group.text(request.history)));
        match (self.unconfirmed.take(), confirmed) {
            (Some(message), Some((prefix, text))) if text.matches(&message.text) => {
                let id = message.id.clone();
                self.written.push(LoggedMessage { id, prefix });
                // The request has the ids of the calls.
                self.last = Some(ModelMessage { text, ..message });
                same += 1;
            }
            (message, _) => lines.extend(self.rewind(same, message.map(|message| message.id))),
        }
        let new = groups.get(same.min(self.written.len())..);
        for group in new.unwrap_or_default() {
            lines.extend(self.add(group, request));
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

    fn add(&mut self, group: &MessageGroup, request: TranscriptRequest<'_>) -> Vec<Value> {
        let id = Uuid::new_v4().to_string();
        let mut lines = Vec::new();
        let before = self.last.take();
        match group.author {
            Author::User | Author::Tools => {
                let parts = group.parts(request.history);
                if let Some(message) = before.filter(|_| group.author == Author::Tools) {
                    let (record, calls) = (&message.record, &message.text.calls);
                    let with_results =
                        format::record_with_results(record, calls, &parts, request.now);
                    lines.push(with_results);
                }
                lines.push(format::user_record(&id, &parts, request.now));
            }
            Author::Model => {
                let text = group.text(request.history);
                let record =
                    format::model_record(&id, &text, request.model, &Value::Null, request.now);
                lines.push(record.clone());
                let id = id.clone();
                self.last = Some(ModelMessage { id, text, record });
            }
        }
        let prefix = group.prefix;
        self.written.push(LoggedMessage { id, prefix });
        lines
    }

    /// Adds a response, in the place of one that the agent has not confirmed. Returns the text of
    /// the new records.
    pub(super) fn append_response(&mut self, response: TranscriptResponse<'_>) -> Option<String> {
        let rewind = self
            .unconfirmed
            .take()
            .map(|message| json!({ "$rewindTo": message.id }));
        let mut lines: Vec<Value> = rewind.into_iter().collect();
        let calls = response.calls.iter();
        let calls = calls.map(|(name, args)| json!({ "name": name, "args": args }));
        let text = ModelText {
            text: response.text.trim().to_owned(),
            calls: calls.collect(),
        };
        let id = Uuid::new_v4().to_string();
        let record = format::model_record(&id, &text, response.model, response.usage, response.now);
        lines.push(record.clone());
        lines.push(json!({ "$set": { "lastUpdated": response.now } }));
        self.last = None;
        self.unconfirmed = Some(ModelMessage { id, text, record });
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

//! One transcript: what is written of it, and what must be added. No IO.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    TranscriptRequest, TranscriptResponse,
    file::in_lines,
    format::{self, Author, MessageGroup, ModelText, groups},
};
use crate::session::Fingerprint;

/// How many bytes one transcript has; then it says that it ends.
pub(super) const MOST: usize = 16 << 20;

/// One transcript, as far as it is written.
#[derive(Debug)]
pub(super) struct TranscriptLog {
    pub(super) path: PathBuf,
    written: Vec<LoggedMessage>,
    /// The last message, if the model said it and no request has confirmed it.
    said: Option<ModelMessage>,
    /// The last message, if the model said it: tools may answer it.
    last: Option<ModelMessage>,
    bytes: usize,
    pub(super) heard: Instant,
}

#[derive(Debug)]
struct LoggedMessage {
    id: String,
    prefix: Fingerprint,
}

#[derive(Debug, Clone)]
struct ModelMessage {
    id: String,
    words: ModelText,
    record: Value,
}

impl TranscriptLog {
    /// One of which `bytes` are written.
    pub(super) fn new(path: PathBuf, bytes: usize) -> Self {
        Self {
            path,
            bytes,
            written: Vec::new(),
            said: None,
            last: None,
            heard: Instant::now(),
        }
    }

    /// The records that a request adds.
    pub(super) fn take_down(&mut self, told: TranscriptRequest<'_>) -> Vec<Value> {
        let groups = groups(told.conversation);
        let mut same = self.same(&groups);
        let mut lines = Vec::new();
        let confirmed = groups.get(same).filter(|_| same == self.written.len());
        match self.said.take() {
            Some(said)
                if confirmed.is_some_and(|it| {
                    it.who == Author::Model && it.words(told.history).are(&said.words)
                }) =>
            {
                let prefix = confirmed.map_or(Fingerprint(0), |it| it.prefix);
                let words = confirmed.map_or_else(ModelText::default, |it| it.words(told.history));
                let id = said.id.clone();
                self.written.push(LoggedMessage { id, prefix });
                // The agent knows the ids of the calls.
                self.last = Some(ModelMessage { words, ..said });
                same += 1;
            }
            Some(said) => lines.extend(self.rewind(same, Some(&said.id))),
            None => lines.extend(self.rewind(same, None)),
        }
        for group in groups
            .get(same.min(self.written.len())..)
            .unwrap_or_default()
        {
            lines.extend(self.add(group, told));
        }
        if !lines.is_empty() {
            lines.push(json!({ "$set": { "lastUpdated": told.now } }));
        }
        lines
    }

    /// How many messages are written as they are now. Tools answer the message
    /// before them, which is written again with them.
    fn same(&self, groups: &[MessageGroup]) -> usize {
        let pairs = self.written.iter().zip(groups);
        let same = pairs
            .take_while(|(it, group)| it.prefix == group.prefix)
            .count();
        let goes_on = same == self.written.len() && self.last.is_some();
        let tools = groups.get(same).is_some_and(|it| it.who == Author::Tools);
        if tools && !goes_on {
            return same.saturating_sub(1);
        }
        same
    }

    /// Takes back all messages but the first ones, and `said` with them.
    fn rewind(&mut self, to: usize, said: Option<&str>) -> Option<Value> {
        let first = self.written.get(to).map(|it| it.id.clone());
        if first.is_some() {
            self.last = None;
        }
        self.written.truncate(to);
        let first = first.or_else(|| said.map(str::to_owned));
        first.map(|it| json!({ "$rewindTo": it }))
    }

    fn add(&mut self, group: &MessageGroup, told: TranscriptRequest<'_>) -> Vec<Value> {
        let id = Uuid::new_v4().to_string();
        let mut lines = Vec::new();
        let before = self.last.take();
        match group.who {
            Author::User | Author::Tools => {
                let parts = group.parts(told.history);
                if let Some(said) = before.filter(|_| group.who == Author::Tools) {
                    let calls = &said.words.calls;
                    lines.push(format::answered(&said.record, calls, &parts, told.now));
                }
                lines.push(format::heard(&id, &parts, told.now));
            }
            Author::Model => {
                let words = group.words(told.history);
                let record = format::said(&id, &words, (told.model, &Value::Null), told.now);
                lines.push(record.clone());
                let id = id.clone();
                self.last = Some(ModelMessage { id, words, record });
            }
        }
        let prefix = group.prefix;
        self.written.push(LoggedMessage { id, prefix });
        lines
    }

    /// The records that an answer adds. One that the agent never heard of is
    /// taken back.
    pub(super) fn answer(&mut self, answered: TranscriptResponse<'_>) -> Vec<Value> {
        let taken_back = self.said.take();
        let mut lines: Vec<Value> = taken_back
            .iter()
            .map(|it| json!({ "$rewindTo": it.id }))
            .collect();
        let calls = answered.calls.iter();
        let calls = calls.map(|(name, args)| json!({ "name": name, "args": args }));
        let words = ModelText {
            text: answered.text.trim().to_owned(),
            calls: calls.collect(),
        };
        let id = Uuid::new_v4().to_string();
        let by = (answered.model, answered.usage);
        let record = format::said(&id, &words, by, answered.now);
        lines.push(record.clone());
        lines.push(json!({ "$set": { "lastUpdated": answered.now } }));
        self.last = None;
        self.said = Some(ModelMessage { id, words, record });
        lines
    }

    /// The lines as text, as far as there is room for them.
    pub(super) fn room_for(&mut self, lines: &[Value], now: &str) -> Option<(PathBuf, String)> {
        self.heard = Instant::now();
        if lines.is_empty() || self.bytes > MOST {
            return None;
        }
        let mut text = in_lines(lines);
        self.bytes += text.len();
        if self.bytes > MOST {
            let end = "this transcript is full: what follows is not in it";
            let id = Uuid::new_v4().to_string();
            let end = json!({ "id": id, "timestamp": now, "type": "info", "content": end });
            text = in_lines(&[end]);
        }
        Some((self.path.clone(), text))
    }
}

//! What an agent is given as an answer, read as the items that it will send back.
//! Pure.

use super::{
    Conversation, Fingerprint, Fingerprinter,
    conversation::FingerprintChain,
    conversation_cache::{HashedItem, OwnHash},
    fingerprint::RollingHash,
};
use crate::dialect::{CanonicalItem, DialectError, ItemKind, ResponseDocument};

/// How many bytes of a text are taken in at once. Texts come in small pieces, and
/// each that is taken in costs as much as a few hundred bytes.
const AT_ONCE: usize = 4096;

/// An answer on its way to the agent: goes on where the request's conversation
/// ended.
#[derive(Debug)]
pub struct ResponseFingerprinter {
    printer: Fingerprinter,
    chain: FingerprintChain,
    states: Vec<Fingerprint>,
    marks: Vec<Fingerprint>,
    /// The end of the text that stands last, not yet taken in.
    waiting: String,
    /// The mark of the text that stands last.
    text_mark: Option<Fingerprint>,
    /// That text without white space around it.
    trimmed: RollingHash,
    /// White space behind it.
    pending: RollingHash,
    /// Whether it came to a good end.
    stops: bool,
    /// Whether it calls anything.
    calls: bool,
    /// Whether something was said that cannot be told yet, so that nothing after
    /// it can be known.
    broken: bool,
}

/// What an answer left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseSummary {
    /// The states of its items.
    pub states: Vec<Fingerprint>,
    /// Fingerprints by which its session is found when its history was rewritten.
    pub marks: Vec<Fingerprint>,
    /// Whether it came to a good end and calls nothing: the turn is over, and
    /// agents keep such an answer.
    pub concludes: bool,
}

impl ResponseFingerprinter {
    /// An answer to this conversation.
    pub fn new(conversation: &Conversation, printer: &Fingerprinter) -> Self {
        Self {
            printer: printer.clone(),
            chain: conversation.chain.clone(),
            states: Vec::new(),
            marks: Vec::new(),
            waiting: String::new(),
            text_mark: None,
            trimmed: RollingHash::EMPTY,
            pending: RollingHash::EMPTY,
            stops: false,
            calls: false,
            broken: false,
        }
    }

    /// Takes in an answer, or one chunk of it, as it goes out.
    pub fn push_chunk(&mut self, chunk: &ResponseDocument) -> Result<(), DialectError> {
        if chunk.has_partial_calls()? {
            self.take_in();
            self.broken = true;
        }
        self.stops |= chunk.is_complete()?;
        for item in chunk.canonical_items()? {
            if item.kind == ItemKind::Text {
                self.say(&item.text);
            } else {
                self.take_in();
                self.push(&item);
            }
        }
        Ok(())
    }

    /// What was said.
    pub fn finish(mut self) -> ResponseSummary {
        self.take_in();
        self.close_text();
        ResponseSummary {
            states: self.states,
            marks: self.marks,
            concludes: self.stops && !self.calls,
        }
    }

    /// The text that stands last goes on, or one begins.
    fn say(&mut self, text: &str) {
        self.waiting.push_str(text);
        if self.waiting.len() >= AT_ONCE {
            self.take_in();
        }
    }

    /// Takes in what waits of a text.
    fn take_in(&mut self) {
        let text = std::mem::take(&mut self.waiting);
        if text.is_empty() {
            return;
        }
        // Agents may take white space off a text before they send it back.
        let begin = text.trim_start();
        let body = begin.trim_end();
        let piece = |text: Option<&str>| self.printer.piece(text.unwrap_or_default());
        let before = piece(text.get(..text.len() - begin.len()));
        let said = piece(Some(body));
        let after = piece(begin.get(body.len()..));
        self.link(&HashedItem {
            part: 0,
            kind: ItemKind::Text,
            by_model: true,
            own: OwnHash::Text(before.join(said).join(after)),
            id: None,
        });
        if body.is_empty() {
            let white = if self.trimmed.length() == 0 {
                after
            } else {
                before.join(after)
            };
            self.pending = self.pending.join(white);
        } else {
            if self.trimmed.length() > 0 {
                self.trimmed = self.trimmed.join(self.pending).join(before);
            }
            self.trimmed = self.trimmed.join(said);
            self.pending = after;
        }
    }

    /// Something else than text.
    fn push(&mut self, item: &CanonicalItem) {
        let known = HashedItem::of(&self.printer, item);
        let mark = self.link(&known);
        self.calls |= item.kind == ItemKind::Call;
        self.marks.extend(mark);
    }

    /// Goes on with an item. Its mark, if it is none of a text.
    fn link(&mut self, known: &HashedItem) -> Option<Fingerprint> {
        let link = self.chain.push(&self.printer, known);
        if !link.joins {
            self.close_text();
        }
        if !self.broken {
            if link.joins {
                self.states.pop();
            }
            self.states.push(link.state);
        }
        match known.own {
            OwnHash::Text(_) => {
                self.text_mark = link.mark;
                None
            }
            OwnHash::Other(_) => link.mark,
        }
    }

    /// Something else than text comes, or nothing.
    fn close_text(&mut self) {
        let trimmed = self.chain.mark(&self.printer, self.trimmed);
        let whole = self.text_mark.take().filter(|it| Some(*it) != trimmed);
        self.marks.extend(whole.into_iter().chain(trimmed));
        (self.trimmed, self.pending) = (RollingHash::EMPTY, RollingHash::EMPTY);
    }
}

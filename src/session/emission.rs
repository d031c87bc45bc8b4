//! What an agent is given as an answer, read as the items that it will send back.
//! Pure.

use super::{
    Conversation, Print, Printer,
    conversation::Chain,
    print::Piece,
    reader::{Known, Own},
};
use crate::dialect::{CanonicalItem, DialectError, ItemKind, ResponseDocument};

/// An answer on its way to the agent: goes on where the request's conversation
/// ended.
#[derive(Debug)]
pub struct Emission {
    printer: Printer,
    chain: Chain,
    states: Vec<Print>,
    marks: Vec<Print>,
    /// The mark of the text that stands last.
    text_mark: Option<Print>,
    /// That text without white space around it.
    trimmed: Piece,
    /// White space behind it.
    pending: Piece,
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
pub struct Said {
    /// The states of its items.
    pub states: Vec<Print>,
    /// Prints by which its session is found when its history was rewritten.
    pub marks: Vec<Print>,
    /// Whether it came to a good end and calls nothing: the turn is over, and
    /// agents keep such an answer.
    pub concludes: bool,
}

impl Emission {
    /// An answer to this conversation.
    pub fn after(conversation: &Conversation, printer: &Printer) -> Self {
        Self {
            printer: printer.clone(),
            chain: conversation.chain.clone(),
            states: Vec::new(),
            marks: Vec::new(),
            text_mark: None,
            trimmed: Piece::EMPTY,
            pending: Piece::EMPTY,
            stops: false,
            calls: false,
            broken: false,
        }
    }

    /// Takes in an answer, or one chunk of it, as it goes out.
    pub fn chunk(&mut self, chunk: &ResponseDocument) -> Result<(), DialectError> {
        self.broken |= chunk.has_calls_in_pieces()?;
        self.stops |= chunk.stops()?;
        for item in chunk.canonical_items()? {
            self.push(&item);
        }
        Ok(())
    }

    /// What was said.
    pub fn finish(mut self) -> Said {
        self.close_text();
        Said {
            states: self.states,
            marks: self.marks,
            concludes: self.stops && !self.calls,
        }
    }

    fn push(&mut self, item: &CanonicalItem) {
        let known = Known::of(&self.printer, item);
        let link = self.chain.push(&self.printer, &known);
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
            Own::Text(_) => {
                self.text_mark = link.mark;
                self.say(&item.text);
            }
            Own::Other(_) => {
                self.calls |= item.kind == ItemKind::Call;
                self.marks.extend(link.mark);
            }
        }
    }

    /// Agents may take white space off a text before they send it back.
    fn say(&mut self, text: &str) {
        let text = match self.trimmed.length() {
            0 => text.trim_start(),
            _ => text,
        };
        let body = text.trim_end();
        let rest = self
            .printer
            .piece(text.get(body.len()..).unwrap_or_default());
        if body.is_empty() {
            self.pending = self.pending.join(rest);
        } else {
            let body = self.printer.piece(body);
            self.trimmed = self.trimmed.join(self.pending).join(body);
            self.pending = rest;
        }
    }

    /// Something else than text comes, or nothing.
    fn close_text(&mut self) {
        let trimmed = self.chain.mark(&self.printer, self.trimmed);
        let whole = self.text_mark.take().filter(|it| Some(*it) != trimmed);
        self.marks.extend(whole.into_iter().chain(trimmed));
        (self.trimmed, self.pending) = (Piece::EMPTY, Piece::EMPTY);
    }
}

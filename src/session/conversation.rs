//! A conversation as items, each known by all that was said up to it. Pure.

use std::ops::Range;

use super::{
    Fingerprint, Fingerprinter,
    conversation_cache::{HashedItem, OwnHash},
    fingerprint::RollingHash,
};
use crate::dialect::ItemKind;

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The content in which it begins.
    pub content: usize,
    /// The part of that content.
    pub part: usize,
    /// The content in which it ends: texts of the model that follow each other
    /// are one item.
    pub last_content: usize,
    /// What it is.
    pub kind: ItemKind,
    /// Whether the model says it.
    pub by_model: bool,
    /// The print of all items up to this one, and of the caller.
    pub state: Fingerprint,
    /// The print of this item alone.
    pub own: Fingerprint,
    /// The print by which its session is found again when the conversation before
    /// it was rewritten: it will hardly be said twice.
    pub mark: Option<Fingerprint>,
}

/// Everything that a request says, item by item.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// The items in order.
    pub items: Vec<Item>,
    pub(super) chain: FingerprintChain,
}

/// What a user asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its contents.
    pub contents: Range<usize>,
    /// Its items; what gemini-cli tells of itself may be the first.
    pub items: Range<usize>,
    /// Its last item, which it is known by.
    pub item: usize,
    /// Whether it is of the last step.
    pub last: bool,
}

impl Conversation {
    /// Runs of items between the model's words, in order.
    pub fn steps(&self) -> Vec<Range<usize>> {
        let mut steps: Vec<Range<usize>> = Vec::new();
        for (at, item) in self.items.iter().enumerate() {
            match steps.last_mut() {
                _ if item.by_model => (),
                Some(step) if step.end == at => step.end = at + 1,
                Some(_) | None => steps.push(at..at + 1),
            }
        }
        steps
    }

    /// What the request is about: the items after the model's last word. What an
    /// agent lets the model say after them does not answer them. Empty if the
    /// user says nothing.
    pub fn last_step(&self) -> Range<usize> {
        let by_model = |it: &Item| it.by_model;
        let end = self.items.iter().rposition(|it| !it.by_model);
        let end = end.map_or(0, |it| it + 1);
        let asked = self.items.get(..end).unwrap_or_default();
        let start = asked.iter().rposition(by_model).map_or(0, |it| it + 1);
        start..end
    }

    /// The content in which the step of an item begins.
    pub fn step_of(&self, at: usize) -> usize {
        let before = self.items.get(..at).unwrap_or_default();
        let said = before.iter().rfind(|it| it.by_model);
        said.map_or(0, |it| it.last_content + 1)
    }

    /// The prompts in order: contents of the user without results of tools. Those
    /// that follow each other are one, unless `is_prompt` says of the state of an
    /// earlier one that a prompt ended there before.
    pub fn prompts(&self, is_prompt: &dyn Fn(Fingerprint) -> bool) -> Vec<Prompt> {
        let last_step = self.last_step();
        let mut prompts: Vec<Prompt> = Vec::new();
        // The state at the end of what may go on.
        let mut open: Option<Fingerprint> = None;
        for items in self.user_contents() {
            let all = self.items.get(items.clone()).unwrap_or_default();
            let asks = |it: &Item| it.kind != ItemKind::Introduction;
            let answers = all.iter().any(|it| it.kind == ItemKind::Result);
            // It asks for something if nothing else of its step does.
            let next = self.items.get(items.end);
            let alone = next.is_none_or(|it| it.by_model);
            let Some(last) = all
                .last()
                .filter(|_| !answers && (alone || all.iter().any(asks)))
            else {
                open = None;
                continue;
            };
            let begins = items.start == 0 || self.is_by_model(items.start - 1);
            let goes_on = !begins && open.is_some_and(|it| !is_prompt(it));
            match prompts.last_mut().filter(|_| goes_on) {
                Some(prompt) => {
                    prompt.contents.end = last.content + 1;
                    prompt.items.end = items.end;
                    prompt.item = items.end - 1;
                }
                None => prompts.push(Prompt {
                    contents: last.content..last.content + 1,
                    item: items.end - 1,
                    last: last_step.contains(&items.start),
                    items,
                }),
            }
            open = Some(last.state);
        }
        prompts
    }

    /// The items of each content in which the user says something.
    fn user_contents(&self) -> Vec<Range<usize>> {
        let mut contents: Vec<Range<usize>> = Vec::new();
        let mut before = None;
        for (at, item) in self.items.iter().enumerate() {
            let same = before == Some(item.content);
            before = (!item.by_model).then_some(item.content);
            match contents.last_mut() {
                _ if item.by_model => (),
                Some(content) if same => content.end = at + 1,
                Some(_) | None => contents.push(at..at + 1),
            }
        }
        contents
    }

    fn is_by_model(&self, at: usize) -> bool {
        self.items.get(at).is_some_and(|it| it.by_model)
    }
}

/// Where a conversation stands: each item's state is made of the one before it.
#[derive(Debug, Clone)]
pub(super) struct FingerprintChain {
    caller: Fingerprint,
    state: Fingerprint,
    /// The model's text that stands last, and the state before it.
    open: Option<(Fingerprint, RollingHash)>,
}

/// What an item is known by in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainLink {
    pub(super) state: Fingerprint,
    pub(super) own: Fingerprint,
    pub(super) mark: Option<Fingerprint>,
    /// Whether it goes on with the item before it.
    pub(super) joins: bool,
}

impl FingerprintChain {
    /// The start of every conversation of a caller.
    pub(super) fn new(printer: &Fingerprinter, caller: &str) -> Self {
        let caller = printer.print(&("caller", caller));
        Self {
            caller,
            state: caller,
            open: None,
        }
    }

    pub(super) fn push(&mut self, printer: &Fingerprinter, known: &HashedItem) -> ChainLink {
        let open = self.open.take();
        let (own, text, joins) = match known.own {
            OwnHash::Text(piece) if known.by_model => {
                let joins = open.is_some();
                let (before, said) = open.unwrap_or((self.state, RollingHash::EMPTY));
                let text = said.join(piece);
                self.state = before;
                self.open = Some((before, text));
                (printer.print(&(known.kind, true, text)), Some(text), joins)
            }
            OwnHash::Text(text) => (printer.print(&(known.kind, false, text)), Some(text), false),
            OwnHash::Other(own) => (own, None, false),
        };
        self.state = printer.print(&(self.state, own));
        let mark = match (text, known.id) {
            (Some(text), _) => self.mark(printer, text),
            (None, Some(id)) => Some(printer.print(&("call", self.caller, id, own))),
            (None, None) => None,
        };
        ChainLink {
            state: self.state,
            own,
            mark,
            joins,
        }
    }

    /// The print that leads to the session in which this result was hidden.
    pub(super) fn hidden(&self, printer: &Fingerprinter, own: Fingerprint) -> Fingerprint {
        printer.print(&("hidden", self.caller, own))
    }

    /// The print of a text that will hardly be said twice; none of a short one.
    pub(super) fn mark(&self, printer: &Fingerprinter, text: RollingHash) -> Option<Fingerprint> {
        let distinct = text.length() >= DISTINCT_TEXT;
        distinct.then(|| printer.print(&("text", self.caller, text)))
    }
}

/// How many bytes a text must have so that it is hardly said twice.
const DISTINCT_TEXT: usize = 64;

//! A conversation as a list of items. Pure.

use std::ops::Range;

use super::{
    fingerprint::{Fingerprint, Fingerprinter},
    fingerprint_chain::FingerprintChain,
};
use crate::dialect::{CanonicalItem, ItemKind};

/// One item of a conversation: a text, a function call, a function response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Index of the content in which it begins.
    pub content: usize,
    /// Index of its part in that content.
    pub part: usize,
    /// Index of the content in which it ends: consecutive texts of the model are one
    /// item.
    pub last_content: usize,
    /// Kind of the item.
    pub kind: ItemKind,
    /// True if it is from the model.
    pub by_model: bool,
    /// Fingerprint of the caller and all items up to this one.
    pub prefix: Fingerprint,
    /// Fingerprint of this item only.
    pub own: Fingerprint,
    /// Fingerprint of the prompt of a session up to this item; that of the item elsewhere.
    pub prompt: Fingerprint,
    /// Fingerprint that identifies the session even when the history before the item
    /// was rewritten. Only items that are unlikely to be repeated have one.
    pub unique: Option<Fingerprint>,
}

/// All items of a request, in order.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// The items in order.
    pub items: Vec<Item>,
    pub(super) chain: FingerprintChain,
}

/// Prompt of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Range of contents in the history.
    pub contents: Range<usize>,
    /// Range of items. Some may be texts that the agent adds.
    pub items: Range<usize>,
    /// Index of the last item, which identifies the prompt.
    pub item: usize,
    /// True if it belongs to the last step.
    pub last: bool,
}

impl Conversation {
    /// Returns a conversation without items.
    pub(super) const fn empty(chain: FingerprintChain) -> Self {
        Self {
            items: Vec::new(),
            chain,
        }
    }

    pub(super) fn push(&mut self, content: usize, added: &CanonicalItem) {
        let link = self.chain.push(added);
        match self.items.last_mut() {
            Some(item) if link.continues => {
                item.last_content = content;
                item.prefix = link.prefix;
                item.own = link.own;
                item.prompt = link.own;
                item.unique = link.unique;
            }
            Some(_) | None => self.items.push(Item {
                content,
                part: added.part,
                last_content: content,
                kind: added.kind,
                by_model: added.by_model,
                prefix: link.prefix,
                own: link.own,
                prompt: link.own,
                unique: link.unique,
            }),
        }
    }

    /// Returns the items that the request asks the model to respond to: those after
    /// the model's last item. Items that an agent prefills for the model after them
    /// are not a response. Empty if the user sends nothing.
    pub fn last_step(&self) -> Range<usize> {
        let last = self.items.iter().rposition(|item| !item.by_model);
        let end = last.map_or(0, |at| at + 1);
        let asked = self.items.get(..end).unwrap_or_default();
        let start = asked.iter().rposition(|item| item.by_model);
        start.map_or(0, |at| at + 1)..end
    }

    /// Returns the content in which the step of an item begins.
    pub fn step_of(&self, at: usize) -> usize {
        let before = self.items.get(..at).unwrap_or_default();
        let last_of_model = before.iter().rfind(|item| item.by_model);
        last_of_model.map_or(0, |item| item.last_content + 1)
    }

    /// Returns the part with which the agent introduces the first content, as indexes of content
    /// and part; `None` if nothing up to the item `at` follows it there, or the agent adds all of
    /// these items.
    pub fn introduction(&self, at: usize) -> Option<(usize, usize)> {
        let request = self.items.get(..=at)?;
        let [first, next, ..] = request else {
            return None;
        };
        let is_introduction = first.kind.is_added()
            && next.content == first.content
            && request.iter().any(|item| !item.kind.is_added());
        is_introduction.then_some((first.content, first.part))
    }

    /// Returns the prompts in order: contents of the user without tool results.
    /// Consecutive contents are one prompt, unless `is_prompt_end` holds for the
    /// prefix of an earlier one, since a request has ended there before.
    pub fn prompts(&self, is_prompt_end: &dyn Fn(Fingerprint) -> bool) -> Vec<Prompt> {
        let last_step = self.last_step();
        let mut prompts: Vec<Prompt> = Vec::new();
        // Prefix at the end of a prompt that the next content may continue.
        let mut open: Option<Fingerprint> = None;
        for items in self.user_runs() {
            let all = self.items.get(items.clone()).unwrap_or_default();
            let is_request = |item: &Item| !item.kind.is_added();
            let has_results = all.iter().any(|item| item.kind == ItemKind::Result);
            // What an agent adds counts as a prompt if nothing else in its step does.
            let is_last_of_step = self.items.get(items.end).is_none_or(|item| item.by_model);
            let is_prompt = !has_results && (is_last_of_step || all.iter().any(is_request));
            let Some(last) = all.last().filter(|_| is_prompt) else {
                open = None;
                continue;
            };
            let starts_step = items.start == 0 || self.is_by_model(items.start - 1);
            let continues = !starts_step && open.is_some_and(|prefix| !is_prompt_end(prefix));
            match prompts.last_mut().filter(|_| continues) {
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
            open = Some(last.prefix);
        }
        prompts
    }

    /// Extends the prompt's fingerprint of each item to what is in front of it there, since hooks
    /// decide about the whole. What an agent adds to a request does not count, nor does a content
    /// for whose last item `is_decided` holds: it was a prompt of its own.
    pub(super) fn join_prompts(&mut self, prompts: &[Prompt], is_decided: &dyn Fn(&Item) -> bool) {
        let fingerprinter = &self.chain.fingerprinter;
        for prompt in prompts {
            let items = self.items.get_mut(prompt.items.clone());
            join_items(items.unwrap_or_default(), fingerprinter, is_decided);
        }
    }

    /// Returns the fingerprint of a prompt that consists of these items.
    pub(super) fn prompt_fingerprint(&self, items: &[Item]) -> Option<Fingerprint> {
        let mut items = items.to_vec();
        join_items(&mut items, &self.chain.fingerprinter, &|_| false);
        items.last().map(|item| item.prompt)
    }

    /// Returns the runs of adjacent items of the user that belong together.
    fn user_runs(&self) -> impl Iterator<Item = Range<usize>> {
        let is_run = |item: &Item, next: &Item| {
            (item.by_model, item.content) == (next.by_model, next.content)
        };
        let mut end = 0;
        let runs = self.items.chunk_by(is_run).map(move |run| {
            let start = end;
            end += run.len();
            start..end
        });
        runs.filter(|run| !self.is_by_model(run.start))
    }

    fn is_by_model(&self, at: usize) -> bool {
        self.items.get(at).is_some_and(|item| item.by_model)
    }
}

/// Sets the prompt's fingerprint of each item of one prompt.
fn join_items(
    items: &mut [Item],
    fingerprinter: &Fingerprinter,
    is_decided: &dyn Fn(&Item) -> bool,
) {
    let has_request = items.iter().any(|item| !item.kind.is_added());
    let mut before: Option<Fingerprint> = None;
    for content in items.chunk_by_mut(|item, next| item.content == next.content) {
        for item in &mut *content {
            item.prompt = before.map_or(item.own, |before| {
                fingerprinter.fingerprint(&(before, item.own))
            });
            if !has_request || !item.kind.is_added() {
                before = Some(item.prompt);
            }
        }
        before = before.filter(|_| content.last().is_none_or(|end| !is_decided(end)));
    }
}

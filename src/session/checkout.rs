//! One request's copy of its session.

use std::{
    collections::{BTreeMap, HashSet},
    hash::Hash,
    sync::Arc,
};

use tokio::sync::OwnedMutexGuard;

use super::{
    conversation::{Conversation, Item, Prompt},
    fingerprint::{Fingerprint, FingerprintBuildHasher},
    in_flight::ActiveRequestGuard,
    response_fingerprint::ResponseFingerprinter,
    session_key::SessionKey,
    session_request::{CallRole, Lookup, MatchKind, SessionRequest},
    state::{ItemNote, MAX_KNOWN_ITEMS, SessionSource, SessionState},
    store::SessionStore,
};
use crate::{
    dialect::{DialectError, History, ItemKind, canonical_items},
    timestamp::now_ms,
};

/// Most prefixes of the latest conversation that a session keeps.
pub(super) const MAX_PREFIXES: usize = 8192;

/// Number of items before the new ones whose index entries are renewed.
const RENEWED_ITEMS: usize = 16;

/// Most items at the end of a prompt that are compared with a denied one.
const MAX_DENIED_ITEMS: usize = 256;

/// One request's copy of a session. [`Session::save`] merges changes back.
#[derive(Debug)]
pub struct Session {
    /// Caller and id of the session.
    pub key: SessionKey,
    /// The conversation of the request.
    pub conversation: Conversation,
    /// The stored state, with the changes of this request.
    pub state: SessionState,
    /// Relation of the request to the session.
    pub match_kind: MatchKind,
    /// Id of the session that the request has forked.
    pub parent: Option<String>,
    role: CallRole,
    prompts: Vec<Prompt>,
    /// Content in which the last step begins.
    last_step: usize,
    store: Arc<SessionStore>,
    /// Fingerprints to index for the session.
    to_index: Vec<Fingerprint>,
    /// Items with changed notes, by prefix, with their own fingerprint and that of their prompt.
    noted: BTreeMap<u64, [u64; 2]>,
    /// Time of the last change of a note, in milliseconds since the Unix epoch.
    last_noted: u64,
    /// True if the store had the session when the request found it, or has it since.
    is_saved: bool,
    /// Marks the session as in use, and the request as in flight until its response is recorded.
    pub(super) active: Option<ActiveRequestGuard>,
    /// Held while this request starts the session.
    pub(super) start: Option<OwnedMutexGuard<()>>,
}

impl Session {
    pub(super) fn new(
        request: SessionRequest<'_>,
        lookup: Lookup,
        mut conversation: Conversation,
        store: Arc<SessionStore>,
    ) -> Self {
        // INVARIANT: later changes of this request do not affect its prompts.
        let ends = &lookup.state.prompt_ends;
        let prompts = conversation.prompts(&|prefix: Fingerprint| ends.contains(&prefix.short()));
        let evaluated = &lookup.state.evaluated;
        // A summary by the model is listed by its prefix only.
        let is_decided = |end: &Item| {
            evaluated.contains(&end.prefix.short()) || evaluated.contains(&end.prompt.short())
        };
        conversation.join_prompts(&prompts, &is_decided);
        let first = conversation.items.get(conversation.last_step().start);
        let mut session = Self {
            key: lookup.key,
            last_step: first.map_or(0, |item| item.content),
            conversation,
            is_saved: lookup.state.first_seen > 0,
            state: lookup.state,
            match_kind: lookup.match_kind,
            parent: lookup.parent,
            role: request.role,
            prompts,
            store,
            to_index: Vec::new(),
            noted: BTreeMap::new(),
            last_noted: 0,
            active: None,
            start: None,
        };
        session.record_request(request, lookup.known_items);
        session
    }

    /// Continues a session that another request has started in the meantime.
    pub(super) fn continue_started(&mut self, context: Option<String>) {
        self.is_saved = true;
        self.state.started = true;
        self.state.context = context;
        if self.match_kind == MatchKind::New {
            self.match_kind = MatchKind::Continued;
        }
    }

    fn record_request(&mut self, request: SessionRequest<'_>, known_items: usize) {
        let is_new = matches!(self.match_kind, MatchKind::New | MatchKind::Forked);
        let state = &mut self.state;
        state.touch(now_ms());
        state.requests += 1;
        state.uncounted = [1, 0];
        if is_new {
            state.first_seen = state.last_seen;
        }
        // An event that the agent reported may have created the session.
        if is_new || state.source == SessionSource::Reported {
            let source = request.named.map(|(_, source)| source);
            state.source = source.unwrap_or(SessionSource::History);
            request.agent.clone_into(&mut state.agent);
        }
        if request.role == CallRole::Main && self.starts_turn() {
            self.state.turns += 1;
            self.state.uncounted = [1, 1];
        }
        // A helper call has a part of the conversation, or more than it.
        let is_helper = request.role == CallRole::Helper && !is_new;
        if is_helper || request.named.is_some() {
            return;
        }
        self.index_items(known_items);
    }

    /// Lists the fingerprints by which the latest items are found, and those of new ones.
    fn index_items(&mut self, known_items: usize) {
        let items = &self.conversation.items;
        let oldest = items.len().saturating_sub(MAX_PREFIXES);
        let kept_since = |at: usize| items.iter().skip(at.max(oldest));
        self.state.prefixes = kept_since(0).map(|item| item.prefix).collect();
        self.state.last_request = items.last().map(|item| item.prefix);
        self.state.answered = false;
        let new = kept_since(known_items);
        let unique = new.filter_map(|item| item.unique.filter(|_| item.by_model));
        let renewed = kept_since(known_items.saturating_sub(RENEWED_ITEMS));
        self.to_index = renewed.map(|item| item.prefix).chain(unique).collect();
    }

    /// Returns whether hooks have evaluated an item, or the prompt that ends with it. That of the
    /// last step must be the same at the same position; earlier ones may have moved.
    pub fn is_evaluated(&self, item: &Item, in_last_step: bool) -> bool {
        let contains = |key: Fingerprint| self.state.evaluated.contains(&key.short());
        contains(item.prefix) || (!in_last_step && contains(item.prompt))
    }

    /// Records that hooks have evaluated an item.
    pub fn mark_evaluated(&mut self, item: &Item) {
        let fingerprints = [item.prefix.short(), item.prompt.short()];
        self.state.evaluated.extend(fingerprints);
    }

    /// Records that hooks and policies have decided about the last step of a request of the agent.
    pub fn mark_last_step_seen(&mut self) {
        if self.role == CallRole::Main {
            let items = self.conversation.items.get(self.conversation.last_step());
            let prefixes = items.unwrap_or_default().iter();
            let prefixes = prefixes.map(|item| item.prefix.short());
            self.state.seen.extend(prefixes);
        }
    }

    /// Returns the note on an item. An item that was moved by a rewritten history has
    /// the note of its former position.
    pub fn note(&self, item: &Item) -> Option<&ItemNote> {
        let (notes, evaluated) = (&self.state.notes, &self.state.evaluated);
        let prompt = item.prompt.short();
        let own = notes.get(&item.own.short());
        // What hooks have decided about another prompt with the same end does not apply.
        let own = own.filter(|_| !evaluated.contains(&prompt));
        let moved = || notes.get(&prompt).or(own).filter(|_| self.is_moved(item));
        let note = notes.get(&item.prefix.short()).or_else(moved);
        note.filter(|note| !note.is_empty())
    }

    /// Returns the note on a denied prompt with which this one ends.
    pub fn moved_denial(&self, prompt: &Prompt) -> Option<ItemNote> {
        let items = self.conversation.items.get(prompt.items.clone())?;
        if self.state.notes.is_empty() || !self.is_moved(items.last()?) {
            return None;
        }
        let oldest = items.len().saturating_sub(MAX_DENIED_ITEMS);
        (oldest..items.len()).rev().find_map(|start| {
            let end = self.conversation.prompt_fingerprint(items.get(start..)?)?;
            let note = self.state.notes.get(&end.short());
            let denied = note.filter(|note| note.denied.is_some());
            let is_prompt = self.state.evaluated.contains(&end.short());
            denied.filter(|_| is_prompt).cloned()
        })
    }

    /// Returns the note on an item for changing it.
    pub fn note_mut(&mut self, item: &Item) -> &mut ItemNote {
        let note = self.note(item).cloned().unwrap_or_default();
        let prefix = item.prefix.short();
        let keys = [item.own.short(), item.prompt.short()];
        if self.noted.insert(prefix, keys).is_none() && item.kind == ItemKind::Result {
            let replaced = self.conversation.chain.replaced_result(item.own);
            self.to_index.push(replaced);
        }
        self.state.notes.entry(prefix).or_insert(note);
        // Equal notes on two items have different times, so that both are counted.
        self.last_noted = now_ms().max(self.last_noted + 1);
        self.state.revise(prefix, self.last_noted)
    }

    /// Records that `SessionStart` was fired, and the context that hooks added.
    pub async fn record_start(&mut self, context: Option<String>) {
        self.state.started = true;
        self.state.context = context;
        self.save().await;
    }

    /// Returns an item of the request.
    pub fn item(&self, at: usize) -> Option<&Item> {
        self.conversation.items.get(at)
    }

    /// Returns a keyed hash of a value, for counting it.
    pub fn fingerprint(&self, value: &impl Hash) -> u64 {
        let fingerprinter = &self.conversation.chain.fingerprinter;
        fingerprinter.fingerprint(value).short()
    }

    /// Records that a turn was stopped. `turn` is the last item of its prompt.
    pub fn record_stop(&mut self, turn: usize, reason: &str) {
        if let Some(item) = self.item(turn).cloned() {
            self.note_mut(&item).stopped = Some(reason.to_owned());
        }
    }

    /// Returns the prompts of the request, in order.
    pub fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    /// Returns the prompt of the last step; `None` if it has tool results or nothing.
    pub fn current_prompt(&self) -> Option<&Prompt> {
        self.prompts.last().filter(|prompt| prompt.last)
    }

    /// Returns the text of a prompt, with a blank line between its parts, without what the
    /// agent adds to it.
    pub fn prompt_text(&self, prompt: &Prompt, history: &History) -> Result<String, DialectError> {
        let added = self.added_parts(prompt);
        let contents = history.contents().get(prompt.contents.clone());
        let mut texts = Vec::new();
        for (index, content) in prompt.contents.clone().zip(contents.unwrap_or_default()) {
            for item in canonical_items(content)? {
                let is_added = added.binary_search(&(index, item.part)).is_ok();
                if !is_added && item.kind.is_text() {
                    texts.push(item.text);
                }
            }
        }
        Ok(texts.join("\n\n"))
    }

    /// Returns the parts of a prompt that the agent adds to it, as indexes of content and part. They
    /// are the prompt if nothing else is in it.
    pub fn added_parts(&self, prompt: &Prompt) -> Vec<(usize, usize)> {
        let items = self.conversation.items.get(prompt.items.clone());
        let items = items.unwrap_or_default();
        let has_request = items.iter().any(|item| !item.kind.is_added());
        let is_added = |index: usize, item: &Item| match item.kind {
            ItemKind::Introduction => prompt.items.start + index == 0 && items.len() > 1,
            ItemKind::Context => has_request,
            ItemKind::Text | ItemKind::Call | ItemKind::Result | ItemKind::Other => false,
        };
        let added = items.iter().enumerate();
        let added = added.filter(|(index, item)| is_added(*index, item));
        added.map(|(_, item)| (item.content, item.part)).collect()
    }

    /// Merges the changes of this request into the stored state. A session that has ended since
    /// the request found it, or saved it first, is not stored again.
    pub async fn save(&mut self) {
        if self.match_kind == MatchKind::Transient {
            return;
        }
        let prompt = self.current_prompt();
        if let Some(prompt) = prompt.filter(|_| self.role == CallRole::Main) {
            let end = self.item(prompt.item).map(|item| item.prefix.short());
            self.state.prompt_ends.extend(end);
        }
        self.copy_notes();
        let state = &self.state;
        let known = [&state.evaluated, &state.prompt_ends, &state.seen];
        if known.iter().any(|items| items.len() > MAX_KNOWN_ITEMS) {
            self.remove_other_items();
        }
        let to_index = std::mem::take(&mut self.to_index);
        let state = self.state.clone();
        self.state.uncounted = [0, 0];
        if self.is_saved {
            self.store.update(&self.key, state, &to_index).await;
        } else {
            self.store.save(&self.key, state, &to_index).await;
            self.is_saved = true;
        }
        self.start = None;
    }

    /// Returns whether the session is matched by its history, not by a name.
    pub fn is_found_by_history(&self) -> bool {
        self.state.source == SessionSource::History
    }

    /// Returns a fingerprinter for the response to this request.
    pub fn response_fingerprinter(&self) -> ResponseFingerprinter {
        ResponseFingerprinter::new(&self.conversation)
    }

    /// Records the response that the agent has received, `by_model` or composed by the
    /// gateway.
    pub async fn record_response(&mut self, response: ResponseFingerprinter, by_model: bool) {
        if let Some(active) = &mut self.active {
            active.finish();
        }
        if self.is_found_by_history() {
            let response = response.finish();
            if self.role == CallRole::Main {
                self.state.answered = by_model && response.ends_turn;
                self.state.prefixes.extend(&response.prefixes);
                self.to_index.extend(response.prefixes);
            }
            self.to_index.extend(response.unique);
        }
        self.state.touch(now_ms());
        self.save().await;
    }

    /// Copies changed notes to the other fingerprints of their items.
    fn copy_notes(&mut self) {
        for (prefix, [own, prompt]) in &self.noted {
            let Some(note) = self.state.notes.get(prefix).cloned() else {
                continue;
            };
            // What hooks have decided about a prompt that consists of this item stays.
            if !self.state.evaluated.contains(own) {
                self.state.notes.insert(*own, note.clone());
            }
            self.state.notes.insert(*prompt, note);
        }
    }

    /// Returns whether decisions about an item may be those of its former position.
    fn is_moved(&self, item: &Item) -> bool {
        let prefix = item.prefix.short();
        let is_decided =
            self.state.evaluated.contains(&prefix) || self.state.seen.contains(&prefix);
        let is_in_last_step = !item.by_model && item.content >= self.last_step;
        !is_decided && (self.role == CallRole::Helper || !is_in_last_step)
    }

    /// Returns whether the request has a prompt that no request had before.
    fn starts_turn(&self) -> bool {
        let prompt = self.current_prompt();
        let item = prompt.and_then(|prompt| self.item(prompt.item));
        item.is_some_and(|item| !self.state.prompt_ends.contains(&item.prefix.short()))
    }

    /// Removes entries of items that are not in this request. Hooks evaluate them
    /// again.
    fn remove_other_items(&mut self) {
        let kept = self.conversation.items.iter();
        let kept = kept.flat_map(|item| [item.prefix, item.own, item.prompt]);
        let kept: HashSet<u64, FingerprintBuildHasher> = kept.map(Fingerprint::short).collect();
        self.state.evaluated.retain(|entry| kept.contains(entry));
        self.state.prompt_ends.retain(|end| kept.contains(end));
        self.state.seen.retain(|entry| kept.contains(entry));
        self.state.notes.retain(|entry, _| kept.contains(entry));
    }
}

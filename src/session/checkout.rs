//! One request's copy of its session.

use std::{
    collections::{BTreeMap, HashSet},
    hash::Hash,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    Conversation, Fingerprint, FingerprintBuildHasher, Fingerprinter, Item, ItemNote,
    MAX_KNOWN_ITEMS, Prompt, ResponseFingerprinter, SessionKey, SessionSource, SessionState,
    SessionStore, in_flight::ActiveRequestGuard,
};
use crate::dialect::{CanonicalItem, DialectError, History, ItemKind, canonical_items};

/// How many states the line of a session has; of more, the last.
const LONGEST_LINE: usize = 8192;

/// How many items before the new ones lead to the session for longer.
const REFRESHED: usize = 16;

/// Who comes with a request.
#[derive(Debug, Clone, Copy)]
pub struct SessionRequest<'a> {
    /// SHA-256 of the caller's credential; empty without one.
    pub caller: &'a str,
    /// The agent, as it calls itself.
    pub agent: &'a str,
    /// The session's name, and where it is said.
    pub named: Option<(&'a str, SessionSource)>,
    /// What kind of call it is.
    pub role: CallRole,
}

/// What kind of call a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRole {
    /// An agent's own.
    Main,
    /// One that an agent makes on the side: to choose a model, to sum up.
    Helper,
}

/// How a request came to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// The session begins.
    New,
    /// Where it ended last time.
    GoesOn,
    /// After an earlier word of it.
    RolledBack,
    /// After an earlier word of another agent's, with what is remembered of that.
    Forked,
    /// With a history that was rewritten; some of it is known.
    Rewritten,
    /// A helper call of no session; nothing is remembered of it.
    Unkept,
}

impl MatchKind {
    /// The word for it in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::GoesOn => "continued",
            Self::RolledBack => "rolled_back",
            Self::Forked => "forked",
            Self::Rewritten => "rewritten",
            Self::Unkept => "untracked",
        }
    }
}

/// What a request is met with.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) key: SessionKey,
    pub(super) state: SessionState,
    pub(super) match_kind: MatchKind,
    /// How many items of the request lead to the session already.
    pub(super) known: usize,
}

impl Lookup {
    pub(super) fn new(key: SessionKey) -> Self {
        Self {
            key,
            state: SessionState::default(),
            match_kind: MatchKind::New,
            known: 0,
        }
    }
}

/// One request's copy of a session. Changes are merged back by [`Session::save`].
#[derive(Debug)]
pub struct Session {
    /// What it is known by.
    pub key: SessionKey,
    /// What the request says.
    pub conversation: Conversation,
    /// What is remembered.
    pub state: SessionState,
    /// How the request came to it.
    pub match_kind: MatchKind,
    role: CallRole,
    /// The prompts of the request, in order.
    prompts: Vec<Prompt>,
    /// The content in which the last step begins.
    last_step: usize,
    printer: Fingerprinter,
    store: Arc<dyn SessionStore>,
    /// Fingerprints that are to lead here.
    leading: Vec<Fingerprint>,
    /// Items whose notes were changed: their states, and their own prints.
    noted: BTreeMap<u64, u64>,
    /// Says that it is being answered.
    begun: Option<ActiveRequestGuard>,
}

impl Session {
    pub(super) fn new(
        visit: SessionRequest<'_>,
        found: Lookup,
        conversation: Conversation,
        (printer, store): (Fingerprinter, Arc<dyn SessionStore>),
    ) -> Self {
        let last_step = conversation.last_step().start;
        let first = conversation.items.get(last_step);
        let mut session = Self {
            key: found.key,
            last_step: first.map_or(0, |it| it.content),
            conversation,
            state: found.state,
            match_kind: found.match_kind,
            role: visit.role,
            prompts: Vec::new(),
            printer,
            store,
            leading: Vec::new(),
            noted: BTreeMap::new(),
            begun: None,
        };
        // INVARIANT: what is remembered later of this request changes none of them.
        let ended = |it: Fingerprint| session.state.known.contains(&session.end_of_prompt(it));
        session.prompts = session.conversation.prompts(&ended);
        session.meet(visit, found.known);
        session
    }

    /// Keeps the sign that the request is being answered, as long as it is.
    pub(super) fn under_way(&mut self, begun: ActiveRequestGuard) {
        self.begun = Some(begun);
    }

    /// Takes down that the request came.
    fn meet(&mut self, visit: SessionRequest<'_>, known: usize) {
        let begins = matches!(self.match_kind, MatchKind::New | MatchKind::Forked);
        let state = &mut self.state;
        hear(state);
        state.requests += 1;
        if begins {
            state.first_seen = state.last_seen;
            state.source = visit.named.map_or(SessionSource::History, |it| it.1);
            visit.caller.clone_into(&mut state.caller);
            visit.agent.clone_into(&mut state.agent);
        }
        if visit.role == CallRole::Main && self.begins_turn() {
            self.state.turns += 1;
        }
        // A helper call sends a part of the conversation, or more than it.
        let helps = visit.role == CallRole::Helper && !begins;
        if helps || visit.named.is_some() {
            return;
        }
        let items = &self.conversation.items;
        let line = items.iter().skip(items.len().saturating_sub(LONGEST_LINE));
        self.state.line = line.map(|it| it.state).collect();
        self.state.asked = items.last().map(|it| it.state);
        self.state.answered = false;
        let new = items.iter().skip(known);
        let marks = new.filter(|it| it.by_model).filter_map(|it| it.mark);
        let states = items.iter().skip(known.saturating_sub(REFRESHED));
        self.leading = states.map(|it| it.state).chain(marks).collect();
    }

    /// Whether hooks were asked about an item. In the last step only the very same
    /// words in the very same place count.
    pub fn is_evaluated(&self, item: &Item, in_last_step: bool) -> bool {
        let known = |it: Fingerprint| self.state.known.contains(&it.short());
        known(item.state) || (!in_last_step && known(item.own))
    }

    /// Remembers that hooks were asked about an item.
    pub fn mark_evaluated(&mut self, item: &Item) {
        let prints = [item.state.short(), item.own.short()];
        self.state.known.extend(prints);
    }

    /// What hooks said of an item. One that stands elsewhere than it did, because
    /// its history was rewritten, has the note that it had there.
    pub fn note(&self, item: &Item) -> Option<&ItemNote> {
        let notes = &self.state.notes;
        let note = notes.get(&item.state.short());
        let moved = || {
            let known = self.state.known.contains(&item.state.short());
            !known && (self.role == CallRole::Helper || !self.is_of_last_step(item))
        };
        let note = note.or_else(|| notes.get(&item.own.short()).filter(|_| moved()));
        note.filter(|it| !it.is_empty())
    }

    /// What hooks said of an item, to be changed.
    pub fn note_mut(&mut self, item: &Item) -> &mut ItemNote {
        let known = self.note(item).cloned().unwrap_or_default();
        let (state, own) = (item.state.short(), item.own.short());
        if self.noted.insert(state, own).is_none() && item.kind == ItemKind::Result {
            let print = self.conversation.chain.hidden(&self.printer, item.own);
            self.leading.push(print);
        }
        self.state.notes.entry(state).or_insert(known);
        self.state.revise(state, now())
    }

    /// Remembers that the session's start was told of, and what hooks added to it.
    pub fn record_start(&mut self, context: Option<String>) {
        self.state.started = true;
        self.state.context = context;
    }

    /// An item of the request.
    pub fn item(&self, at: usize) -> Option<&Item> {
        self.conversation.items.get(at)
    }

    /// A keyed hash of anything, to count it by.
    pub fn fingerprint(&self, value: &impl Hash) -> u64 {
        self.printer.print(value).short()
    }

    /// Remembers that a turn, known by the last item of its prompt, is stopped.
    pub fn record_stop(&mut self, turn: usize, reason: &str) {
        if let Some(item) = self.item(turn).cloned() {
            self.note_mut(&item).stopped = Some(reason.to_owned());
        }
    }

    /// The prompts of the request, in order.
    pub fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    /// The prompt that the request is about; none if tools answer, or nobody asks.
    pub fn current_prompt(&self) -> Option<&Prompt> {
        self.prompts.last().filter(|it| it.last)
    }

    /// The text of a prompt, with a blank line between its parts.
    pub fn prompt_text(&self, prompt: &Prompt, history: &History) -> Result<String, DialectError> {
        let contents = history.contents().get(prompt.contents.clone());
        let first = self.conversation.items.first();
        let introduced = first.filter(|it| {
            it.kind == ItemKind::Introduction && prompt.items.contains(&0) && prompt.items.len() > 1
        });
        let mut skipped = introduced.map(|it| it.part);
        let mut texts = Vec::new();
        for content in contents.unwrap_or_default() {
            let items = canonical_items(content)?.into_iter();
            let asked = items.filter(|it| skipped.take_if(|part| *part == it.part).is_none());
            let is_text =
                |it: &CanonicalItem| matches!(it.kind, ItemKind::Text | ItemKind::Introduction);
            texts.extend(asked.filter(is_text).map(|it| it.text));
        }
        Ok(texts.join("\n\n"))
    }

    /// Merges what was changed into what is remembered.
    pub async fn save(&mut self) {
        if self.match_kind == MatchKind::Unkept {
            return;
        }
        if let Some(prompt) = self
            .current_prompt()
            .filter(|_| self.role == CallRole::Main)
        {
            let item = self.conversation.items.get(prompt.item);
            let ended = item.map(|it| self.end_of_prompt(it.state));
            self.state.known.extend(ended);
        }
        for (state, own) in &self.noted {
            if let Some(note) = self.state.notes.get(state).cloned() {
                self.state.notes.insert(*own, note);
            }
        }
        if self.state.known.len() > MAX_KNOWN_ITEMS {
            self.forget_others();
        }
        let leading = std::mem::take(&mut self.leading);
        let state = self.state.clone();
        self.store.save(&self.key, state, &leading).await;
    }

    /// Whether it will be found again by what is said in it, and not by a name.
    pub fn is_found_by_history(&self) -> bool {
        self.state.source == SessionSource::History
    }

    /// An answer to this request, to be fed with what goes out.
    pub fn response_fingerprinter(&self) -> ResponseFingerprinter {
        ResponseFingerprinter::new(&self.conversation, &self.printer)
    }

    /// Remembers what the agent was given: the model's answer, or other words.
    pub async fn record_response(&mut self, emission: ResponseFingerprinter, by_model: bool) {
        self.begun = None;
        if self.is_found_by_history() {
            let said = emission.finish();
            if self.role == CallRole::Main {
                self.state.answered = by_model && said.concludes;
                self.state.line.extend(&said.states);
                self.leading.extend(said.states);
            }
            self.leading.extend(said.marks);
        }
        hear(&mut self.state);
        self.save().await;
    }

    /// Whether the request asks for something that it did not ask for before.
    fn begins_turn(&self) -> bool {
        let item = self.current_prompt().map(|it| it.item);
        let item = item.and_then(|it| self.conversation.items.get(it));
        item.is_some_and(|it| !self.state.known.contains(&self.end_of_prompt(it.state)))
    }

    fn is_of_last_step(&self, item: &Item) -> bool {
        !item.by_model && item.content >= self.last_step
    }

    /// What says that a request ended with the prompt whose last item has this
    /// state.
    fn end_of_prompt(&self, state: Fingerprint) -> u64 {
        self.printer.print(&("prompt", state)).short()
    }

    /// Forgets what is not of this request. Hooks are asked about it again.
    fn forget_others(&mut self) {
        let items = self.conversation.items.iter();
        let here = items.flat_map(|it| {
            let prompt = self.end_of_prompt(it.state);
            [it.state.short(), it.own.short(), prompt]
        });
        let here: HashSet<u64, FingerprintBuildHasher> = here.collect();
        self.state.known.retain(|it| here.contains(it));
        self.state.notes.retain(|it, _| here.contains(it));
    }
}

/// A session is heard of: later than before, whatever the clock says, for of two
/// states of a session the later one has its line.
pub(super) fn hear(state: &mut SessionState) {
    state.last_seen = now().max(state.last_seen.saturating_add(1));
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map(|it| it.as_millis()).unwrap_or_default();
    u64::try_from(now).unwrap_or(u64::MAX)
}

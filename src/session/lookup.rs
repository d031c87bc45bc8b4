//! Which session a request belongs to.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    CallRole, Conversation, ConversationCache, Fingerprint, Fingerprinter, Item, MatchKind,
    Session, SessionKey, SessionRequest, SessionState, SessionStore,
    checkout::{Lookup, hear, now},
    in_flight::{ActiveRequests, ConcurrentRequests},
};
use crate::{
    dialect::{DialectError, History, ItemKind},
    event::EventName,
};

/// How many states are looked for first, and how many next: an agent that goes on
/// has said little since.
const BATCHES: [usize; 2] = [16, 256];

/// After how many milliseconds the same first prompt is another conversation's, if
/// it was answered and nothing else was asked since. Who asks again because no
/// answer came, asks at once.
const ANOTHER: u64 = 60_000;

/// Every session there is.
#[derive(Debug)]
pub struct Sessions {
    reader: ConversationCache,
    store: Arc<dyn SessionStore>,
    under_way: Arc<ActiveRequests>,
}

impl Sessions {
    /// Those that `store` remembers.
    pub fn new(store: Arc<dyn SessionStore>) -> Self {
        Self {
            reader: ConversationCache::default(),
            store,
            under_way: Arc::default(),
        }
    }

    /// Where they are kept.
    pub fn store(&self) -> &dyn SessionStore {
        self.store.as_ref()
    }

    /// Finds the session of a request, or makes one. Nothing is remembered of the
    /// request before [`Session::save`]. Boxed, for it goes through many hands.
    pub async fn open(
        &self,
        visit: SessionRequest<'_>,
        history: Option<&History>,
    ) -> Result<Box<Session>, DialectError> {
        let printer = self.store.fingerprinter().await;
        let conversation = match history {
            Some(history) => self.reader.read(&printer, visit.caller, history).await?,
            None => Conversation::empty(&printer, visit.caller),
        };
        let found = match visit.named {
            Some((id, _)) => self.named(visit.caller, id).await,
            None => self.recognise(&visit, &conversation, &printer).await,
        };
        let begun = ActiveRequests::begin(&self.under_way, &found.key, &conversation.items);
        let store = Arc::clone(&self.store);
        let mut session = Box::new(Session::new(visit, found, conversation, (printer, store)));
        if visit.role == CallRole::Main {
            session.under_way(begun);
        }
        Ok(session)
    }

    /// A conversation as it is read, whichever session it belongs to.
    pub async fn read(
        &self,
        caller: &str,
        history: &History,
    ) -> Result<Conversation, DialectError> {
        let printer = self.store.fingerprinter().await;
        self.reader.read(&printer, caller, history).await
    }

    /// Remembers that an agent reports an event of this session itself: from now
    /// on it is not read off the session's model calls.
    pub async fn record_reported_event(&self, caller: &str, id: &str, event: EventName) {
        let found = self.named(caller, id).await;
        let mut state = found.state;
        if found.match_kind == MatchKind::New {
            state.source = super::SessionSource::Reported;
            caller.clone_into(&mut state.caller);
            state.first_seen = now();
        }
        hear(&mut state);
        state.reported.insert(event);
        self.store.save(&found.key, state, &[]).await;
    }

    /// Ends a session; what was remembered of it.
    pub async fn remove(&self, key: &SessionKey) -> Option<SessionState> {
        self.store.remove(key).await
    }

    async fn named(&self, caller: &str, id: &str) -> Lookup {
        let key = key(caller, id.to_owned());
        match self.store.load(&key).await {
            Some(state) => Lookup {
                key,
                state,
                match_kind: MatchKind::GoesOn,
                known: 0,
            },
            None => Lookup::new(key),
        }
    }

    async fn recognise(
        &self,
        visit: &SessionRequest<'_>,
        conversation: &Conversation,
        printer: &Fingerprinter,
    ) -> Lookup {
        if let Some(found) = self.by_state(visit, &conversation.items).await {
            return found;
        }
        let marks = marks(conversation, printer);
        if let Some((_, key, mut state)) = self.find(visit.caller, &marks).await {
            self.know_summaries(&key, &mut state, conversation).await;
            return Lookup {
                key,
                state,
                match_kind: MatchKind::Rewritten,
                known: 0,
            };
        }
        if visit.role == CallRole::Main || introduces(&conversation.items) {
            return Lookup::new(key(visit.caller, Uuid::new_v4().to_string()));
        }
        let first = conversation.items.first();
        let first = conversation
            .items
            .iter()
            .take_while(|it| first.is_some_and(|first| first.content == it.content));
        let first: Vec<Fingerprint> = first.map(|it| it.own).collect();
        let id = printer.print(&("unnamed", visit.caller, first));
        let mut found = Lookup::new(key(visit.caller, format!("{:032x}", id.0)));
        found.match_kind = MatchKind::Unkept;
        found
    }

    /// Nobody asks for what the model said of the conversation.
    async fn know_summaries(
        &self,
        key: &SessionKey,
        state: &mut SessionState,
        said: &Conversation,
    ) {
        for item in summaries(said) {
            if self.leads(key, item.mark).await {
                state.known.insert(item.state.short());
            }
        }
    }

    /// The session that knows the longest start of the conversation.
    async fn by_state(&self, visit: &SessionRequest<'_>, items: &[Item]) -> Option<Lookup> {
        // What gemini-cli tells of itself it tells in every session.
        let says = |it: &Item| it.kind != ItemKind::Introduction;
        let first = items.iter().position(says)?;
        let asked = items.get(first..).unwrap_or_default().iter();
        let states: Vec<Fingerprint> = asked.rev().map(|it| it.state).collect();
        let mut rest = states.as_slice();
        for size in BATCHES.into_iter().chain([states.len()]) {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            if let Some(found) = self.find(visit.caller, batch).await {
                let (state, key, memo) = self.who_goes_on(visit.caller, items, found).await;
                let known = items.iter().position(|it| it.state == state)?;
                let asking = MatchContext {
                    role: visit.role,
                    known: items.get(..=known).unwrap_or_default(),
                    rest: items.get(known + 1..).unwrap_or_default(),
                    beside: self.under_way.beside(&key, items),
                };
                return Some(asking.meet(key, memo));
            }
            rest = later;
        }
        None
    }

    /// A request that one session has made before may be what another comes to,
    /// whose last word stands before it: then it is that one's.
    async fn who_goes_on(&self, caller: &str, items: &[Item], found: StoredMatch) -> StoredMatch {
        if items.last().is_none_or(|it| it.state != found.0) {
            return found;
        }
        let Some(said) = items.iter().rfind(|it| it.by_model) else {
            return found;
        };
        let ends_there = |it: &SessionState| it.answered && it.line.last() == Some(&said.state);
        match self.store.find(&[said.state]).await {
            // What is remembered of this one is here already.
            Some((_, id)) if id == found.1.id => {
                let print = if ends_there(&found.2) {
                    said.state
                } else {
                    found.0
                };
                (print, found.1, found.2)
            }
            Some((_, id)) => {
                let key = key(caller, id);
                let state = self.store.load(&key).await.filter(ends_there);
                state.map_or(found, |state| (said.state, key, state))
            }
            None => found,
        }
    }

    /// Whether a mark leads to this session.
    async fn leads(&self, key: &SessionKey, mark: Option<Fingerprint>) -> bool {
        let Some(mark) = mark else {
            return false;
        };
        let found = self.store.find(&[mark]).await;
        found.is_some_and(|(_, id)| id == key.id)
    }

    /// The first of `prints` that leads to a session, and that session.
    async fn find(&self, caller: &str, prints: &[Fingerprint]) -> Option<StoredMatch> {
        if prints.is_empty() {
            return None;
        }
        let (at, id) = self.store.find(prints).await?;
        let key = key(caller, id);
        let state = self.store.load(&key).await?;
        Some((*prints.get(at)?, key, state))
    }
}

/// A print that leads to a session, and that session.
type StoredMatch = (Fingerprint, SessionKey, SessionState);

/// A request of whose conversation a session knows the start.
struct MatchContext<'a> {
    role: CallRole,
    known: &'a [Item],
    rest: &'a [Item],
    /// What other requests of that session are not answered to their end.
    beside: ConcurrentRequests,
}

impl MatchContext<'_> {
    /// What it is met with.
    fn meet(&self, session: SessionKey, memo: SessionState) -> Lookup {
        let match_kind = self.match_kind(&memo);
        let known = self.known.len();
        let new = || key(&session.caller, Uuid::new_v4().to_string());
        match match_kind {
            MatchKind::New => Lookup::new(new()),
            // Two agents had said the same so far. This one takes what is
            // remembered along.
            MatchKind::Forked => Lookup {
                key: new(),
                state: SessionState {
                    known: memo.known,
                    notes: memo.notes,
                    reported: memo.reported,
                    ..SessionState::default()
                },
                match_kind,
                known,
            },
            _ => Lookup {
                key: session,
                state: memo,
                match_kind,
                known,
            },
        }
    }

    fn match_kind(&self, memo: &SessionState) -> MatchKind {
        let state = self.known.last().map(|it| it.state);
        let on_line = memo.line.iter().rposition(|it| Some(*it) == state);
        let end = memo.line.last();
        match on_line {
            _ if self.begins_anew(memo) => MatchKind::New,
            // Two agents that take turns each find their own words last.
            Some(_)
                if self.role == CallRole::Main
                    && self.beside == ConcurrentRequests::Other
                    && self.asks() =>
            {
                MatchKind::Forked
            }
            Some(at) if at + 1 == memo.line.len() => MatchKind::GoesOn,
            Some(_) if self.asks_beside(memo) || self.asks_again(memo) => MatchKind::Forked,
            Some(_) => MatchKind::RolledBack,
            // What was said last may not have been taken down.
            None if self.known.iter().any(|it| Some(&it.state) == end) => MatchKind::GoesOn,
            None if self.role == CallRole::Helper => MatchKind::GoesOn,
            None => MatchKind::Forked,
        }
    }

    /// Whether it asks something else than what was asked last: nobody takes back
    /// what was answered well, or asks two things at once.
    fn asks_beside(&self, memo: &SessionState) -> bool {
        self.role == CallRole::Main && self.asks() && (memo.answered || self.is_under_way())
    }

    /// Whether all that is new is the user's.
    fn asks(&self) -> bool {
        !self.rest.is_empty() && self.rest.iter().all(|it| !it.by_model)
    }

    /// Whether it is a first prompt that another conversation began with, too.
    fn begins_anew(&self, memo: &SessionState) -> bool {
        let first = self.rest.is_empty() && self.known.iter().all(|it| !it.by_model);
        let long_ago = now().saturating_sub(memo.last_seen) > ANOTHER;
        let over = self.is_over(memo) && (long_ago || self.asks_again(memo));
        self.role == CallRole::Main && first && over
    }

    /// Whether it asks what was asked before something else was asked and
    /// answered.
    fn asks_again(&self, memo: &SessionState) -> bool {
        let last = self.known.last().map(|it| it.state);
        let again = self.rest.is_empty() && last != memo.asked;
        self.role == CallRole::Main && again && self.is_over(memo)
    }

    /// Whether the session's latest turn has come to its end.
    fn is_over(&self, memo: &SessionState) -> bool {
        memo.answered && !self.is_under_way()
    }

    fn is_under_way(&self) -> bool {
        self.beside != ConcurrentRequests::Nothing
    }
}

/// Fingerprints by which the session is found whose history was rewritten: what the
/// model said or called, what stands for it in the first content, and results
/// that were hidden. The latest first.
fn marks(conversation: &Conversation, printer: &Fingerprinter) -> Vec<Fingerprint> {
    let items = &conversation.items;
    if !items.iter().any(|it| it.by_model) {
        return Vec::new();
    }
    let by_model = items.iter().rev().filter(|it| it.by_model);
    let results = items.iter().rev().filter(|it| it.kind == ItemKind::Result);
    let hidden = results.map(|it| conversation.chain.hidden(printer, it.own));
    let marks = by_model
        .chain(summaries(conversation))
        .filter_map(|it| it.mark);
    marks.chain(hidden).collect()
}

/// What may stand for a conversation that was summed up: it comes first, as if the
/// user had said it.
fn summaries(conversation: &Conversation) -> impl Iterator<Item = &Item> {
    let items = conversation.items.iter();
    let first = conversation.items.first().map(|it| it.content);
    items.filter(move |it| !it.by_model && Some(it.content) == first)
}

/// Whether a helper call comes before the first call of its agent, with the same
/// prompt: gemini-cli asks which model is to answer.
fn introduces(items: &[Item]) -> bool {
    let introduction = |it: &Item| it.kind == ItemKind::Introduction;
    items.first().is_some_and(introduction)
        && items.len() > 1
        && !items.iter().any(|it| it.by_model)
}

fn key(caller: &str, id: String) -> SessionKey {
    let caller = caller.to_owned();
    SessionKey { caller, id }
}

#[cfg(test)]
mod tests;

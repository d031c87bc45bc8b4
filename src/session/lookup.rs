//! Lookup of the session that a request belongs to.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    checkout::{MAX_PREFIXES, Session},
    conversation::{Conversation, Item},
    conversation_cache::ConversationCache,
    fingerprint::Fingerprint,
    fingerprint_chain::FingerprintChain,
    in_flight::{ActiveRequests, StartLocks},
    prefix_match::PrefixMatch,
    session_key::SessionKey,
    session_request::{CallRole, Lookup, MatchKind, RecordedMatch, SessionRequest},
    state::{SessionSource, SessionState},
    store::SessionStore,
};
use crate::{
    dialect::{DialectError, History, ItemKind},
    event::EventName,
    timestamp::now_ms,
};

/// Number of prefixes in the first two queries: an agent that continues has added few
/// items.
const BATCH_SIZES: [usize; 2] = [16, 256];

/// Number of items in which a summary is searched for: agents write little in front of it.
const MAX_SUMMARY_PARTS: usize = 64;

/// All sessions of a store.
#[derive(Debug)]
pub struct Sessions {
    cache: ConversationCache,
    store: Arc<SessionStore>,
    active: Arc<ActiveRequests>,
    starts: StartLocks,
}

/// Session that a fingerprint is indexed for.
struct StoredMatch {
    fingerprint: Fingerprint,
    key: SessionKey,
    state: SessionState,
}

impl Sessions {
    /// Returns the sessions of `store`.
    pub fn new(store: SessionStore) -> Self {
        Self {
            cache: ConversationCache::default(),
            store: Arc::new(store),
            active: Arc::default(),
            starts: StartLocks::default(),
        }
    }

    /// Returns the store of the sessions.
    pub fn store(&self) -> &SessionStore {
        &self.store
    }

    /// Finds or creates the session of a request. Nothing is stored before
    /// [`Session::save`]. Boxed, since it is moved often.
    pub async fn open(
        &self,
        request: SessionRequest<'_>,
        history: Option<&History>,
    ) -> Result<Box<Session>, DialectError> {
        let fingerprinter = self.store.fingerprinter().await;
        let caller = request.caller;
        let start = FingerprintChain::new(fingerprinter, caller, request.continued);
        let conversation = match history {
            Some(history) => self.cache.read(start, history).await?,
            None => Conversation::empty(start),
        };
        let lookup = match request.named {
            Some((id, _)) => self.find_named(caller, id).await,
            None => self.find_by_history(&request, &conversation).await,
        };
        let lookup = match request.recorded {
            Some(recorded) => self.as_recorded(caller, lookup, recorded).await,
            None => lookup,
        };
        let last = conversation.items.last().map(|item| item.prefix);
        let last = last.filter(|_| request.role == CallRole::Main);
        let guard = self.active.start(&lookup.key, last);
        let store = Arc::clone(&self.store);
        let mut session = Session::new(request, lookup, conversation, store);
        session.active = Some(guard);
        Ok(Box::new(session))
    }

    /// Waits until no other request starts the session, and takes over the start of one that
    /// has. Otherwise this request starts the session, and others wait until it is saved.
    pub async fn wait_for_start(&self, session: &mut Session) {
        let guard = self.starts.lock(&session.key).await;
        match self.store.load(&session.key).await {
            Some(stored) if stored.started => session.continue_started(stored.context),
            _ => session.start = Some(guard),
        }
    }

    /// Reads a conversation without looking up its session. `continued` is the id of the stored
    /// response that it continues.
    pub async fn read(
        &self,
        caller: &str,
        continued: Option<&str>,
        history: &History,
    ) -> Result<Conversation, DialectError> {
        let fingerprinter = self.store.fingerprinter().await;
        let start = FingerprintChain::new(fingerprinter, caller, continued);
        self.cache.read(start, history).await
    }

    /// Records that an agent reports an event of this session itself, so that it is
    /// no longer derived from model calls.
    pub async fn record_reported_event(&self, caller: &str, id: &str, event: EventName) {
        let lookup = self.find_named(caller, id).await;
        let mut state = lookup.state;
        if lookup.match_kind == MatchKind::New {
            state.source = SessionSource::Reported;
            state.first_seen = now_ms();
        }
        state.touch(now_ms());
        state.reported.insert(event);
        self.store.save(&lookup.key, state, &[]).await;
    }

    /// Ends idle sessions like [`SessionStore::expire`], but none with a call in flight.
    pub async fn expire(&self) -> Vec<(SessionKey, SessionState)> {
        self.store.touch(&self.active.sessions()).await;
        self.store.expire().await
    }

    /// Ends a session and returns its last state.
    pub async fn remove(&self, key: &SessionKey) -> Option<SessionState> {
        self.store.remove(key).await
    }

    /// Corrects a lookup to the session to which the request was matched when it was recorded.
    async fn as_recorded(&self, caller: &str, lookup: Lookup, recorded: &RecordedMatch) -> Lookup {
        let key = SessionKey::new(caller, recorded.id.as_str());
        let match_kind = recorded.match_kind;
        let mut lookup = match match_kind {
            MatchKind::Forked => Lookup {
                key,
                state: lookup.state.forked(),
                match_kind,
                ..lookup
            },
            MatchKind::New | MatchKind::Transient => {
                self.store.remove(&key).await;
                Lookup {
                    match_kind,
                    ..Lookup::new_session(key)
                }
            }
            _ if lookup.key == key => lookup,
            _ => Lookup {
                state: self.store.load(&key).await.unwrap_or_default(),
                match_kind,
                ..Lookup::new_session(key)
            },
        };
        lookup.state.reported.clone_from(&recorded.reported);
        lookup
    }

    async fn find_named(&self, caller: &str, id: &str) -> Lookup {
        let key = SessionKey::new(caller, id);
        match self.store.load(&key).await {
            Some(state) => Lookup {
                state,
                match_kind: MatchKind::Continued,
                ..Lookup::new_session(key)
            },
            None => Lookup::new_session(key),
        }
    }

    async fn find_by_history(
        &self,
        request: &SessionRequest<'_>,
        conversation: &Conversation,
    ) -> Lookup {
        let items = &conversation.items;
        if let Some(lookup) = self.find_by_prefix(request, items).await {
            return lookup;
        }
        let unique = unique_fingerprints(conversation, request.role);
        if let Some(found) = self.find(request.caller, &unique).await {
            let mut state = found.state;
            let key = &found.key;
            self.mark_summaries(key, &mut state, conversation).await;
            return Lookup {
                state,
                match_kind: MatchKind::Rewritten,
                ..Lookup::new_session(found.key)
            };
        }
        if request.role == CallRole::Main || is_before_first_call(items) {
            let id = Uuid::new_v4().to_string();
            return Lookup::new_session(SessionKey::new(request.caller, id));
        }
        let first_content = items.first().map(|item| item.content);
        let is_first = |item: &&Item| Some(item.content) == first_content;
        let first = items.iter().take_while(is_first);
        let first: Vec<Fingerprint> = first.map(|item| item.own).collect();
        let fingerprinter = &conversation.chain.fingerprinter;
        let id = fingerprinter.fingerprint(&("unnamed", request.caller, first));
        let key = SessionKey::new(request.caller, format!("{:032x}", id.0));
        Lookup {
            match_kind: MatchKind::Transient,
            ..Lookup::new_session(key)
        }
    }

    /// Marks summaries of the conversation by the model as evaluated, so that hooks do
    /// not see them as prompts.
    async fn mark_summaries(
        &self,
        key: &SessionKey,
        state: &mut SessionState,
        conversation: &Conversation,
    ) {
        for item in summary_candidates(conversation) {
            if let Some(unique) = item.unique
                && let Some((_, id)) = self.store.find(&[unique]).await
                && id == key.id
            {
                state.evaluated.insert(item.prefix.short());
            }
        }
    }

    /// Finds the session with the longest prefix of the conversation.
    async fn find_by_prefix(&self, request: &SessionRequest<'_>, items: &[Item]) -> Option<Lookup> {
        // What agents add to the first prompt is the same in many sessions.
        let first = items.iter().position(|item| !item.kind.is_added())?;
        let items_from_first = items.get(first..).unwrap_or_default().iter();
        // A session has no more.
        let latest = items_from_first.rev().take(MAX_PREFIXES);
        let prefixes: Vec<Fingerprint> = latest.map(|item| item.prefix).collect();
        let mut rest = prefixes.as_slice();
        for size in BATCH_SIZES.into_iter().chain([prefixes.len()]) {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            if let Some(found) = self.find(request.caller, batch).await {
                let found = self.prefer_continued(request.caller, items, found).await;
                let is_found = |item: &Item| item.prefix == found.fingerprint;
                let last = items.iter().position(is_found)?;
                let prefix_match = PrefixMatch {
                    role: request.role,
                    known: items.get(..=last).unwrap_or_default(),
                    rest: items.get(last + 1..).unwrap_or_default(),
                    concurrent: self.active.compare(&found.key, items),
                };
                return Some(prefix_match.into_lookup(found.key, found.state));
            }
            rest = later;
        }
        None
    }

    /// Handles a request that one session has sent before while another session ends
    /// right before its last prompt: it belongs to the latter.
    async fn prefer_continued(
        &self,
        caller: &str,
        items: &[Item],
        found: StoredMatch,
    ) -> StoredMatch {
        let last = items.last().map(|item| item.prefix);
        let is_repeated = last == Some(found.fingerprint);
        let response = items.iter().rfind(|item| item.by_model);
        let Some(response) = response.filter(|_| is_repeated) else {
            return found;
        };
        let ends_there = |other: &StoredMatch| {
            other.state.answered && other.state.prefixes.last() == Some(&other.fingerprint)
        };
        let other = self.find(caller, &[response.prefix]).await;
        other.filter(ends_there).unwrap_or(found)
    }

    /// Finds the session of the first fingerprint that is indexed.
    async fn find(&self, caller: &str, fingerprints: &[Fingerprint]) -> Option<StoredMatch> {
        if fingerprints.is_empty() {
            return None;
        }
        let (at, id) = self.store.find(fingerprints).await?;
        let key = SessionKey::new(caller, id);
        let state = self.store.load(&key).await?;
        let fingerprint = *fingerprints.get(at)?;
        Some(StoredMatch {
            fingerprint,
            key,
            state,
        })
    }
}

/// Returns the fingerprints that find a session whose history was rewritten, latest
/// first: items of the model, a summary in the first content, and replaced results for
/// a helper call, which has a part of its conversation. Other conversations of the
/// caller may have an equal result.
fn unique_fingerprints(conversation: &Conversation, role: CallRole) -> Vec<Fingerprint> {
    let items = &conversation.items;
    if !items.iter().any(|item| item.by_model) {
        return Vec::new();
    }
    let latest = items.iter().rev();
    let by_model = latest.clone().filter(|item| item.by_model);
    let found_by_text = by_model.chain(summary_candidates(conversation));
    let unique = found_by_text.filter_map(|item| item.unique);
    let is_helper = role == CallRole::Helper;
    let results = latest.filter(|item| is_helper && item.kind == ItemKind::Result);
    let replaced = results.map(|item| conversation.chain.replaced_result(item.own));
    unique.chain(replaced).take(MAX_PREFIXES).collect()
}

/// Returns the items that may be a summary of the conversation: agents send it as the
/// first content of the user.
fn summary_candidates(conversation: &Conversation) -> impl Iterator<Item = &Item> {
    let items = conversation.items.iter();
    let first = conversation.items.first().map(|item| item.content);
    let candidates = items.filter(move |item| !item.by_model && Some(item.content) == first);
    candidates.take(MAX_SUMMARY_PARTS)
}

/// Returns whether a helper call precedes the first call of its agent, with the same prompt:
/// gemini-cli uses one to choose the model.
fn is_before_first_call(items: &[Item]) -> bool {
    let is_introduction = |item: &Item| item.kind == ItemKind::Introduction;
    items.first().is_some_and(is_introduction)
        && items.len() > 1
        && !items.iter().any(|item| item.by_model)
}

#[cfg(test)]
mod tests;

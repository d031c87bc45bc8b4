//! Decides how a request relates to the session that shares a prefix with it. Pure.

use uuid::Uuid;

use super::{
    conversation::Item,
    fingerprint::Fingerprint,
    in_flight::ConcurrentRequests,
    session_key::SessionKey,
    session_request::{CallRole, Lookup, MatchKind},
    state::SessionState,
};
use crate::timestamp::now_ms;

/// Time after which the same first prompt starts another session, if it was answered
/// and no other prompt followed. A retry without an answer comes at once.
const SAME_PROMPT_WINDOW_MS: u64 = 60_000;

/// A request of whose conversation a session has the start.
pub(super) struct PrefixMatch<'a> {
    pub(super) role: CallRole,
    /// Items that the session has.
    pub(super) known: &'a [Item],
    /// Items after the common prefix.
    pub(super) rest: &'a [Item],
    pub(super) concurrent: ConcurrentRequests,
}

impl PrefixMatch<'_> {
    /// Returns the session for the request: this one, a copy of it, or a new one.
    pub(super) fn into_lookup(self, key: SessionKey, state: SessionState) -> Lookup {
        let match_kind = self.match_kind(&state);
        let new_key = || SessionKey::new(&key.caller, Uuid::new_v4().to_string());
        let (key, state, parent) = match match_kind {
            MatchKind::New => return Lookup::new_session(new_key()),
            // Two agents had the same conversation so far.
            MatchKind::Forked => (new_key(), state.forked(), Some(key.id)),
            _ => (key, state, None),
        };
        Lookup {
            key,
            state,
            match_kind,
            known_items: self.known.len(),
            parent,
        }
    }

    fn match_kind(&self, state: &SessionState) -> MatchKind {
        let last_known = self.known.last().map(|item| item.prefix);
        let is_last_known = |prefix: &Fingerprint| Some(*prefix) == last_known;
        let position = state.prefixes.iter().rposition(is_last_known);
        let end = state.prefixes.last();
        match position {
            _ if self.starts_again(state) => MatchKind::New,
            // Two agents that alternate each find their own items last.
            Some(_)
                if self.role == CallRole::Main
                    && self.concurrent == ConcurrentRequests::Diverging
                    && self.adds_user_items() =>
            {
                MatchKind::Forked
            }
            Some(at) if at + 1 == state.prefixes.len() => MatchKind::Continued,
            Some(_) if self.asks_in_parallel(state) || self.repeats_earlier(state) => {
                MatchKind::Forked
            }
            Some(_) => MatchKind::RolledBack,
            // The last response may not have been recorded.
            None if self.known.iter().any(|item| Some(&item.prefix) == end) => MatchKind::Continued,
            None if self.role == CallRole::Helper => MatchKind::Continued,
            None => MatchKind::Forked,
        }
    }

    /// Returns whether it differs from the latest request, which was answered or is in flight:
    /// one agent neither takes a good answer back nor sends two requests at once.
    fn asks_in_parallel(&self, state: &SessionState) -> bool {
        self.role == CallRole::Main
            && self.adds_user_items()
            && (state.answered || self.is_in_flight())
    }

    /// Returns whether all new items are from the user.
    fn adds_user_items(&self) -> bool {
        !self.rest.is_empty() && self.rest.iter().all(|item| !item.by_model)
    }

    /// Returns whether it is a first prompt that another conversation started with, too.
    fn starts_again(&self, state: &SessionState) -> bool {
        let is_first = self.rest.is_empty() && self.known.iter().all(|item| !item.by_model);
        let elapsed_ms = now_ms().saturating_sub(state.last_seen);
        let is_other = elapsed_ms > SAME_PROMPT_WINDOW_MS || self.repeats_earlier(state);
        self.role == CallRole::Main && is_first && self.is_turn_over(state) && is_other
    }

    /// Returns whether it repeats a request that was followed by another, answered one.
    fn repeats_earlier(&self, state: &SessionState) -> bool {
        let last = self.known.last().map(|item| item.prefix);
        let is_repeated = self.rest.is_empty() && last != state.last_request;
        self.role == CallRole::Main && is_repeated && self.is_turn_over(state)
    }

    /// Returns whether the latest turn of the session has ended.
    fn is_turn_over(&self, state: &SessionState) -> bool {
        state.answered && !self.is_in_flight()
    }

    fn is_in_flight(&self) -> bool {
        self.concurrent != ConcurrentRequests::None
    }
}

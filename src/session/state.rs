//! State of one session: cached hook decisions about items of a conversation. Pure.
//!
//! A request brings its history along, and that alone decides which decisions apply, so
//! items without a stored decision are evaluated by hooks again. Two states of a session
//! are merged by union, and of two notes on one item the one revised later wins: no
//! save removes anything.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
};

use serde::{Deserialize, Serialize};

use super::fingerprint::{Fingerprint, FingerprintBuildHasher};
use crate::event::EventName;

/// Most item fingerprints of one session, two for each item. Beyond that, only those of
/// the latest request are kept.
pub const MAX_KNOWN_ITEMS: usize = 2 * 8192;

/// Most bytes of hook text of one session. Beyond that, the longest notes are removed
/// and their items evaluated again.
pub const MAX_HOOK_TEXT_BYTES: usize = 4 << 20;

named_enum! {
    /// Method by which a session is identified.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    pub enum SessionSource {
        /// Matched by the history of its requests.
        #[default]
        History = "history",
        /// The path prefix `/s/{session}`.
        Path = "path",
        /// Named by the header `x-hookgate-session`.
        Header = "header",
        /// The field `session_id` of Code Assist.
        CodeAssist = "code_assist",
        /// Named by a header of the agent, such as `x-claude-code-session-id`.
        AgentHeader = "agent_header",
        /// Named by a field in the body of another API, such as `prompt_cache_key`.
        Body = "body",
        /// The id in events that the agent reports.
        Reported = "reported",
    }
}

/// State of one session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionState {
    /// Method by which the session is identified.
    pub source: SessionSource,
    /// `User-Agent` of its first request.
    pub agent: String,
    /// First use, in milliseconds since the Unix epoch.
    pub first_seen: u64,
    /// Last use, in milliseconds since the Unix epoch.
    pub last_seen: u64,
    /// Number of model calls.
    pub requests: u64,
    /// Number of prompts so far.
    pub turns: u64,
    /// Calls and prompts of one request that the stored state does not count yet.
    #[serde(skip)]
    pub uncounted: [u64; 2],
    /// True if `SessionStart` was fired or is not needed.
    pub started: bool,
    /// Context that `SessionStart` hooks added, as inserted.
    pub context: Option<String>,
    /// Prefix fingerprints of the latest conversation, in order.
    pub prefixes: Vec<Fingerprint>,
    /// Prefix fingerprint of the latest request.
    pub last_request: Option<Fingerprint>,
    /// True if the latest conversation ends with a complete response of the model.
    pub answered: bool,
    /// Items that hooks have evaluated, by the short fingerprints of their prefix and their prompt.
    pub evaluated: KnownItems,
    /// Prefixes at which a request has ended with a prompt.
    pub prompt_ends: KnownItems,
    /// Prefixes of items in the last step of a request: what was decided about an equal item
    /// elsewhere does not apply to them.
    #[serde(default, skip_serializing_if = "HashSet::is_empty")]
    pub seen: KnownItems,
    /// Decisions of hooks about items, by the same fingerprints and by their own.
    pub notes: HashMap<u64, ItemNote, FingerprintBuildHasher>,
    /// Events that the agent reports itself.
    pub reported: BTreeSet<EventName>,
    /// Calls and tokens that policies have counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub usage: UsageByPolicy,
}

/// Short fingerprints of items.
type KnownItems = HashSet<u64, FingerprintBuildHasher>;

/// Calls and tokens by the name of a policy, and by the replica that has counted them. Each
/// replica only increases its own.
pub type UsageByPolicy = BTreeMap<String, BTreeMap<String, [u64; 2]>>;

/// Decisions of hooks about one item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct ItemNote {
    /// Last change, in milliseconds since the Unix epoch.
    pub revised: u64,
    /// Response to this prompt whenever it is sent: `BeforeAgent` hooks denied it or
    /// stopped its turn.
    pub response: Option<String>,
    /// Response to the denied request that ended with this item.
    pub denied: Option<String>,
    /// Reason why the turn of this prompt was stopped.
    pub stopped: Option<String>,
    /// Context that hooks added to this prompt or tool result, as inserted. That of a
    /// prompt applies during its turn only.
    pub context: Option<String>,
    /// Reason why this tool result is hidden from the model.
    pub replaced: Option<String>,
    /// Text that the model receives in place of this tool result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Contents after this item that the agent does not have: denied calls, and the
    /// denials for the model. JSON.
    pub hidden_contents: Vec<String>,
    /// Fingerprints of the item in front of which they are, as agents may send it: that with which
    /// the answer begins. Empty if the agent has no complete answer.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hidden_before: BTreeSet<u64>,
    /// Number of denials of each call in the turn of this prompt.
    pub denied_calls: BTreeMap<u64, u32>,
}

impl SessionState {
    /// Marks the session as used at `now`, in milliseconds since the Unix epoch. The time always
    /// increases, even if the clock goes back: of two states of a session, the later one has its
    /// latest conversation.
    pub fn touch(&mut self, now: u64) {
        self.last_seen = now.max(self.last_seen.saturating_add(1));
    }

    /// Returns the state of a session that continues this one's conversation apart from it:
    /// the decisions about it.
    #[must_use]
    pub fn forked(self) -> Self {
        Self {
            evaluated: self.evaluated,
            prompt_ends: self.prompt_ends,
            seen: self.seen,
            notes: self.notes,
            reported: self.reported,
            ..Self::default()
        }
    }

    /// Returns the state of a session that has ended: only what `SessionEnd` needs, without the
    /// decisions about its items, which may be large.
    #[must_use]
    pub fn ended(self) -> Self {
        Self {
            source: self.source,
            agent: self.agent,
            turns: self.turns,
            started: self.started,
            ..Self::default()
        }
    }

    /// Returns the note of an item for changing it. `now` is in milliseconds since the
    /// Unix epoch.
    pub fn revise(&mut self, item: u64, now: u64) -> &mut ItemNote {
        let note = self.notes.entry(item).or_default();
        // Monotonic, even if the clock goes back.
        note.revised = note.revised.saturating_add(1).max(now);
        note
    }

    /// Merges another state of the same session. Entries of either are kept; where
    /// they differ, the state that was used last wins. What `other` has not counted yet is added.
    pub fn merge(&mut self, other: Self) {
        let [requests, turns] = other.uncounted;
        let requests = self.requests.saturating_add(requests).max(other.requests);
        let turns = self.turns.saturating_add(turns).max(other.turns);
        let is_newer = other.last_seen > self.last_seen;
        let own = std::mem::take(self);
        let (mut newer, older) = if is_newer { (other, own) } else { (own, other) };
        if newer.agent.is_empty() {
            newer.agent = older.agent;
        }
        // Zero means never used.
        newer.first_seen = match (newer.first_seen, older.first_seen) {
            (0, first) | (first, 0) => first,
            (one, other) => one.min(other),
        };
        newer.requests = requests;
        newer.turns = turns;
        newer.uncounted = [0, 0];
        newer.started |= older.started;
        newer.context = newer.context.or(older.context);
        newer.reported.extend(older.reported);
        for (policy, replicas) in older.usage {
            let merged = newer.usage.entry(policy).or_default();
            for (replica, [calls, tokens]) in replicas {
                let counted = merged.entry(replica).or_default();
                let [newer_calls, newer_tokens] = *counted;
                *counted = [calls.max(newer_calls), tokens.max(newer_tokens)];
            }
        }
        add_known(&mut newer.prompt_ends, &older.prompt_ends);
        if add_known(&mut newer.evaluated, &older.evaluated) {
            add_known(&mut newer.seen, &older.seen);
            for (item, note) in older.notes {
                newer.notes.entry(item).or_default().merge(note);
            }
        }
        newer.remove_longest_notes();
        *self = newer;
    }

    /// Estimates the memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        const STATE_BYTES: usize = 700;
        // Hash tables may be half empty.
        const NUMBER_BYTES: usize = 16;
        const NOTE_BYTES: usize = 320;
        const USAGE_BYTES: usize = 160;
        let usages = self.usage.values().map(BTreeMap::len);
        let known = self.evaluated.len() + self.prompt_ends.len() + self.seen.len();
        STATE_BYTES
            + usages.sum::<usize>() * USAGE_BYTES
            + self.prefixes.len() * size_of::<Fingerprint>()
            + known * NUMBER_BYTES
            + self.notes.len() * NOTE_BYTES
            + self.text_bytes()
    }

    fn text_bytes(&self) -> usize {
        let context = self.context.as_ref().map_or(0, String::len);
        context + self.notes.values().map(ItemNote::text_bytes).sum::<usize>()
    }

    fn remove_longest_notes(&mut self) {
        let mut text = self.text_bytes();
        while text > MAX_HOOK_TEXT_BYTES {
            let notes = self.notes.iter();
            let sizes = notes.map(|(item, note)| (note.text_bytes(), *item));
            let Some((bytes, item)) = sizes.max() else {
                return;
            };
            self.notes.remove(&item);
            self.evaluated.remove(&item);
            self.seen.remove(&item);
            text -= bytes;
        }
    }
}

impl ItemNote {
    /// Returns whether there is no decision.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                revised: self.revised,
                ..Self::default()
            }
    }

    /// Merges another note on the same item. A hidden result is never lost.
    fn merge(&mut self, other: Self) {
        let own = std::mem::take(self);
        let replaced = own.replaced.clone().max(other.replaced.clone());
        let output = own.output.clone().max(other.output.clone());
        let merged = match own.revised.cmp(&other.revised) {
            Ordering::Less => other,
            Ordering::Greater => own,
            // The order is unknown, so entries of either are kept.
            Ordering::Equal => Self {
                revised: own.revised,
                response: own.response.max(other.response),
                denied: own.denied.max(other.denied),
                stopped: own.stopped.max(other.stopped),
                context: own.context.max(other.context),
                hidden_contents: own.hidden_contents.max(other.hidden_contents),
                hidden_before: own.hidden_before.max(other.hidden_before),
                denied_calls: own.denied_calls.max(other.denied_calls),
                replaced: None,
                output: None,
            },
        };
        *self = Self {
            replaced,
            output,
            ..merged
        };
    }

    /// Returns the number of bytes of text that hooks have written about the item.
    pub fn text_bytes(&self) -> usize {
        let Self {
            response,
            denied,
            stopped,
            context,
            replaced,
            output,
            ..
        } = self;
        let own = [response, denied, stopped, context, replaced, output];
        let own = own.into_iter().flatten();
        own.chain(&self.hidden_contents).map(String::len).sum()
    }
}

/// Adds the items of an older state and returns true, unless there are too many in all.
fn add_known(newer: &mut KnownItems, older: &KnownItems) -> bool {
    let missing: Vec<u64> = older.difference(newer).copied().collect();
    let fits = newer.len() + missing.len() <= MAX_KNOWN_ITEMS;
    if fits {
        newer.extend(missing);
    }
    fits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Option<String>> {
        proptest::option::of("[ab]{1,2}")
    }

    prop_compose! {
        fn a_note()(
            revised in 0_u64..3,
            denied in text(),
            context in text(),
            replaced in text(),
            output in text(),
            hidden_contents in proptest::collection::vec("[ab]{1,2}", 0..2),
            hidden_before in proptest::collection::btree_set(0_u64..3, 0..2),
        ) -> ItemNote {
            ItemNote { revised, denied, context, replaced, output, hidden_contents, hidden_before, ..ItemNote::default() }
        }
    }

    fn a_usage() -> impl Strategy<Value = BTreeMap<String, [u64; 2]>> {
        proptest::collection::btree_map("[rs]", [0_u64..5, 0..5], 1..3)
    }

    prop_compose! {
        fn a_state(seen: std::ops::Range<u64>)(
            last_seen in seen,
            requests in 0_u64..3,
            started in any::<bool>(),
            context in text(),
            prefixes in proptest::collection::vec((0_u128..9).prop_map(Fingerprint), 0..3),
            evaluated in proptest::collection::hash_set(0_u64..9, 0..5),
            prompt_ends in proptest::collection::hash_set(0_u64..9, 0..5),
            seen_items in proptest::collection::hash_set(0_u64..9, 0..5),
            notes in proptest::collection::hash_map(0_u64..4, a_note(), 0..4),
            usage in proptest::collection::btree_map("[pq]", a_usage(), 0..2),
        ) -> SessionState {
            SessionState {
                last_seen,
                first_seen: last_seen,
                requests,
                started,
                context,
                prefixes,
                evaluated: evaluated.into_iter().collect(),
                prompt_ends: prompt_ends.into_iter().collect(),
                seen: seen_items.into_iter().collect(),
                notes: notes.into_iter().collect(),
                usage,
                ..SessionState::default()
            }
        }
    }

    fn merged(one: &SessionState, other: &SessionState) -> SessionState {
        let mut merged = one.clone();
        merged.merge(other.clone());
        merged
    }

    proptest! {
        #[test]
        fn merging_is_commutative_idempotent_and_associative(
            one in a_state(0..1),
            other in a_state(1..2),
            third in a_state(2..3),
        ) {
            let both = merged(&one, &other);
            prop_assert_eq!(&both, &merged(&other, &one));
            prop_assert_eq!(&both, &merged(&both, &one));
            prop_assert_eq!(merged(&both, &third), merged(&one, &merged(&other, &third)));
        }

        #[test]
        fn merging_loses_no_denial_and_no_hidden_result(one in a_state(0..2), other in a_state(0..2)) {
            let both = merged(&one, &other);
            for state in [&one, &other] {
                prop_assert!(state.evaluated.is_subset(&both.evaluated));
                for (item, note) in &state.notes {
                    let kept = &both.notes[item];
                    prop_assert!(note.replaced.is_none() || kept.replaced.is_some());
                    prop_assert!(note.output.is_none() || kept.output.is_some());
                    let taken_back = kept.revised > note.revised;
                    prop_assert!(note.denied.is_none() || kept.denied.is_some() || taken_back);
                }
            }
        }
    }

    #[test]
    fn a_revoked_denial_does_not_return() {
        let mut denied = SessionState::default();
        denied.revise(7, 1).denied = Some("no".to_owned());
        let mut allowed = denied.clone();
        allowed.revise(7, 1).denied = None;

        assert_eq!(merged(&denied, &allowed).notes[&7].denied, None);
        assert_eq!(merged(&allowed, &denied).notes[&7].denied, None);
    }

    #[test]
    fn entries_over_the_limits_are_removed() {
        let most = MAX_KNOWN_ITEMS as u64;
        let state = |known: std::ops::Range<u64>, last_seen| SessionState {
            evaluated: known.collect(),
            last_seen,
            ..SessionState::default()
        };
        let mut long = state(0..3, 0);
        for (item, bytes) in [(0, 10), (1, MAX_HOOK_TEXT_BYTES), (2, 20)] {
            long.revise(item, 1).replaced = Some("x".repeat(bytes));
        }

        let many = merged(&state(0..most, 0), &state(most..most + 5, 1));
        let long = merged(&long, &SessionState::default());

        assert_eq!(many.evaluated.len(), 5);
        assert_eq!(long.evaluated, KnownItems::from_iter([0, 2]));
        assert_eq!(long.notes.len(), 2);
    }
}

//! What is remembered of one session. Pure.
//!
//! It is a memo of what hooks said of the items of a conversation. A request
//! brings its history along, and that alone decides what of the memo applies; so
//! what is lost is only asked again. Two states of one session are merged by
//! union, and of two notes on one item the one revised later stands: whoever saves
//! last takes nothing away.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
};

use serde::{Deserialize, Serialize};

use super::{Fingerprint, FingerprintBuildHasher};
use crate::event::EventName;

/// How many prints of items are known of one session, two for an item. Of more,
/// those of the latest request stay.
pub const MAX_KNOWN_ITEMS: usize = 2 * 8192;

/// How many bytes of hooks' words are remembered of one session. Of more, the
/// longest are forgotten, with the items that they are about.
pub const MAX_HOOK_TEXT_BYTES: usize = 4 << 20;

/// How a session was response apart from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SessionSource {
    /// By the history that its requests bring along.
    #[default]
    History,
    /// By the prefix `/s/{session}`.
    Path,
    /// By `x-hookgate-session`.
    Header,
    /// By Code Assist's `session_id`.
    CodeAssist,
    /// By the id that the agent reports events with.
    Reported,
}

impl SessionSource {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::History => "history",
            Self::Path => "path",
            Self::Header => "header",
            Self::CodeAssist => "code_assist",
            Self::Reported => "reported",
        }
    }
}

/// What is remembered of one session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionState {
    /// How it was response apart.
    pub source: SessionSource,
    /// SHA-256 of its caller's credential; empty without one.
    pub caller: String,
    /// The agent, as it calls itself.
    pub agent: String,
    /// Milliseconds since 1970.
    pub first_seen: u64,
    /// Milliseconds since 1970.
    pub last_seen: u64,
    /// Model calls.
    pub requests: u64,
    /// Prompts.
    pub turns: u64,
    /// Whether `SessionStart` was fired, or need not be.
    pub started: bool,
    /// What `SessionStart` hooks added to the session, as it stands there.
    pub context: Option<String>,
    /// The states of its latest conversation, from the first item to the last.
    pub line: Vec<Fingerprint>,
    /// The state of the last item of its latest request.
    pub asked: Option<Fingerprint>,
    /// Whether the last word of it is an answer that the agent has got whole.
    pub answered: bool,
    /// Items that hooks were asked about: states, and items by themselves.
    pub known: HashSet<u64, FingerprintBuildHasher>,
    /// What hooks said of items, if it was more than nothing.
    pub notes: HashMap<u64, ItemNote, FingerprintBuildHasher>,
    /// Events that the agent reports itself.
    pub reported: BTreeSet<EventName>,
}

/// What hooks said of one item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct ItemNote {
    /// When it was written last, in milliseconds since 1970.
    pub revised: u64,
    /// What the agent is response whenever this prompt is asked: `BeforeAgent` hooks
    /// refused it or stopped its turn.
    pub response: Option<String>,
    /// The request that ended with this item was denied; what the agent was response.
    pub denied: Option<String>,
    /// The turn of this prompt was stopped; why.
    pub stopped: Option<String>,
    /// What hooks added to this prompt, or to this tool's result, as it stands
    /// there. A prompt's is of no use after its turn.
    pub context: Option<String>,
    /// Why this tool's result is not shown to the model.
    pub replaced: Option<String>,
    /// Contents that the agent does not know of and that stand behind this item:
    /// calls that were denied, and what the model was response. JSON.
    pub hidden_contents: Vec<String>,
    /// How often calls were denied in the turn of this prompt.
    pub denied_calls: BTreeMap<u64, u32>,
}

/// How much is remembered of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionCounts {
    /// Items that hooks were asked about.
    pub items: usize,
    /// Requests that were denied.
    pub denied: usize,
    /// Turns that were stopped.
    pub stopped: usize,
    /// Tool results that are not shown to the model.
    pub replaced: usize,
    /// Prompts, results and starts that something was added to.
    pub contexts: usize,
}

impl SessionState {
    /// How much is remembered.
    pub fn counts(&self) -> SessionCounts {
        // An item is known by two prints, and so is what is said of it.
        let mut notes: Vec<&ItemNote> = self.notes.values().collect();
        notes.sort();
        notes.dedup();
        let count = |says: fn(&ItemNote) -> bool| notes.iter().filter(|it| says(it)).count();
        SessionCounts {
            items: self.known.len().div_ceil(2),
            denied: count(|it| it.denied.is_some()),
            stopped: count(|it| it.stopped.is_some()),
            replaced: count(|it| it.replaced.is_some()),
            contexts: count(|it| it.context.is_some()) + usize::from(self.context.is_some()),
        }
    }

    /// The note of an item, to be changed; `now` is in milliseconds since 1970.
    pub fn revise(&mut self, item: u64, now: u64) -> &mut ItemNote {
        let note = self.notes.entry(item).or_default();
        // Later than before, whatever the clock says.
        note.revised = note.revised.saturating_add(1).max(now);
        note
    }

    /// Takes in what is remembered of the same session elsewhere. What only one
    /// of the two knows stays; where they differ, the one that was heard of
    /// later is right.
    pub fn merge(&mut self, other: Self) {
        let (mut newer, older) = if other.last_seen > self.last_seen {
            (other, std::mem::take(self))
        } else {
            (std::mem::take(self), other)
        };
        for (text, before) in [
            (&mut newer.caller, older.caller),
            (&mut newer.agent, older.agent),
        ] {
            if text.is_empty() {
                *text = before;
            }
        }
        // What was never seen does not begin anything.
        newer.first_seen = match (newer.first_seen, older.first_seen) {
            (0, begun) | (begun, 0) => begun,
            (one, other) => one.min(other),
        };
        newer.requests = newer.requests.max(older.requests);
        newer.turns = newer.turns.max(older.turns);
        newer.started |= older.started;
        newer.context = newer.context.or(older.context);
        newer.reported.extend(older.reported);
        if newer.known.union(&older.known).count() <= MAX_KNOWN_ITEMS {
            newer.known.extend(older.known);
            for (item, note) in older.notes {
                newer.notes.entry(item).or_default().merge(note);
            }
        }
        newer.forget_what_is_too_long();
        *self = newer;
    }

    /// About how many bytes of memory it takes.
    pub fn weight(&self) -> usize {
        const A_STATE: usize = 700;
        // Hash tables are half empty at times.
        const A_NUMBER: usize = 16;
        const A_NOTE: usize = 320;
        A_STATE
            + self.line.len() * size_of::<Fingerprint>()
            + self.known.len() * A_NUMBER
            + self.notes.len() * A_NOTE
            + self.text()
    }

    /// How many bytes hooks' words have.
    fn text(&self) -> usize {
        let context = self.context.as_ref().map_or(0, String::len);
        context + self.notes.values().map(ItemNote::text).sum::<usize>()
    }

    fn forget_what_is_too_long(&mut self) {
        let mut text = self.text();
        while text > MAX_HOOK_TEXT_BYTES {
            let notes = self.notes.iter().map(|(item, it)| (it.text(), *item));
            let Some((bytes, item)) = notes.max() else {
                return;
            };
            self.notes.remove(&item);
            self.known.remove(&item);
            text -= bytes;
        }
    }
}

impl ItemNote {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        let Self {
            revised: _,
            response,
            denied,
            stopped,
            context,
            replaced,
            hidden_contents,
            denied_calls,
        } = self;
        [response, denied, stopped, context, replaced]
            .iter()
            .all(|it| it.is_none())
            && hidden_contents.is_empty()
            && denied_calls.is_empty()
    }

    /// Takes in a note of the same item. What hides something is never lost.
    fn merge(&mut self, other: Self) {
        let own = std::mem::take(self);
        let replaced = own.replaced.clone().max(other.replaced.clone());
        let merged = match own.revised.cmp(&other.revised) {
            Ordering::Less => other,
            Ordering::Greater => own,
            // Nobody knows which was first, so that what either says stays.
            Ordering::Equal => Self {
                revised: own.revised,
                response: own.response.max(other.response),
                denied: own.denied.max(other.denied),
                stopped: own.stopped.max(other.stopped),
                context: own.context.max(other.context),
                hidden_contents: own.hidden_contents.max(other.hidden_contents),
                denied_calls: own.denied_calls.max(other.denied_calls),
                replaced: None,
            },
        };
        *self = Self { replaced, ..merged };
    }

    fn text(&self) -> usize {
        let Self {
            response,
            denied,
            stopped,
            context,
            replaced,
            ..
        } = self;
        let own = [response, denied, stopped, context, replaced];
        let own = own.into_iter().flatten();
        own.chain(&self.hidden_contents).map(String::len).sum()
    }
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
            hidden_contents in proptest::collection::vec("[ab]{1,2}", 0..2),
        ) -> ItemNote {
            ItemNote { revised, denied, context, replaced, hidden_contents, ..ItemNote::default() }
        }
    }

    prop_compose! {
        fn a_state(seen: std::ops::Range<u64>)(
            last_seen in seen,
            requests in 0_u64..3,
            started in any::<bool>(),
            context in text(),
            line in proptest::collection::vec((0_u128..9).prop_map(Fingerprint), 0..3),
            known in proptest::collection::hash_set(0_u64..9, 0..5),
            notes in proptest::collection::hash_map(0_u64..4, a_note(), 0..4),
        ) -> SessionState {
            SessionState {
                last_seen,
                first_seen: last_seen,
                requests,
                started,
                context,
                line,
                known: known.into_iter().collect(),
                notes: notes.into_iter().collect(),
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
        fn it_does_not_matter_who_merges_what_first(
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
        fn nothing_that_hides_is_lost(one in a_state(0..2), other in a_state(0..2)) {
            let both = merged(&one, &other);
            for state in [&one, &other] {
                prop_assert!(state.known.is_subset(&both.known));
                for (item, note) in &state.notes {
                    let kept = &both.notes[item];
                    prop_assert!(note.replaced.is_none() || kept.replaced.is_some());
                    let taken_back = kept.revised > note.revised;
                    prop_assert!(note.denied.is_none() || kept.denied.is_some() || taken_back);
                }
            }
        }
    }

    #[test]
    fn what_was_taken_back_does_not_come_again() {
        let mut denied = SessionState::default();
        denied.revise(7, 1).denied = Some("no".to_owned());
        let mut allowed = denied.clone();
        allowed.revise(7, 1).denied = None;

        assert_eq!(merged(&denied, &allowed).notes[&7].denied, None);
        assert_eq!(merged(&allowed, &denied).notes[&7].denied, None);
    }

    #[test]
    fn what_is_too_much_is_asked_again() {
        let most = MAX_KNOWN_ITEMS as u64;
        let state = |known: std::ops::Range<u64>, last_seen| SessionState {
            known: known.collect(),
            last_seen,
            ..SessionState::default()
        };
        let mut long = state(0..3, 0);
        for (item, bytes) in [(0, 10), (1, MAX_HOOK_TEXT_BYTES), (2, 20)] {
            long.revise(item, 1).replaced = Some("x".repeat(bytes));
        }

        let many = merged(&state(0..most, 0), &state(most..most + 5, 1));
        let long = merged(&long, &SessionState::default());

        assert_eq!(many.known.len(), 5);
        assert_eq!(long.known, HashSet::from_iter([0, 2]));
        assert_eq!(long.notes.len(), 2);
    }
}

//! What is remembered of conversations, so that a denial does not poison them
//! (contract, section 6).
//!
//! Agents send their whole history again. A denied request is known by all of
//! its contents, so nothing here depends on how an agent names its session. It
//! is bounded; what is forgotten is judged by hooks again.

mod conversation;
mod emission;
mod memory;
mod print;
mod reader;
mod recognise;
mod state;
mod store;
mod visit;

pub use self::{
    conversation::{Conversation, Item, Prompt},
    emission::{Emission, Said},
    memory::MemoryStore,
    print::{Print, Printer},
    reader::Reader,
    recognise::Sessions,
    state::{MOST_KNOWN, MOST_TEXT, Note, Source, State},
    store::{Asked, SessionKey, Store},
    visit::{Arrival, CallRole, Session, Visit},
};

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use moka::sync::Cache;

use crate::dialect::{DialectError, Document, History, Turn};

/// How many denials, and how many stopped sessions, are remembered.
const MOST: u64 = 100_000;

/// How long one is remembered after it was last of use.
const IDLE: Duration = Duration::from_mins(30);

/// Who is calling: the credentials, or nothing.
pub type Caller<'a> = &'a [u8];

/// What is remembered of all conversations.
#[derive(Debug)]
pub struct Memory {
    /// Keys the hashes, so that nobody outside can guess one.
    keys: [RandomState; 2],
    /// What was told when the request with these contents was denied.
    denials: Cache<u128, String>,
    /// Why the session with this id was stopped.
    stops: Cache<u128, String>,
}

impl Default for Memory {
    fn default() -> Self {
        let cache = || Cache::builder().max_capacity(MOST).time_to_idle(IDLE);
        Self {
            keys: [RandomState::new(), RandomState::new()],
            denials: cache().build(),
            stops: cache().build(),
        }
    }
}

impl Memory {
    /// The id of a conversation that nobody named: its caller and its first
    /// content stay the same on every call. Unguessable.
    pub fn unnamed(&self, caller: Caller<'_>, first: &[u8]) -> String {
        format!("{:032x}", self.hash(&(caller, first)))
    }

    /// Remembers that a request was denied, and what its agent was told.
    pub fn deny(
        &self,
        caller: Caller<'_>,
        document: &Document,
        told: &str,
    ) -> Result<(), DialectError> {
        if let Some(whole) = self.whole(caller, document)? {
            self.denials.insert(whole, told.to_owned());
        }
        Ok(())
    }

    /// Forgets that a request was denied: this time it was not.
    pub fn allow(&self, caller: Caller<'_>, document: &Document) -> Result<(), DialectError> {
        if self.nothing_denied() {
            return Ok(());
        }
        if let Some(whole) = self.whole(caller, document)? {
            self.denials.invalidate(&whole);
        }
        Ok(())
    }

    /// Takes every denied step out of a later request, with what was told then.
    pub fn clean(&self, caller: Caller<'_>, document: &mut Document) -> Result<(), DialectError> {
        if self.nothing_denied() {
            return Ok(());
        }
        let Some(mut history) = History::read(document)? else {
            return Ok(());
        };
        let turns = history.turns()?;
        let steps = self.denied_steps(caller, &turns);
        for (from, to) in steps.iter().rev() {
            history.take_out(*from, *to)?;
        }
        // Of a request that holds nothing new hooks judge all of it again.
        if !steps.is_empty() && !history.is_empty() {
            history.write(document)?;
        }
        Ok(())
    }

    /// Remembers that a session was stopped.
    pub fn stop(&self, caller: Caller<'_>, session_id: &str, reason: &str) {
        let session = self.hash(&(caller, session_id));
        self.stops.insert(session, reason.to_owned());
    }

    /// Why a session is stopped, if it is: until its next prompt.
    pub fn stopped(
        &self,
        caller: Caller<'_>,
        session_id: &str,
        document: &Document,
    ) -> Result<Option<String>, DialectError> {
        let session = self.hash(&(caller, session_id));
        let Some(reason) = self.stops.get(&session) else {
            return Ok(None);
        };
        let history = History::read(document)?;
        let turns = history.map(|it| it.turns()).transpose()?;
        let last = turns.as_ref().and_then(|it| it.last());
        if last.is_some_and(|it| it.answers_tools) {
            return Ok(Some(reason));
        }
        self.stops.invalidate(&session);
        Ok(None)
    }

    /// Most gateways most of the time: then no history is read.
    fn nothing_denied(&self) -> bool {
        self.denials.iter().next().is_none()
    }

    /// The hash of a whole conversation.
    fn whole(&self, caller: Caller<'_>, document: &Document) -> Result<Option<u128>, DialectError> {
        let Some(history) = History::read(document)? else {
            return Ok(None);
        };
        Ok(self.prefixes(caller, &history.turns()?).pop())
    }

    /// Denied steps as ranges of contents, in order and apart.
    fn denied_steps(&self, caller: Caller<'_>, turns: &[Turn]) -> Vec<(usize, usize)> {
        let mut steps = Vec::new();
        let mut done = 0;
        for (last, whole) in self.prefixes(caller, turns).into_iter().enumerate() {
            let Some(next) = turns.get(last + 1) else {
                break; // The request itself: hooks judge it again.
            };
            let Some(told) = self.denials.get(&whole) else {
                continue;
            };
            let heard = next.by_model && next.text == told;
            let to = if heard { last + 2 } else { last + 1 };
            // An agent may keep a denied prompt and add the next one to it.
            steps.push((step_start(turns, last).max(done), to));
            done = to;
        }
        steps
    }

    /// For each content the hash of everything up to it.
    fn prefixes(&self, caller: Caller<'_>, turns: &[Turn]) -> Vec<u128> {
        let mut so_far = self.hash(&caller);
        let mut prefixes = Vec::with_capacity(turns.len());
        for turn in turns {
            so_far = self.hash(&(so_far, turn.by_model, &turn.lasting));
            prefixes.push(so_far);
        }
        prefixes
    }

    fn hash(&self, value: &impl std::hash::Hash) -> u128 {
        let [high, low] = self.keys.each_ref().map(|it| it.hash_one(value));
        (u128::from(high) << 64) | u128::from(low)
    }
}

/// Where the step that ends at `last` begins: after the model's last word.
fn step_start(turns: &[Turn], last: usize) -> usize {
    let before = turns.get(..=last).unwrap_or_default();
    before
        .iter()
        .rposition(|it| it.by_model)
        .map_or(0, |it| it + 1)
}

#[cfg(test)]
mod tests;

//! Effect of edits on the prompt cache of the model API.
//!
//! Model APIs cache the begin of a prompt. A request profits if it begins like the one before
//! it. An edit that is the same in every request costs nothing; an edit of an earlier message
//! that the model API has seen otherwise makes it read everything from there on again.

use std::{
    array,
    hash::{BuildHasher, RandomState},
    num::NonZeroUsize,
};

use highway::{HighwayHash, HighwayHasher, Key};
use lru::LruCache;
use serde::Serialize;
use utoipa::ToSchema;

use crate::mutex::Mutex;

/// Maximum number of sessions whose last prompt is kept.
const MAX_SESSIONS: usize = 2048;

/// Effect of edits on the prompt cache of the model API. Bytes are those of the form in which
/// hookgate reads a prompt: for Anthropic and `OpenAI` up to twice as many as were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct CacheEffect {
    /// Bytes of the agent's prompt that its session's last request had begun with.
    pub prefix_bytes: u64,
    /// Bytes of this prefix behind the first edit, which the model API must read again.
    pub invalidated_bytes: u64,
    /// Share of the prefix that was invalidated, in percent.
    pub invalidated_percent: u8,
}

/// The parts of a prompt in the order in which model APIs cache them.
#[derive(Debug, Clone, Copy, Default)]
pub struct PromptParts<'a> {
    /// JSON of the system instruction and of the tools.
    pub head: [&'a [u8]; 2],
    /// JSON array of the conversation.
    pub contents: &'a [u8],
}

/// The last prompts of sessions, as digests.
#[derive(Debug)]
pub(crate) struct PromptCache {
    key: Key,
    last: Mutex<LruCache<u64, PromptPair>>,
}

/// One prompt, as the agent sent it and as it went upstream.
#[derive(Debug, Clone, Copy)]
struct PromptPair {
    received: PromptDigest,
    sent: PromptDigest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PromptDigest {
    head: u64,
    contents: u64,
    contents_bytes: usize,
}

impl PromptCache {
    pub(crate) fn new() -> Self {
        let max = NonZeroUsize::new(MAX_SESSIONS).unwrap_or(NonZeroUsize::MIN);
        let random = RandomState::new();
        Self {
            key: Key(array::from_fn(|index| random.hash_one(index))),
            last: Mutex::new(LruCache::new(max)),
        }
    }

    /// Returns the largest size in memory.
    pub(crate) const fn max_bytes() -> usize {
        // Each entry has its key, two links, and its place in a table that is at most half full.
        MAX_SESSIONS * (size_of::<PromptPair>() + size_of::<[usize; 8]>())
    }

    /// Compares a prompt with the last one of its caller's session, and stores it. `sent` is `None` if
    /// the agent's prompt goes upstream unedited. Returns `None` if the agent's prompt does not
    /// begin like its last one, so that nothing was cached.
    pub(crate) fn record(
        &self,
        (caller, session): (&str, &str),
        received: PromptParts<'_>,
        sent: Option<PromptParts<'_>>,
    ) -> Option<CacheEffect> {
        let key = self.hash([caller.as_bytes(), session.as_bytes()]);
        let last = self.last.lock().get(&key).copied();
        // Most prompts begin like the last one of their session, so they are read once.
        let (is_continued, digest) = self.digest(received, last.map(|last| last.received));
        let sent_digest = sent.map(|sent| self.digest(sent, last.map(|last| last.sent)));
        let pair = PromptPair {
            received: digest,
            sent: sent_digest.map_or(digest, |(_, digest)| digest),
        };
        self.last.lock().put(key, pair);
        let last = last.filter(|_| is_continued)?;
        let prefix = last.received.contents_bytes + head_bytes(received);
        let is_new_edit = sent_digest.is_some_and(|(is_continued, _)| !is_continued);
        let new_edit = sent.filter(|_| is_new_edit);
        let kept = new_edit.map_or(prefix, |sent| common_prefix(received, sent));
        let invalidated = prefix.saturating_sub(kept);
        Some(CacheEffect {
            prefix_bytes: prefix as u64,
            invalidated_bytes: invalidated as u64,
            invalidated_percent: u8::try_from(invalidated * 100 / prefix.max(1)).unwrap_or(100),
        })
    }

    /// Digests a prompt. Returns also whether it begins like an earlier one.
    fn digest(
        &self,
        parts: PromptParts<'_>,
        earlier: Option<PromptDigest>,
    ) -> (bool, PromptDigest) {
        let head = self.hash(parts.head);
        let contents = open_array(parts.contents);
        let mut hasher = HighwayHasher::new(self.key);
        let same_head = earlier.filter(|earlier| earlier.head == head);
        let split = same_head.and_then(|earlier| contents.split_at_checked(earlier.contents_bytes));
        let (prefix, rest) = split.unwrap_or((contents, &[]));
        hasher.append(prefix);
        let prefix_hash = split.map(|_| hasher.clone().finalize64());
        hasher.append(rest);
        let digest = PromptDigest {
            head,
            contents: hasher.finalize64(),
            contents_bytes: contents.len(),
        };
        let is_continued = same_head.is_some_and(|earlier| prefix_hash == Some(earlier.contents));
        (is_continued, digest)
    }

    fn hash<const N: usize>(&self, parts: [&[u8]; N]) -> u64 {
        let mut hasher = HighwayHasher::new(self.key);
        for part in parts {
            hasher.append(&part.len().to_le_bytes());
            hasher.append(part);
        }
        hasher.finalize64()
    }
}

/// The array without its end, where the next request continues.
fn open_array(contents: &[u8]) -> &[u8] {
    let contents = contents.trim_ascii_end();
    contents
        .strip_suffix(b"]")
        .unwrap_or(contents)
        .trim_ascii_end()
}

fn head_bytes(parts: PromptParts<'_>) -> usize {
    parts.head.iter().map(|part| part.len()).sum()
}

/// Returns the number of bytes up to the first difference.
fn common_prefix(one: PromptParts<'_>, other: PromptParts<'_>) -> usize {
    let pairs = one.head.into_iter().zip(other.head);
    let mut length = 0;
    for (one, other) in pairs.chain([(one.contents, other.contents)]) {
        let common = one.iter().zip(other).take_while(|(a, b)| a == b).count();
        length += common;
        if common < one.len().max(other.len()) {
            break;
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: (&str, &str) = ("caller", "session");

    fn prompt(contents: &str) -> PromptParts<'_> {
        PromptParts {
            head: [b"system", b"tools"],
            contents: contents.as_bytes(),
        }
    }

    #[test]
    fn a_first_request_has_no_cache() {
        let cache = PromptCache::new();

        assert_eq!(
            cache.record(SESSION, prompt("[1]"), Some(prompt("[2]"))),
            None
        );
    }

    #[test]
    fn an_edit_that_is_the_same_each_time_invalidates_nothing() {
        let cache = PromptCache::new();
        cache.record(SESSION, prompt("[\"key\"]"), Some(prompt("[\"***\"]")));

        let effect = cache.record(SESSION, prompt("[\"key\",2]"), Some(prompt("[\"***\",2]")));

        let effect = effect.unwrap();
        assert_eq!((effect.prefix_bytes, effect.invalidated_bytes), (17, 0));
    }

    #[test]
    fn an_edit_of_an_earlier_message_invalidates_what_follows() {
        let cache = PromptCache::new();
        cache.record(SESSION, prompt("[\"aaaa\"]"), None);

        let effect = cache.record(
            SESSION,
            prompt("[\"aaaa\",2]"),
            Some(prompt("[\"aXaa\",2]")),
        );

        let effect = effect.unwrap();
        assert_eq!((effect.prefix_bytes, effect.invalidated_bytes), (18, 4));
        assert_eq!(effect.invalidated_percent, 22);
    }

    #[test]
    fn an_edit_of_the_new_message_invalidates_nothing() {
        let cache = PromptCache::new();
        cache.record(SESSION, prompt("[1]"), None);

        let effect = cache.record(SESSION, prompt("[1,2]"), Some(prompt("[1,3]")));

        assert_eq!(effect.unwrap().invalidated_bytes, 0);
    }

    #[test]
    fn a_history_that_the_agent_rewrote_is_not_an_edit() {
        let cache = PromptCache::new();
        cache.record(SESSION, prompt("[1]"), None);

        assert_eq!(
            cache.record(SESSION, prompt("[5]"), Some(prompt("[6]"))),
            None
        );
    }
}

//! Cache of conversation prefixes.
//!
//! Agents send the whole history again with every request. The longest prefix that was
//! read before is neither parsed nor hashed item by item.

use std::sync::Arc;

use lru::LruCache;
use tokio::task::coop::consume_budget;

use super::{
    conversation::{Conversation, Item},
    fingerprint::{Fingerprint, FingerprintBuildHasher, StreamHasher},
    fingerprint_chain::FingerprintChain,
};
use crate::{
    dialect::{DialectError, History, ItemKind, canonical_items},
    mutex::Mutex,
};

const MAX_CACHE_BYTES: usize = 64 << 20;

/// Number of contents at the end of a history after which a cached prefix may end: an agent
/// adds few.
const MAX_SEARCHED_CONTENTS: usize = 1024;

/// Approximate size of a prefix without its items.
const PREFIX_BYTES: usize = 500;

/// Reads conversations and caches their prefixes.
#[derive(Debug, Default)]
pub struct ConversationCache(Mutex<PrefixCache>);

#[derive(Debug)]
struct PrefixCache {
    /// By the fingerprint of the bytes of their contents.
    prefixes: LruCache<Fingerprint, Arc<Conversation>, FingerprintBuildHasher>,
    bytes: usize,
}

impl Default for PrefixCache {
    fn default() -> Self {
        Self {
            prefixes: LruCache::unbounded_with_hasher(FingerprintBuildHasher::default()),
            bytes: 0,
        }
    }
}

impl PrefixCache {
    fn insert(&mut self, key: Fingerprint, prefix: Arc<Conversation>) {
        self.bytes += memory_bytes(&prefix);
        let replaced = self.prefixes.push(key, prefix);
        self.bytes -= replaced.map_or(0, |(_, prefix)| memory_bytes(&prefix));
        while self.bytes > MAX_CACHE_BYTES
            && let Some((_, oldest)) = self.prefixes.pop_lru()
        {
            self.bytes -= memory_bytes(&oldest);
        }
    }
}

impl ConversationCache {
    /// Reads the conversation of a request, which begins with `start`. Yields to other tasks while
    /// it reads a long history for the first time.
    pub(super) async fn read(
        &self,
        start: FingerprintChain,
        history: &History,
    ) -> Result<Conversation, DialectError> {
        let contents = history.contents();
        let hashers = prefix_hashers(&start, history).await;
        let first_hashed = contents.len() - hashers.len();
        let mut conversation = Conversation::empty(start);
        let mut cached = 0;
        for (at, hasher) in hashers.iter().enumerate().rev() {
            consume_budget().await;
            if let Some(prefix) = self.get(hasher) {
                conversation.clone_from(&prefix);
                cached = first_hashed + at + 1;
                break;
            }
        }
        // The agent may undo its last step, so the prefix before it is cached, too.
        let mut before_last_step = None;
        for (content, bytes) in contents.iter().enumerate().skip(cached) {
            consume_budget().await;
            for mut item in canonical_items(bytes)? {
                // Introductions of gemini-cli are recognised as the first item only.
                if item.kind == ItemKind::Introduction && !conversation.items.is_empty() {
                    item.kind = ItemKind::Text;
                }
                conversation.push(content, &item);
            }
            if conversation.items.last().is_some_and(|item| item.by_model) {
                let chain = conversation.chain.clone();
                before_last_step = Some((content, conversation.items.len(), chain));
            }
        }
        if let Some((content, items, chain)) = before_last_step {
            let items = conversation.items.get(..items).unwrap_or_default().to_vec();
            let hashed = content.checked_sub(first_hashed);
            let prefix = Conversation { items, chain };
            self.insert(hashed.and_then(|at| hashers.get(at)), prefix);
        }
        if cached < contents.len() {
            self.insert(hashers.last(), conversation.clone());
        }
        Ok(conversation)
    }

    fn get(&self, hasher: &StreamHasher) -> Option<Arc<Conversation>> {
        let key = hasher.fingerprint();
        self.0.lock().prefixes.get(&key).cloned()
    }

    fn insert(&self, hasher: Option<&StreamHasher>, prefix: Conversation) {
        if let Some(hasher) = hasher {
            let (key, prefix) = (hasher.fingerprint(), Arc::new(prefix));
            self.0.lock().insert(key, prefix);
        }
    }
}

fn memory_bytes(prefix: &Conversation) -> usize {
    PREFIX_BYTES + size_of::<Item>() * prefix.items.len()
}

/// Returns a hasher of all bytes up to the end of each of the last contents. Few of the
/// fingerprints are needed, so they are not computed here.
async fn prefix_hashers(start: &FingerprintChain, history: &History) -> Vec<StreamHasher> {
    let contents = history.contents();
    let first_hashed = contents.len().saturating_sub(MAX_SEARCHED_CONTENTS);
    let push = |hasher: &mut StreamHasher, bytes: &[u8]| {
        hasher.push(&bytes.len().to_le_bytes());
        hasher.push(bytes);
    };
    let mut hasher = start.fingerprinter.stream_hasher();
    push(&mut hasher, &start.prefix.0.to_le_bytes());
    let mut hashers = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        consume_budget().await;
        push(&mut hasher, content);
        if at >= first_hashed {
            hashers.push(hasher.clone());
        }
    }
    hashers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dialect::parse_document, session::fingerprint::Fingerprinter};

    fn history(contents: usize) -> History {
        let contents = vec![r#"{"parts":[{"text":"x"}]}"#; contents].join(",");
        let document = parse_document(format!(r#"{{"contents":[{contents}]}}"#).into());
        History::read(&document.unwrap()).unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_long_history_has_few_prefix_hashers_and_the_same_items_with_a_cache() {
        const CONTENTS: usize = 3 * MAX_SEARCHED_CONTENTS;
        let fingerprinter = Fingerprinter::new(*b"0123456789abcdef");
        let start = FingerprintChain::new(fingerprinter, "caller", None);
        let (one, two) = (history(CONTENTS), history(CONTENTS + 1));
        let (cache, empty) = (ConversationCache::default(), ConversationCache::default());

        let hashers = prefix_hashers(&start, &one).await;
        cache.read(start.clone(), &one).await.unwrap();
        let continued = cache.read(start.clone(), &two).await.unwrap();
        let fresh = empty.read(start, &two).await.unwrap();

        assert_eq!(hashers.len(), MAX_SEARCHED_CONTENTS);
        assert_eq!(cache.0.lock().prefixes.len(), 2);
        assert_eq!(continued.items, fresh.items);
        assert_eq!(continued.items.len(), CONTENTS + 1);
    }
}

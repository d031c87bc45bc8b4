//! Owners of content that model APIs keep, or of earlier responses. Hooks inspect it
//! when it is created, and only its creator may use it. Kept in memory.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{dialect::ContentReference, mutex::Mutex, sha256::sha256_hex};

/// Entries that are kept; beyond it the one that expires first is dropped. A stored response that
/// has ended has two.
const MAX_ENTRIES: usize = 20_000;

/// Lifetime of content that states none, as in Google's APIs.
const DEFAULT_TTL: Duration = Duration::from_hours(1);

/// Longest lifetime, and that of responses which an API stores.
pub const MAX_TTL: Duration = Duration::from_hours(24 * 30);

/// Owners of content by its name.
#[derive(Debug, Default)]
pub struct ContentOwners(Mutex<HashMap<String, ContentOwner>>);

#[derive(Debug)]
struct ContentOwner {
    caller: String,
    expires_at: Instant,
}

impl ContentOwners {
    /// Records the caller that owns some content for `ttl`.
    pub fn insert(&self, name: &str, caller: &str, ttl: Option<Duration>) {
        let now = Instant::now();
        let owner = ContentOwner {
            caller: caller.to_owned(),
            expires_at: now + ttl.unwrap_or(DEFAULT_TTL).min(MAX_TTL),
        };
        let mut owners = self.0.lock();
        if owners.len() >= MAX_ENTRIES {
            owners.retain(|_, owner| owner.expires_at > now);
        }
        if owners.len() >= MAX_ENTRIES {
            let first = owners.iter().min_by_key(|(_, owner)| owner.expires_at);
            if let Some(name) = first.map(|(name, _)| name.clone()) {
                owners.remove(&name);
            }
        }
        owners.insert(name.to_owned(), owner);
    }

    /// Returns whether some content belongs to a caller and has not expired.
    pub fn is_owner(&self, name: &str, caller: &str) -> bool {
        let owners = self.0.lock();
        let owner = owners.get(name);
        owner.is_some_and(|owner| owner.expires_at > Instant::now() && owner.caller == caller)
    }

    /// Removes the owner of deleted content.
    pub fn remove(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

/// Returns the name under which the owner of an earlier response is recorded. Never holds
/// content.
pub fn content_name(reference: &ContentReference) -> String {
    match reference {
        ContentReference::Response(id) => format!("response:{id}"),
        ContentReference::StoredResponse(id) => format!("stored:{id}"),
        ContentReference::Compaction(content) => format!("compaction:{}", sha256_hex(content)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_belongs_to_its_caller_until_it_expires() {
        let owners = ContentOwners::default();
        owners.insert("cachedContents/a", "ann", None);
        owners.insert("cachedContents/b", "ann", Some(Duration::ZERO));

        assert!(owners.is_owner("cachedContents/a", "ann"));
        assert!(!owners.is_owner("cachedContents/a", "bob"));
        assert!(!owners.is_owner("cachedContents/b", "ann"));
        owners.remove("cachedContents/a");
        assert!(!owners.is_owner("cachedContents/a", "ann"));
    }

    #[test]
    fn beyond_the_limit_the_entry_that_expires_first_is_dropped() {
        let owners = ContentOwners::default();
        owners.insert("soon", "ann", Some(Duration::from_mins(1)));
        for number in 0..MAX_ENTRIES {
            owners.insert(&number.to_string(), "ann", None);
        }
        assert!(!owners.is_owner("soon", "ann"));
        assert!(owners.is_owner("0", "ann"));
        assert_eq!(owners.0.lock().len(), MAX_ENTRIES);
    }
}

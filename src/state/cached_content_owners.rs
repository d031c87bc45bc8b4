//! Whose the content is that model APIs keep: a cache was judged when it was
//! made, and belongs to who made it. In memory.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How many are remembered. Of more, those that end the soonest are forgotten.
const MOST: usize = 10_000;

/// How long one is remembered whose end is not told, as Google's APIs keep it.
const USUALLY: Duration = Duration::from_hours(1);

/// How long one is remembered at the most.
const LONGEST: Duration = Duration::from_hours(24 * 30);

/// Whose the content is that model APIs keep.
#[derive(Debug, Default)]
pub struct Caches(Mutex<HashMap<String, Kept>>);

#[derive(Debug)]
struct Kept {
    caller: String,
    until: Instant,
}

impl Caches {
    /// A cache is this caller's until it ends, `ends_in` from now if that is
    /// known.
    pub fn keep(&self, name: &str, caller: &str, ends_in: Option<Duration>) {
        let now = Instant::now();
        let kept = Kept {
            caller: caller.to_owned(),
            until: now + ends_in.unwrap_or(USUALLY).min(LONGEST),
        };
        let mut all = self.all();
        if all.len() >= MOST {
            all.retain(|_, it| it.until > now);
        }
        if all.len() >= MOST {
            let soonest = all.iter().min_by_key(|it| it.1.until);
            if let Some(name) = soonest.map(|it| it.0.clone()) {
                all.remove(&name);
            }
        }
        all.insert(name.to_owned(), kept);
    }

    /// Whether a cache is this caller's.
    pub fn belongs(&self, name: &str, caller: &str) -> bool {
        let all = self.all();
        let kept = all.get(name).filter(|it| it.until > Instant::now());
        kept.is_some_and(|it| it.caller == caller)
    }

    /// A cache is gone.
    pub fn forget(&self, name: &str) {
        self.all().remove(name);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_its_callers_until_it_ends() {
        let caches = Caches::default();
        caches.keep("cachedContents/a", "ann", None);
        caches.keep("cachedContents/b", "ann", Some(Duration::ZERO));

        assert!(caches.belongs("cachedContents/a", "ann"));
        assert!(!caches.belongs("cachedContents/a", "bob"));
        assert!(!caches.belongs("cachedContents/b", "ann"));
        caches.forget("cachedContents/a");
        assert!(!caches.belongs("cachedContents/a", "ann"));
    }

    #[test]
    fn of_too_many_those_that_end_the_soonest_go() {
        let caches = Caches::default();
        caches.keep("soon", "ann", Some(Duration::from_mins(1)));
        for at in 0..MOST {
            caches.keep(&at.to_string(), "ann", None);
        }
        assert!(!caches.belongs("soon", "ann"));
        assert!(caches.belongs("0", "ann"));
        assert_eq!(caches.all().len(), MOST);
    }
}

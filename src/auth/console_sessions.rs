//! Logins to the console, kept in memory.

use std::{num::NonZeroUsize, sync::Arc, time::Instant};

use lru::LruCache;

use super::api_keys::random_text;
use crate::{
    config::LoginSettings,
    mutex::Mutex,
    sha256::{sha256, sha256_hex},
};

/// Sessions that are kept; beyond it the least recently used ends.
const MAX_CONSOLE_SESSIONS: NonZeroUsize = NonZeroUsize::new(1000).unwrap();

/// Logins by the SHA-256 of their random id, so that memory holds no usable cookie.
#[derive(Debug)]
pub(super) struct ConsoleSessions(Mutex<LruCache<[u8; 32], ConsoleSession>>);

/// One login to the console.
#[derive(Debug, Clone)]
pub(super) struct ConsoleSession {
    pub(super) user: Arc<str>,
    /// Hash of the token that was used. The session ends when the user's token changes.
    pub(super) token: [u8; 32],
    started: Instant,
    last_used: Instant,
}

impl Default for ConsoleSessions {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_CONSOLE_SESSIONS)))
    }
}

impl ConsoleSessions {
    /// Starts a session and returns its id of 256 random bits, or `None` if the system has
    /// no source of randomness.
    pub(super) fn start(&self, user: &Arc<str>, token: [u8; 32], now: Instant) -> Option<String> {
        let id = random_text()?;
        let session = ConsoleSession {
            user: Arc::clone(user),
            token,
            started: now,
            last_used: now,
        };
        self.0.lock().put(sha256(&id), session);
        Some(id)
    }

    /// Returns a session that has not expired, and marks it as used.
    pub(super) fn resume(
        &self,
        id: &str,
        settings: LoginSettings,
        now: Instant,
    ) -> Option<ConsoleSession> {
        let key = sha256(id);
        let session = self.find(&key, settings, now)?;
        self.0.lock().get_mut(&key)?.last_used = now;
        Some(session)
    }

    /// Returns a session that has not expired by the SHA-256 of its id, and does not mark it as
    /// used.
    pub(super) fn find(
        &self,
        key: &[u8; 32],
        settings: LoginSettings,
        now: Instant,
    ) -> Option<ConsoleSession> {
        let mut sessions = self.0.lock();
        let session = sessions.peek(key)?.clone();
        let age = now.saturating_duration_since(session.started);
        let idle = now.saturating_duration_since(session.last_used);
        if age >= settings.lifetime || idle >= settings.idle {
            sessions.pop(key);
            return None;
        }
        Some(session)
    }

    /// Ends a session, if it exists.
    pub(super) fn end(&self, id: &str) {
        self.0.lock().pop(&sha256(id));
    }

    /// Ends all sessions but those that are valid.
    pub(super) fn end_unless(&self, is_valid: impl Fn(&ConsoleSession) -> bool) {
        let mut sessions = self.0.lock();
        let ended = sessions.iter().filter(|(_, session)| !is_valid(session));
        let ended: Vec<[u8; 32]> = ended.map(|(key, _)| *key).collect();
        for key in ended {
            sessions.pop(&key);
        }
    }
}

/// Derives the token of a session's forms from the session's id.
pub(super) fn csrf_token(id: &str) -> Arc<str> {
    sha256_hex(format!("hookgate csrf\0{id}")).into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_session_ends_after_its_lifetime_and_when_it_is_idle() {
        let (sessions, start) = (ConsoleSessions::default(), Instant::now());
        let settings = LoginSettings {
            lifetime: Duration::from_secs(100),
            idle: Duration::from_secs(40),
        };
        let used = |id: &str, seconds| {
            let now = start + Duration::from_secs(seconds);
            sessions.resume(id, settings, now).is_some()
        };
        let begin = || sessions.start(&"ann".into(), [0; 32], start).unwrap();

        let (busy, idle, ended) = (begin(), begin(), begin());
        sessions.end(&ended);

        assert!([30, 60, 90].iter().all(|seconds| used(&busy, *seconds)));
        assert!(!used(&busy, 100), "lifetime");
        assert!(!used(&busy, 90), "an ended session stays ended");
        assert!(!used(&idle, 40), "idle");
        assert!(!used(&ended, 1), "logged out");
        assert!(!used("made up", 1));
    }

    #[test]
    fn the_least_recently_used_session_ends_when_there_are_too_many() {
        let (sessions, now) = (ConsoleSessions::default(), Instant::now());
        let settings = LoginSettings::default();
        let begin = || sessions.start(&"ann".into(), [0; 32], now).unwrap();

        let (kept, dropped) = (begin(), begin());
        assert!(sessions.resume(&kept, settings, now).is_some());
        for _ in 2..=MAX_CONSOLE_SESSIONS.get() {
            begin();
        }

        assert!(sessions.resume(&kept, settings, now).is_some());
        assert!(sessions.resume(&dropped, settings, now).is_none());
    }
}

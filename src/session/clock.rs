//! Wall-clock times of sessions.

use std::time::{SystemTime, UNIX_EPOCH};

use super::state::SessionState;

/// Marks a session as used now. The time always increases, even if the clock goes back:
/// of two states of a session, the later one has its latest conversation.
pub(super) fn touch(state: &mut SessionState) {
    state.last_seen = now_ms().max(state.last_seen.saturating_add(1));
}

/// Returns the milliseconds since the Unix epoch.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map(|now| now.as_millis()).unwrap_or_default();
    u64::try_from(now).unwrap_or(u64::MAX)
}

//! How sessions are written in Redis. Pure.

use uuid::Uuid;

use crate::session::{session_key::SessionKey, state::SessionState};

/// Tells one version of a session from all others; nil for none.
pub(super) type Version = Uuid;

const STAMP: usize = 16;

/// A stamp and a state; `None` if it cannot be written.
pub(super) fn encode(stamp: Version, state: &SessionState) -> Option<Vec<u8>> {
    postcard::to_extend(state, stamp.as_bytes().to_vec()).ok()
}

/// The stamp, and the state if it can be read.
pub(super) fn decode(blob: &[u8]) -> (Version, Option<SessionState>) {
    let Some((stamp, state)) = blob.split_first_chunk::<STAMP>() else {
        return (Version::nil(), None);
    };
    (
        Version::from_bytes(*stamp),
        postcard::from_bytes(state).ok(),
    )
}

/// A session among those of all callers.
pub(super) fn member(key: &SessionKey) -> String {
    format!("{}:{}", key.caller, key.id)
}

/// The session of [`member`]: a caller is written in hex.
pub(super) fn key_of(member: &[u8]) -> Option<SessionKey> {
    let (caller, id) = std::str::from_utf8(member).ok()?.split_once(':')?;
    Some(SessionKey {
        caller: caller.to_owned(),
        id: id.to_owned(),
    })
}

/// A session among those of one name.
pub(super) fn name(key: &SessionKey) -> String {
    format!("{}\0{}", key.id, key.caller)
}

/// The session of [`name`].
pub(super) fn unname(name: &[u8]) -> Option<SessionKey> {
    let (id, caller) = std::str::from_utf8(name).ok()?.rsplit_once('\0')?;
    Some(SessionKey {
        caller: caller.to_owned(),
        id: id.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::EventName, session::Fingerprint};

    /// One of everything.
    fn state() -> SessionState {
        let mut state = SessionState {
            caller: "c".to_owned(),
            agent: "a".to_owned(),
            first_seen: 1,
            last_seen: 2,
            requests: 3,
            turns: 4,
            started: true,
            context: Some("x".to_owned()),
            line: vec![Fingerprint(1 << 100), Fingerprint(7)],
            known: [u64::MAX].into_iter().collect(),
            reported: [EventName::AfterTool].into(),
            ..SessionState::default()
        };
        let note = state.revise(5, 6);
        note.replaced = Some("r".to_owned());
        note.hidden_contents = vec!["h".to_owned()];
        note.denied_calls = [(8, 9)].into();
        state
    }

    #[test]
    fn what_is_written_is_read() {
        let stamp = Version::from_bytes([1; 16]);
        let blob = encode(stamp, &state()).unwrap();

        assert_eq!(decode(&blob), (stamp, Some(state())));
        assert_eq!(decode(&blob[..20]), (stamp, None));
        assert_eq!(decode(b""), (Version::nil(), None));
    }

    /// Gateways of two releases may share a Redis: if this changes, so must the
    /// prefix of all keys.
    #[test]
    fn sessions_are_written_as_ever() {
        let blob = encode(Version::nil(), &state()).unwrap();
        let hex = format!("{:02x?}", &blob[STAMP..]);

        insta::assert_snapshot!(hex, @r"
    [00, 01, 63, 01, 61, 01, 02, 03, 04, 01, 01, 01, 78, 02, 80, 80, 80, 80, 80, 80, 80, 80, 80, 80, 80, 80, 80, 80, 04, 07, 00, 00, 01, ff, ff, ff, ff, ff, ff, ff, ff, ff, 01, 01, 05, 06, 00, 00, 00, 00, 01, 01, 72, 01, 01, 68, 01, 08, 09, 01, 06]
    ");
    }

    #[test]
    fn names_are_told_apart() {
        let key = SessionKey {
            caller: "00ff".to_owned(),
            id: "a:b\0c".to_owned(),
        };

        assert_eq!(key_of(member(&key).as_bytes()), Some(key.clone()));
        assert_eq!(unname(name(&key).as_bytes()), Some(key));
        assert_eq!(key_of(b"none"), None);
    }
}

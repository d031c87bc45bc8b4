//! Encoding of sessions in Redis. Pure.

use uuid::Uuid;

use crate::session::{session_key::SessionKey, state::SessionState};

/// Random id of a version of a session; nil for none.
pub(super) type Version = Uuid;

const VERSION_BYTES: usize = 16;

/// Encodes a version and a state; `None` if that fails.
pub(super) fn encode(version: Version, state: &SessionState) -> Option<Vec<u8>> {
    let mut blob = version.as_bytes().to_vec();
    serde_json::to_writer(&mut blob, state).ok()?;
    Some(blob)
}

/// Decodes the version, and the state if it is valid.
pub(super) fn decode(blob: &[u8]) -> (Version, Option<SessionState>) {
    let Some((version, state)) = blob.split_first_chunk::<VERSION_BYTES>() else {
        return (Version::nil(), None);
    };
    let state = serde_json::from_slice(state).ok();
    (Version::from_bytes(*version), state)
}

/// Returns the member of a session in the set ordered by last use.
pub(super) fn member(key: &SessionKey) -> String {
    format!("{}:{}", key.caller, key.id)
}

/// Parses a [`member`]. A caller is in hex, so it has no colon.
pub(super) fn key_of(member: &[u8]) -> Option<SessionKey> {
    let (caller, id) = std::str::from_utf8(member).ok()?.split_once(':')?;
    Some(SessionKey::new(caller, id))
}

/// Returns the member of a session in the set ordered by id.
pub(super) fn name(key: &SessionKey) -> String {
    format!("{}\0{}", key.id, key.caller)
}

/// Parses a name as written by [`name`].
pub(super) fn key_of_name(name: &[u8]) -> Option<SessionKey> {
    let (id, caller) = std::str::from_utf8(name).ok()?.rsplit_once('\0')?;
    Some(SessionKey::new(caller, id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::EventName, session::Fingerprint};

    /// A state with a value in every field.
    fn state() -> SessionState {
        let mut state = SessionState {
            agent: "a".to_owned(),
            first_seen: 1,
            last_seen: 2,
            requests: 3,
            turns: 4,
            started: true,
            context: Some("x".to_owned()),
            prefixes: vec![Fingerprint(1 << 100), Fingerprint(7)],
            evaluated: [u64::MAX].into_iter().collect(),
            prompt_ends: [10].into_iter().collect(),
            seen: [11].into_iter().collect(),
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
    fn encoded_sessions_are_decoded() {
        let version = Version::from_bytes([1; 16]);
        let blob = encode(version, &state()).unwrap();

        assert_eq!(decode(&blob), (version, Some(state())));
        assert_eq!(decode(&blob[..20]), (version, None));
        assert_eq!(decode(b""), (Version::nil(), None));
    }

    /// Gateways of two releases may share a Redis: if the encoding changes, the prefix
    /// of all keys must change.
    #[test]
    fn the_encoding_is_stable() {
        let blob = encode(Version::nil(), &state()).unwrap();
        let json = String::from_utf8(blob[VERSION_BYTES..].to_vec()).unwrap();

        insta::assert_snapshot!(json, @r#"{"source":"History","agent":"a","first_seen":1,"last_seen":2,"requests":3,"turns":4,"started":true,"context":"x","prefixes":[1267650600228229401496703205376,7],"last_request":null,"answered":false,"evaluated":[18446744073709551615],"prompt_ends":[10],"seen":[11],"notes":{"5":{"revised":6,"response":null,"denied":null,"stopped":null,"context":null,"replaced":"r","hidden_contents":["h"],"denied_calls":{"8":9}}},"reported":["AfterTool"]}"#);
    }

    #[test]
    fn keys_are_parsed_from_members_and_names() {
        let key = SessionKey {
            caller: "00ff".to_owned(),
            id: "a:b\0c".to_owned(),
        };

        assert_eq!(key_of(member(&key).as_bytes()), Some(key.clone()));
        assert_eq!(key_of_name(name(&key).as_bytes()), Some(key));
        assert_eq!(key_of(b"none"), None);
    }
}

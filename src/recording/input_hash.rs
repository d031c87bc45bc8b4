//! The hash by which a replay finds the output of a hook. Pure.

use memchr::memmem;

use crate::sha256::sha256_hex;

/// First field of inputs that is about the event. Those before it are the session, its
/// transcript, the folder and the time, which differ between a gateway and a replay.
const FIRST_FIELD: &[u8] = b"\"hook_event_name\":";

/// Returns the SHA-256 of a hook's input, in hex, without the fields before the event.
pub fn input_hash(input: &[u8]) -> String {
    sha256_hex(hashed_part(input))
}

/// Returns the fields of a hook's input that are hashed, with the end of their object.
pub(super) fn hashed_part(input: &[u8]) -> &[u8] {
    let start = memmem::find(input, FIRST_FIELD).unwrap_or_default();
    input.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_equal_events_have_one_hash() {
        let input = |time: &str, tool: &str| {
            let base = format!(r#"{{"session_id":"\"hook_event_name\":","timestamp":"{time}""#);
            format!(r#"{base},"hook_event_name":"BeforeTool","tool_name":"{tool}"}}"#)
        };
        let hash = |time: &str, tool: &str| input_hash(input(time, tool).as_bytes());

        assert_eq!(hash("1", "look"), hash("2", "look"));
        assert_ne!(hash("1", "look"), hash("1", "rm"));
    }
}

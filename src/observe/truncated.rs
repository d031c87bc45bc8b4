//! Truncation of names and texts.

/// Bytes of a name that logs and records keep; agents and models choose names.
pub const MAX_NAME_BYTES: usize = 256;

/// Returns the start of a text, of at most `max_bytes` and without a part of a character.
pub fn truncated(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes))
        .unwrap_or(text)
}

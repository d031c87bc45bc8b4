//! Ends and contents of the strings of a JSON text. Pure.

use std::borrow::Cow;

use memchr::memchr2;

/// Returns the position behind the closing quote of a string whose content begins at `at`.
pub(super) fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = text.get(at..)?;
        let found = memchr2(b'"', b'\\', rest)?;
        if rest.get(found) == Some(&b'"') {
            return Some(at + found + 1);
        }
        at += found + 2;
    }
}

/// Decodes the content of a string; `None` if it is invalid.
pub(super) fn unescaped(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.contains('\\') {
        return Some(Cow::Borrowed(raw));
    }
    serde_json::from_str(&format!("\"{raw}\""))
        .ok()
        .map(Cow::Owned)
}

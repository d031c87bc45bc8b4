//! Decoding of JSON strings with their escapes.

use std::borrow::Cow;

/// Decodes a string that is given with its quotes; `None` if it is invalid. A string without
/// escapes is borrowed.
///
/// ```
/// assert_eq!(strict_json::unquote(br#""a\u00e9""#).as_deref(), Some("a\u{e9}"));
/// assert_eq!(strict_json::unquote(b"5"), None);
/// ```
pub fn unquote(quoted: &[u8]) -> Option<Cow<'_, str>> {
    match quoted {
        [b'"', text @ .., b'"'] if !text.contains(&b'\\') => {
            simdutf8::basic::from_utf8(text).ok().map(Cow::Borrowed)
        }
        _ => serde_json::from_slice(quoted).ok().map(Cow::Owned),
    }
}

/// Returns the text between the quotes of a string, with its escapes.
#[inline]
pub(super) fn inner(quoted: &[u8]) -> &[u8] {
    match quoted {
        [b'"', text @ .., b'"'] => text,
        other => other,
    }
}

//! Escapes in the strings of a JSON text. Pure.

use std::borrow::Cow;

use memchr::memchr2;

/// Bytes of the longest escape, `\uXXXX`.
pub(super) const ESCAPE_BYTES: usize = 6;

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

/// Like [`unescaped`], with U+FFFD for a lone surrogate and itself for what is no escape.
pub(super) fn unescaped_lossy(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        // A pair of surrogates, an escape of a code, or of a letter.
        let lengths = [2 * ESCAPE_BYTES, ESCAPE_BYTES, 2].into_iter();
        let mut pieces = lengths.filter_map(|length| escape.split_at_checked(length));
        let decoded = pieces.find_map(|(escape, after)| Some((unescaped(escape)?, after)));
        let (piece, after) = decoded.unwrap_or_else(|| {
            let (piece, length) = match escape.get(2..ESCAPE_BYTES) {
                Some(code)
                    if escape.starts_with("\\u") && u16::from_str_radix(code, 16).is_ok() =>
                {
                    ("\u{fffd}", ESCAPE_BYTES)
                }
                _ => ("\\", 1),
            };
            (piece.into(), escape.get(length..).unwrap_or_default())
        });
        text.push_str(before);
        text.push_str(&piece);
        rest = after;
    }
    text + rest
}

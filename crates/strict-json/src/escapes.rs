//! Escapes in the strings of a JSON text, valid or not.

/// Bytes of the longest escape, `\uXXXX`.
pub const ESCAPE_BYTES: usize = 6;

/// Decodes the content of a string, with U+FFFD for a lone surrogate and itself for what is no
/// escape.
pub fn unescaped_lossy(raw: &str) -> String {
    unescaped_chars(raw).map(|(_, letter)| letter).collect()
}

/// Returns the characters of [`unescaped_lossy`], each with what it is decoded from.
pub fn unescaped_chars(raw: &str) -> impl Iterator<Item = (&str, char)> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let escape = rest.strip_prefix('\\').and_then(escaped_char);
        let escape = escape.map(|(letter, length)| (letter, length + 1));
        let plain = || {
            rest.chars()
                .next()
                .map(|letter| (letter, letter.len_utf8()))
        };
        let (letter, length) = escape.or_else(plain)?;
        let (from, behind) = rest.split_at_checked(length)?;
        rest = behind;
        Some((from, letter))
    })
}

/// Returns the character of an escape without its backslash, and the length of the escape.
fn escaped_char(escape: &str) -> Option<(char, usize)> {
    let letter = match escape.as_bytes().first()? {
        byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = code_unit(escape)?;
            let second = escape.get(ESCAPE_BYTES - 1..)?.strip_prefix('\\');
            let units = [Some(first), second.and_then(code_unit)];
            let decoded = char::decode_utf16(units.into_iter().flatten()).next()?;
            let letter = decoded.unwrap_or('\u{fffd}');
            return Some((letter, letter.len_utf16() * ESCAPE_BYTES - 1));
        }
        _ => return None,
    };
    Some((letter, 1))
}

/// Returns the number of an escape that begins with `u`.
fn code_unit(escape: &str) -> Option<u16> {
    let digits = escape.strip_prefix('u')?.get(..4)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_escapes_are_read_about_as_fast_as_others() {
        let raw = "\\q\\u12".repeat(1 << 20);
        let started = Instant::now();
        assert!(unescaped_lossy(&raw) == raw);
        // With a parser for each backslash, it takes half a minute.
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    proptest! {
        #[test]
        fn valid_escapes_are_decoded_as_json(escapes in "(\\\\([\"\\\\/bfnrt]|u(00[0-9a-f]{2}|[0-9A-C][0-9a-fA-F]{3}|d83d\\\\ude0[0-9]))|[a-zé{]){0,8}") {
            let expected: String = serde_json::from_str(&format!("\"{escapes}\"")).unwrap();
            prop_assert_eq!(unescaped_lossy(&escapes), expected);
        }
    }
}

//! Comparison of field names with the spellings that the API accepts.

use std::borrow::Cow;

use compact_str::CompactString;
use strict_json::same_field;

use crate::dialect::{error::DialectError, json};

/// Maximum length of a field name in an error message, in characters.
const MAX_SHOWN_CHARS: usize = 64;

#[derive(Clone, Copy)]
pub enum FieldKey<'a> {
    /// Text between the quotes, with its escapes.
    Raw(&'a [u8]),
    /// Text with its escapes decoded.
    Decoded(&'a str),
}

impl<'a> FieldKey<'a> {
    fn decoded(self) -> Cow<'a, [u8]> {
        match self {
            Self::Decoded(text) => text.as_bytes().into(),
            Self::Raw(text) if !text.contains(&b'\\') => text.into(),
            Self::Raw(text) => {
                // Cannot fail for a key of a parsed document.
                let decoded: Option<String> = json::unquote(&[b"\"", text, b"\""].concat()).ok();
                decoded.unwrap_or_default().into_bytes().into()
            }
        }
    }

    pub fn text(self) -> CompactString {
        CompactString::from_utf8_lossy(&self.decoded())
    }

    /// Compares the key with the spellings of a field.
    #[inline]
    pub fn likeness(self, spellings: &[&str]) -> Likeness {
        let raw = match self {
            Self::Decoded(text) => text.as_bytes(),
            Self::Raw(text) => text,
        };
        if spellings
            .iter()
            .any(|spelling| may_match(raw, spelling.as_bytes()))
        {
            self.compare(spellings)
        } else {
            Likeness::None
        }
    }

    fn compare(self, spellings: &[&str]) -> Likeness {
        let key = self.decoded();
        let mut spellings = spellings.iter().map(|spelling| spelling.as_bytes());
        if spellings.clone().any(|spelling| spelling == &*key) {
            Likeness::Same
        } else if spellings.any(|spelling| same_field(&key, spelling)) {
            Likeness::Similar
        } else {
            Likeness::None
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// The name of another field.
    None,
    /// One of the spellings.
    Same,
    /// Differs in case or underscores only, so a lenient parser could accept it.
    Similar,
}

/// Cheap first check by first and last letter. These decide unless the key has escapes or
/// underscores.
#[inline]
fn may_match(raw: &[u8], known: &[u8]) -> bool {
    let ([first, .., last], [known_first, .., known_last]) = (raw, known) else {
        return true;
    };
    if !equal_ignoring_case(*first, *known_first) {
        return *first == b'\\';
    }
    equal_ignoring_case(*last, *known_last)
        || *last == b'_'
        || *known_last == b'_'
        || raw.contains(&b'\\')
}

/// Returns whether two bytes differ in the ASCII case bit at most.
const fn equal_ignoring_case(one: u8, other: u8) -> bool {
    const CASE: u8 = b'a' ^ b'A';
    (one ^ other) & !CASE == 0
}

/// Returns the field known under `spellings`.
///
/// INVARIANT: a field that hookgate treats as unknown is unknown to every parser, including
/// ones that ignore case.
pub fn find_one<'a, T>(
    fields: impl Iterator<Item = (T, FieldKey<'a>)>,
    spellings: &[&str],
) -> Result<Option<T>, DialectError> {
    let mut found = None;
    for (field, key) in fields {
        match key.likeness(spellings) {
            Likeness::None => (),
            Likeness::Same if found.is_none() => found = Some(field),
            Likeness::Same => return Err(DialectError::Ambiguous(key.text().into())),
            Likeness::Similar => {
                let shown = key.text().chars().take(MAX_SHOWN_CHARS).collect();
                return Err(DialectError::Spelling(shown));
            }
        }
    }
    Ok(found)
}

//! Lookup of a field by the spellings that an API accepts.

use std::borrow::Cow;

use super::{JsonError, decode::inner, keys::same_field, unquote};

/// Maximum length of a field name in an error, in characters.
const MAX_SHOWN_CHARS: usize = 64;

/// Search for a field among those of an object, which are added one by one.
pub(super) struct FieldSearch<'s, T> {
    spellings: &'s [&'s str],
    /// The field that is known under one of the spellings.
    pub(super) found: Option<T>,
}

impl<'s, T> FieldSearch<'s, T> {
    pub(super) const fn new(spellings: &'s [&'s str]) -> Self {
        let found = None;
        Self { spellings, found }
    }

    /// Adds a field with its key in the text, quotes included.
    ///
    /// # Errors
    ///
    /// Fails if two fields are known under the spellings, or if a name differs from them in case
    /// or underscores only, so that a lenient parser could read it as the known one.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], field: T) -> Result<(), JsonError> {
        if is_spelling(key, self.spellings)? && self.found.replace(field).is_some() {
            return Err(JsonError::DuplicateKey(decoded(key).into_owned()));
        }
        Ok(())
    }
}

/// Returns whether a key is one of `spellings`.
///
/// # Errors
///
/// Fails if it differs from one in case or underscores only.
#[inline]
fn is_spelling(key: &[u8], spellings: &[&str]) -> Result<bool, JsonError> {
    let text = inner(key);
    for spelling in spellings {
        if may_match(text, spelling.as_bytes()) {
            return compare(key, spellings);
        }
    }
    Ok(false)
}

fn compare(key: &[u8], spellings: &[&str]) -> Result<bool, JsonError> {
    let text = inner(key);
    if spellings.iter().any(|spelling| spelling.as_bytes() == text) {
        return Ok(true);
    }
    let name = decoded(key);
    if spellings.contains(&&*name) {
        return Ok(true);
    }
    let is_similar = |spelling: &&str| same_field(name.as_bytes(), spelling.as_bytes());
    if spellings.iter().any(is_similar) {
        let shown = name.chars().take(MAX_SHOWN_CHARS).collect();
        return Err(JsonError::Spelling(shown));
    }
    Ok(false)
}

/// Decodes a key. This cannot fail for a key of a checked document.
fn decoded(key: &[u8]) -> Cow<'_, str> {
    unquote(key).unwrap_or_default()
}

/// Cheap check by the first letter, then the last one. These decide unless the key has escapes
/// or underscores.
#[inline]
fn may_match(raw: &[u8], known: &[u8]) -> bool {
    let (Some(first), Some(known_first)) = (raw.first(), known.first()) else {
        return true;
    };
    if is_one_letter(*first, *known_first) {
        may_end_alike(raw, known)
    } else {
        *first == b'\\'
    }
}

fn may_end_alike(raw: &[u8], known: &[u8]) -> bool {
    let ([_, .., last], [_, .., known_last]) = (raw, known) else {
        return true;
    };
    is_one_letter(*last, *known_last)
        || *last == b'_'
        || *known_last == b'_'
        || raw.contains(&b'\\')
}

/// Returns whether two bytes may be one letter in either case; true for some other pairs as well.
#[inline]
const fn is_one_letter(one: u8, other: u8) -> bool {
    const CASE: u8 = 0x20;
    one | CASE == other | CASE
}

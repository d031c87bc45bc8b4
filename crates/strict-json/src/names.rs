//! Lookup of a field by the spellings that an API accepts.

use std::borrow::Cow;

use super::{JsonError, decode::inner, keys::same_field, unquote};

/// Maximum length of a field name in an error, in characters.
const MAX_SHOWN_CHARS: usize = 64;

/// Finds the field known under one of `spellings`. The fields of the object are given as
/// their keys in the text, quotes included, each with a value that identifies the field.
///
/// ```
/// use strict_json::find_field;
///
/// let keys: [(&[u8], usize); 2] = [(br#""model""#, 0), (br#""tool_\u0063onfig""#, 1)];
/// let found = find_field(keys.into_iter(), &["toolConfig", "tool_config"])?;
/// assert_eq!(found.map(|(_, index)| index), Some(1));
///
/// assert!(find_field(keys.into_iter(), &["Model"]).is_err());
/// # Ok::<(), strict_json::JsonError>(())
/// ```
///
/// # Errors
///
/// Fails if two fields are known under `spellings`, or if a name differs from them in case
/// or underscores only, so that a lenient parser could read it as the known one.
pub fn find_field<'t, T>(
    fields: impl Iterator<Item = (&'t [u8], T)>,
    spellings: &[&str],
) -> Result<Option<(&'t [u8], T)>, JsonError> {
    let mut found = None;
    for (key, field) in fields {
        match likeness(key, spellings) {
            Likeness::None => (),
            Likeness::Same if found.is_none() => found = Some((key, field)),
            Likeness::Same => return Err(JsonError::DuplicateKey(decoded(key).into_owned())),
            Likeness::Similar => {
                let shown = decoded(key).chars().take(MAX_SHOWN_CHARS).collect();
                return Err(JsonError::Spelling(shown));
            }
        }
    }
    Ok(found)
}

enum Likeness {
    /// The name of another field.
    None,
    /// One of the spellings.
    Same,
    /// Differs in case or underscores only.
    Similar,
}

#[inline]
fn likeness(key: &[u8], spellings: &[&str]) -> Likeness {
    let text = inner(key);
    let mut spellings = spellings.iter().map(|spelling| spelling.as_bytes());
    if !spellings.clone().any(|spelling| may_match(text, spelling)) {
        return Likeness::None;
    }
    let name = decoded(key);
    if spellings
        .clone()
        .any(|spelling| spelling == name.as_bytes())
    {
        Likeness::Same
    } else if spellings.any(|spelling| same_field(name.as_bytes(), spelling)) {
        Likeness::Similar
    } else {
        Likeness::None
    }
}

/// Decodes a key. This cannot fail for a key of a checked document.
fn decoded(key: &[u8]) -> Cow<'_, str> {
    unquote(key).unwrap_or_default()
}

/// Cheap first check by first and last letter. These decide unless the key has escapes or
/// underscores.
#[inline]
fn may_match(raw: &[u8], known: &[u8]) -> bool {
    let ([first, .., last], [known_first, .., known_last]) = (raw, known) else {
        return true;
    };
    if !first.eq_ignore_ascii_case(known_first) {
        return *first == b'\\';
    }
    last.eq_ignore_ascii_case(known_last)
        || *last == b'_'
        || *known_last == b'_'
        || raw.contains(&b'\\')
}

//! The keys of a document's fields: whose they are, and what could be taken for one.

use std::borrow::Cow;

use compact_str::CompactString;

use super::{DialectError, json};
use strict_json::same_field;

/// A field's key.
#[derive(Clone, Copy)]
pub(super) enum Key<'a> {
    /// As it is written between its quotes.
    Written(&'a [u8]),
    /// As it is meant.
    Meant(&'a str),
}

impl<'a> Key<'a> {
    /// As it is meant. A key of a document that was read can always be read.
    fn meant(self) -> Cow<'a, [u8]> {
        match self {
            Self::Meant(text) => text.as_bytes().into(),
            Self::Written(text) if !text.contains(&b'\\') => text.into(),
            Self::Written(text) => {
                let meant: Option<String> = json::string(&[b"\"", text, b"\""].concat()).ok();
                meant.unwrap_or_default().into_bytes().into()
            }
        }
    }

    pub(super) fn text(self) -> CompactString {
        CompactString::from_utf8_lossy(&self.meant())
    }

    /// How it is like a field known under `spellings`.
    #[inline]
    pub(super) fn likeness(self, spellings: &[&str]) -> Likeness {
        let written = match self {
            Self::Meant(text) => text.as_bytes(),
            Self::Written(text) => text,
        };
        let may_be = |it: &&str| may_be_alike(written, it.as_bytes());
        if spellings.iter().any(may_be) {
            self.compare(spellings)
        } else {
            Likeness::None
        }
    }

    fn compare(self, spellings: &[&str]) -> Likeness {
        let meant = self.meant();
        if spellings.iter().any(|it| it.as_bytes() == &*meant) {
            return Likeness::Same;
        }
        if spellings.iter().any(|it| same_field(&meant, it.as_bytes())) {
            return Likeness::Alike;
        }
        Likeness::None
    }
}

/// How a key is like a field that is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// It is another field's.
    None,
    /// It is the field's, in one of its spellings.
    Same,
    /// It differs from them in case and underscores at most: somebody could take it
    /// for the field's.
    Alike,
}

/// Whether a key as it is written may be a spelling of `known`. What differs in its
/// first or last letter is not; only escapes and underscores hide these.
#[inline]
fn may_be_alike(written: &[u8], known: &[u8]) -> bool {
    let ([first, .., last], [known_first, .., known_last]) = (written, known) else {
        return true;
    };
    if !may_be_one_letter(*first, *known_first) {
        return *first == b'\\';
    }
    may_be_one_letter(*last, *known_last)
        || *last == b'_'
        || *known_last == b'_'
        || written.contains(&b'\\')
}

/// Whether two bytes differ in what tells cases apart at most.
const fn may_be_one_letter(one: u8, other: u8) -> bool {
    const CASE: u8 = b'a' ^ b'A';
    (one ^ other) & !CASE == 0
}

/// The one of these fields that is known under one of `spellings`. INVARIANT: what
/// hookgate takes for unknown, nobody takes for this field. A parser that ignores
/// case would.
pub(super) fn one_of<'a, T>(
    fields: impl Iterator<Item = (T, Key<'a>)>,
    spellings: &[&str],
) -> Result<Option<T>, DialectError> {
    let mut found = None;
    for (field, key) in fields {
        match key.likeness(spellings) {
            Likeness::None => (),
            Likeness::Same if found.is_none() => found = Some(field),
            Likeness::Same => return Err(DialectError::Ambiguous(key.text().into())),
            Likeness::Alike => {
                let told = key.text().chars().take(64).collect();
                return Err(DialectError::Spelling(told));
            }
        }
    }
    Ok(found)
}

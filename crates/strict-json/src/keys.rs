//! Detection of duplicate keys within one object.

use std::{borrow::Cow, collections::HashSet};

use super::{FreeField, FreeFields, MAX_FIELDS, bit, decode::inner, layout::Position};

/// Objects with more keys than this use a hash set instead of comparing keys one by
/// one.
const MAX_COMPARED_KEYS: usize = 16;

/// Prefix of the keys that `serde_json` uses internally: it would read an object with
/// such a key as a number.
const RESERVED: &[u8] = b"$serde_json::private";

/// Letters that are not ASCII, but that Go's `encoding/json` reads as `s` and `k` in the name of a
/// field.
const FOLDED_LETTERS: [char; 2] = ['\u{17f}', '\u{212a}'];

/// Rule for comparing the keys of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Field names of the API, except below these fields.
    Fields(&'static FreeFields),
    /// Free names; the object is the value of this field or is nested in it.
    Free(&'static FreeField),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// Position in the text, quotes included.
    pub(super) place: Position,
    /// Hash that is equal for all spellings of a key.
    hash: u32,
}

/// Returns a hash that is equal for all spellings of a field: of its number of letters,
/// its first and its last one. Equals [`free_key_hash`] for keys without an underscore.
pub(super) const fn hash(key: &[u8]) -> u32 {
    let [first, rest @ ..] = key else {
        return 0;
    };
    let (mut letters, mut last, mut rest) = (1_usize, *first, rest);
    while let [letter, others @ ..] = rest {
        if *letter != b'_' {
            (letters, last) = (letters + 1, *letter);
        }
        rest = others;
    }
    mixed(letters, *first, last)
}

/// Returns the hash of a key with a free name.
#[inline]
fn free_key_hash(key: &[u8]) -> u32 {
    match (key.first(), key.last()) {
        (Some(first), Some(last)) => mixed(key.len(), *first, *last),
        _ => 0,
    }
}

/// Mixes the length and both ends into the high bits, ignoring case.
#[expect(
    clippy::cast_possible_truncation,
    reason = "some bits of a length are enough"
)]
#[inline]
const fn mixed(length: usize, first: u8, last: u8) -> u32 {
    const CASE: u32 = 0x2020;
    let ends = (first as u32) << 8 | last as u32 | CASE;
    ((length as u32) << 16 | ends).wrapping_mul(0x9E37_79B1)
}

/// Reason for rejecting a key of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyError {
    /// Another key of the object is equal.
    Duplicate,
    /// The object has more than [`MAX_FIELDS`](super::MAX_FIELDS) fields.
    TooMany,
}

/// The keys of all open objects; those of an object follow those of its parent.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    text: &'a [u8],
    open: Vec<Key>,
    /// The normalized keys of each object that uses a hash set.
    key_sets: Vec<HashSet<Vec<u8>>>,
}

/// The keys of one object that were read so far.
#[derive(Debug)]
pub(super) struct Object {
    start: usize,
    /// Bloom filter of key hashes: a key whose bit is not set is new.
    hash_bits: u64,
    /// True if the keys are in a hash set, the last one of `key_sets`.
    uses_set: bool,
}

impl<'a> Keys<'a> {
    pub(super) const fn of(text: &'a [u8]) -> Self {
        Self {
            text,
            open: Vec::new(),
            key_sets: Vec::new(),
        }
    }

    /// Returns a key found by [`super::strings::plain_key_end`].
    #[inline]
    pub(super) fn plain(&self, start: usize, end: usize) -> Key {
        // Without underscores both hashes are equal.
        Key {
            place: Position::new(start, end),
            hash: free_key_hash(self.text.get(start + 1..end - 1).unwrap_or_default()),
        }
    }

    /// Returns any other valid key; `None` if parsers may read it differently: if it is reserved,
    /// or the name of a field with control characters or letters that some take for others.
    pub(super) fn any(&self, start: usize, end: usize, scope: Scope) -> Option<Key> {
        let place = Position::new(start, end);
        let meant = self.read(place)?;
        let name = str::from_utf8(&meant).ok()?;
        let is_odd = |letter: char| letter.is_ascii_control() || FOLDED_LETTERS.contains(&letter);
        let is_odd_field = matches!(scope, Scope::Fields(_)) && name.contains(is_odd);
        if is_odd_field || meant.starts_with(RESERVED) {
            return None;
        }
        let hash = match scope {
            Scope::Fields(_) => hash(&meant),
            Scope::Free(_) => free_key_hash(&meant),
        };
        Some(Key { place, hash })
    }

    /// Returns a key without quotes and escapes.
    pub(super) fn meant(&self, key: Key) -> Cow<'a, [u8]> {
        // The key was parsed when it was added.
        self.read(key.place).unwrap_or_default()
    }

    /// Unescapes the string at a position.
    fn read(&self, place: Position) -> Option<Cow<'a, [u8]>> {
        let text = self.text.get(place.range())?;
        let inner = inner(text);
        if !inner.contains(&b'\\') {
            return Some(Cow::Borrowed(inner));
        }
        let read: String = serde_json::from_slice(text).ok()?;
        Some(Cow::Owned(read.into_bytes()))
    }

    /// Returns the scope of the value of `key`, in an object at this depth.
    #[inline]
    pub(super) fn scope_under(&self, key: Key, scope: Scope, depth: usize) -> Scope {
        match scope {
            Scope::Fields(free) if free.hash_bits & bit(key.hash) != 0 => {
                self.free_under(key, free, depth)
            }
            Scope::Fields(_) | Scope::Free(_) => scope,
        }
    }

    /// Returns the scope of a key whose hash is that of a free field.
    fn free_under(&self, key: Key, free: &'static FreeFields, depth: usize) -> Scope {
        let is_key = |field: &&FreeField| {
            field.hash == key.hash && depth >= field.from_depth && self.is_field(key, field.name)
        };
        let found = free.all.iter().find(is_key);
        found.map_or(Scope::Fields(free), Scope::Free)
    }

    #[inline(never)]
    fn is_field(&self, key: Key, name: &str) -> bool {
        let text = self.text.get(key.place.range()).unwrap_or_default();
        inner(text) == name.as_bytes() || same_field(&self.meant(key), name.as_bytes())
    }

    #[inline]
    pub(super) const fn open(&self) -> Object {
        Object {
            start: self.open.len(),
            hash_bits: 0,
            uses_set: false,
        }
    }

    #[inline]
    pub(super) fn close(&mut self, object: &Object) {
        self.open.truncate(object.start);
        if object.uses_set {
            self.key_sets.pop();
        }
    }

    /// Adds the next key of an object.
    #[inline]
    pub(super) fn add(
        &mut self,
        object: &mut Object,
        key: Key,
        scope: Scope,
    ) -> Result<(), KeyError> {
        let bit = bit(key.hash);
        if object.hash_bits & bit != 0 {
            return self.compare(object, key, scope);
        }
        object.hash_bits |= bit;
        self.open.push(key);
        Ok(())
    }

    /// Adds a key whose bit is set already.
    #[cold]
    fn compare(&mut self, object: &mut Object, key: Key, scope: Scope) -> Result<(), KeyError> {
        if object.uses_set {
            return self.look_up(key, scope);
        }
        let text = self.meant(key);
        let mut is_escaped = matches!(text, Cow::Owned(_));
        let known = self.open.get(object.start..).unwrap_or_default();
        for other in known.iter().filter(|other| other.hash == key.hash) {
            let other = self.meant(*other);
            if same(&other, &text, scope) {
                return Err(KeyError::Duplicate);
            }
            is_escaped |= matches!(other, Cow::Owned(_));
        }
        // A hash set unescapes each key once, not once per comparison.
        if known.len() >= MAX_COMPARED_KEYS || is_escaped {
            let all = known.iter().chain([&key]);
            let all = all.map(|key| folded(&self.meant(*key), scope)).collect();
            self.key_sets.push(all);
            (object.uses_set, object.hash_bits) = (true, u64::MAX);
        } else {
            self.open.push(key);
        }
        Ok(())
    }

    /// Adds a key to the hash set of an object.
    fn look_up(&mut self, key: Key, scope: Scope) -> Result<(), KeyError> {
        let folded = folded(&self.meant(key), scope);
        let many = self.key_sets.last_mut().ok_or(KeyError::TooMany)?;
        if matches!(scope, Scope::Fields(_)) && many.len() >= MAX_FIELDS {
            return Err(KeyError::TooMany);
        }
        let is_new = many.insert(folded);
        if is_new {
            Ok(())
        } else {
            Err(KeyError::Duplicate)
        }
    }
}

fn same(one: &[u8], other: &[u8], scope: Scope) -> bool {
    match scope {
        Scope::Fields(_) => same_field(one, other),
        Scope::Free(_) => one == other,
    }
}

fn folded(key: &[u8], scope: Scope) -> Vec<u8> {
    match scope {
        Scope::Fields(_) => letters(key).collect(),
        Scope::Free(_) => key.to_vec(),
    }
}

/// Returns whether two keys are spellings of one field: equal except for underscores and case,
/// such as `fooBar` and `foo_bar`.
#[inline]
pub fn same_field(one: &[u8], other: &[u8]) -> bool {
    let (Some((first, one)), Some((second, other))) = (one.split_first(), other.split_first())
    else {
        return one == other;
    };
    // Most keys differ in the first letter.
    first.eq_ignore_ascii_case(second) && (one == other || same_letters(one, other))
}

/// Returns whether two keys are equal except for case and underscores.
fn same_letters(mut one: &[u8], mut other: &[u8]) -> bool {
    loop {
        while let Some(rest) = one.strip_prefix(b"_") {
            one = rest;
        }
        while let Some(rest) = other.strip_prefix(b"_") {
            other = rest;
        }
        match (one.split_first(), other.split_first()) {
            (Some((first, rest)), Some((second, other_rest)))
                if first.eq_ignore_ascii_case(second) =>
            {
                (one, other) = (rest, other_rest);
            }
            (None, None) => return true,
            _ => return false,
        }
    }
}

/// Returns the lower-case letters of a key without underscores. A leading underscore is
/// part of the name: some API fields differ in nothing else.
fn letters(key: &[u8]) -> impl Iterator<Item = u8> {
    let inner = key.iter().enumerate();
    let kept = inner.filter(|(at, byte)| *at == 0 || **byte != b'_');
    kept.map(|(_, byte)| byte.to_ascii_lowercase())
}

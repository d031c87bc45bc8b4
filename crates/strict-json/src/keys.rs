//! The keys of one object, and whether two of them are the same.

use std::{borrow::Cow, collections::HashSet};

use super::{FreeField, FreeFields, MOST_FIELDS, bit, layout::Place};

/// As many keys, or a few more, are compared one by one; more are looked up.
const FEW: usize = 16;

/// Where `serde_json` keeps what it hands over to itself: an object with such a
/// key would be read as a number.
const RESERVED: &[u8] = b"$serde_json::private";

/// Who gives the keys of one object their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The API, but for these fields.
    Fields(&'static FreeFields),
    /// Anybody; it is, or is part of, this field.
    Free(&'static FreeField),
}

/// A key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// Where it stands, in quotes.
    pub(super) place: Place,
    /// Keys with other prints are not the same.
    print: u32,
}

/// The same for all spellings of a field: how many letters it has, its first and its
/// last. Without an underscore it is what [`ends`] says.
pub(super) const fn print(key: &[u8]) -> u32 {
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

/// The same for a key that anybody named.
#[inline]
fn ends(key: &[u8]) -> u32 {
    match (key.first(), key.last()) {
        (Some(first), Some(last)) => mixed(key.len(), *first, *last),
        _ => 0,
    }
}

/// Differs in its high bits, too, and not in case.
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

/// What is wrong with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Another key of the object is the same.
    Twice,
    /// No message of an API has so many.
    TooMany,
}

/// The keys of all objects that are open, each object's after those of the
/// object around it.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    text: &'a [u8],
    open: Vec<Key>,
    /// The keys of each object that `has_many`, as they are compared.
    many: Vec<HashSet<Vec<u8>>>,
}

/// The keys of one object, as far as it was read.
#[derive(Debug)]
pub(super) struct Object {
    start: usize,
    /// A bit for each print: a key whose bit is not there is new.
    prints: u64,
    /// Whether they are looked up, as each is in [`Keys::many`].
    has_many: bool,
}

impl<'a> Keys<'a> {
    /// For the keys of this document.
    pub(super) const fn of(text: &'a [u8]) -> Self {
        Self {
            text,
            open: Vec::new(),
            many: Vec::new(),
        }
    }

    /// A key that [`super::strings::plain_key_end`] found.
    #[inline]
    pub(super) fn plain(&self, start: usize, end: usize) -> Key {
        // Without underscores it has the same print, whoever named it.
        Key {
            place: Place::new(start, end),
            print: ends(self.text.get(start + 1..end - 1).unwrap_or_default()),
        }
    }

    /// Any key that is read well; none if nobody may use it, as no parser of the API
    /// would take it for what it is.
    pub(super) fn any(&self, start: usize, end: usize, scope: Scope) -> Option<Key> {
        let place = Place::new(start, end);
        let meant = self.read(place)?;
        let is_field = matches!(scope, Scope::Fields(_));
        let has_control = is_field && meant.iter().any(u8::is_ascii_control);
        if has_control || meant.starts_with(RESERVED) {
            return None;
        }
        let print = match scope {
            Scope::Fields(_) => print(&meant),
            Scope::Free(_) => ends(&meant),
        };
        Some(Key { place, print })
    }

    /// A key as it is meant: without quotes and escapes.
    pub(super) fn meant(&self, key: Key) -> Cow<'a, [u8]> {
        // That it can be read was seen when it came.
        self.read(key.place).unwrap_or_default()
    }

    /// The string that stands there, as it is meant.
    fn read(&self, place: Place) -> Option<Cow<'a, [u8]>> {
        let text = self.text.get(place.range())?;
        let inner = inner(text);
        if !inner.contains(&b'\\') {
            return Some(Cow::Borrowed(inner));
        }
        let read: String = serde_json::from_slice(text).ok()?;
        Some(Cow::Owned(read.into_bytes()))
    }

    /// Who names the keys under `key` of an object that is `depth` deep.
    #[inline]
    pub(super) fn scope_under(&self, key: Key, scope: Scope, depth: usize) -> Scope {
        match scope {
            Scope::Fields(free) if free.prints & bit(key.print) != 0 => {
                self.free_under(key, free, depth)
            }
            Scope::Fields(_) | Scope::Free(_) => scope,
        }
    }

    /// The same for a key that may be one of the free fields.
    fn free_under(&self, key: Key, free: &'static FreeFields, depth: usize) -> Scope {
        let is_key = |it: &&FreeField| {
            it.print == key.print && depth >= it.from_depth && self.is_field(key, it.name)
        };
        let found = free.all.iter().find(is_key);
        found.map_or(Scope::Fields(free), Scope::Free)
    }

    #[inline(never)]
    fn is_field(&self, key: Key, name: &str) -> bool {
        let text = self.text.get(key.place.range()).unwrap_or_default();
        inner(text) == name.as_bytes() || same_field(&self.meant(key), name.as_bytes())
    }

    /// An object begins.
    #[inline]
    pub(super) const fn open(&self) -> Object {
        Object {
            start: self.open.len(),
            prints: 0,
            has_many: false,
        }
    }

    /// It ends.
    #[inline]
    pub(super) fn close(&mut self, object: &Object) {
        self.open.truncate(object.start);
        if object.has_many {
            self.many.pop();
        }
    }

    /// Takes in its next key.
    #[inline]
    pub(super) fn add(&mut self, object: &mut Object, key: Key, scope: Scope) -> Result<(), Fault> {
        let bit = bit(key.print);
        if object.prints & bit != 0 {
            return self.compare(object, key, scope);
        }
        object.prints |= bit;
        self.open.push(key);
        Ok(())
    }

    /// The same for a key that may be known.
    #[cold]
    fn compare(&mut self, object: &mut Object, key: Key, scope: Scope) -> Result<(), Fault> {
        if object.has_many {
            return self.look_up(key, scope);
        }
        let text = self.meant(key);
        let mut is_escaped = matches!(text, Cow::Owned(_));
        let known = self.open.get(object.start..).unwrap_or_default();
        for other in known.iter().filter(|it| it.print == key.print) {
            let other = self.meant(*other);
            if same(&other, &text, scope) {
                return Err(Fault::Twice);
            }
            is_escaped |= matches!(other, Cow::Owned(_));
        }
        // A key with escapes is not read again for each key that it may be.
        if known.len() >= FEW || is_escaped {
            let all = known.iter().chain([&key]);
            let all = all.map(|it| folded(&self.meant(*it), scope)).collect();
            self.many.push(all);
            (object.has_many, object.prints) = (true, u64::MAX);
        } else {
            self.open.push(key);
        }
        Ok(())
    }

    /// The same in an object that has many.
    fn look_up(&mut self, key: Key, scope: Scope) -> Result<(), Fault> {
        let folded = folded(&self.meant(key), scope);
        let many = self.many.last_mut().ok_or(Fault::TooMany)?;
        if matches!(scope, Scope::Fields(_)) && many.len() >= MOST_FIELDS {
            return Err(Fault::TooMany);
        }
        let is_new = many.insert(folded);
        if is_new { Ok(()) } else { Err(Fault::Twice) }
    }
}

/// What stands in quotes.
fn inner(text: &[u8]) -> &[u8] {
    match text {
        [b'"', inner @ .., b'"'] => inner,
        _ => text,
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

/// Whether two keys are spellings of one field: `fooBar`, `foo_bar`, and what a
/// parser that ignores case would take for it.
#[inline]
pub fn same_field(one: &[u8], other: &[u8]) -> bool {
    let (Some((first, one)), Some((second, other))) = (one.split_first(), other.split_first())
    else {
        return one == other;
    };
    // Most differ there, and fields are looked for very often.
    first.eq_ignore_ascii_case(second) && (one == other || same_letters(one, other))
}

/// Whether two keys are the same but for case and underscores.
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

/// A key without what spellings differ in. An underscore in front is part of the
/// name: the API has fields that differ in nothing else.
fn letters(key: &[u8]) -> impl Iterator<Item = u8> {
    let inner = key.iter().enumerate();
    let told = inner.filter(|(at, byte)| *at == 0 || **byte != b'_');
    told.map(|(_, byte)| byte.to_ascii_lowercase())
}

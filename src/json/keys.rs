//! The keys of one object, and whether two of them are the same.

use std::{borrow::Cow, collections::HashSet};

use super::{FreeFields, MOST_FIELDS};

/// As many keys are compared one by one; more are looked up.
const FEW: usize = 16;

/// Where `serde_json` keeps what it hands over to itself: an object with such a
/// key would be read as a number.
const RESERVED: &[u8] = b"$serde_json::private";

/// Who gives the keys of one object their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The API, but for these fields.
    Fields(&'static FreeFields),
    /// Anybody; it is, or is part of, the field of this name, if it has one.
    Free(&'static str),
}

impl Scope {
    /// Who names the keys under `key` of an object that is `depth` deep.
    pub(super) fn under(self, key: &Key<'_>, depth: usize) -> Self {
        let Self::Fields(free) = self else {
            return self;
        };
        let found = free.find(&key.text, key.print, depth);
        found.map_or(self, |it| Self::Free(it.name))
    }
}

/// A key.
#[derive(Debug)]
pub(super) struct Key<'a> {
    /// As it is meant: without escapes.
    pub(super) text: Cow<'a, [u8]>,
    /// Keys with other prints are not the same.
    print: u32,
}

impl<'a> Key<'a> {
    pub(super) fn new(text: Cow<'a, [u8]>, scope: Scope) -> Self {
        let print = match scope {
            Scope::Fields(_) => print(&text),
            Scope::Free(_) => ends(&text),
        };
        Self { text, print }
    }

    /// Whether it holds what no name does. Where nothing is escaped, a string may hold
    /// one such character, which hardly any document `has`.
    fn has_control(&self, has: HasDelete) -> bool {
        let may = has == HasDelete::Yes || matches!(self.text, Cow::Owned(_));
        may && self.text.iter().any(u8::is_ascii_control)
    }
}

/// The same for all spellings of a field: how many letters it has, its first and its
/// last.
pub(super) const fn print(key: &[u8]) -> u32 {
    let [first, rest @ ..] = key else {
        return 0;
    };
    let (mut letters, mut last, mut rest) = (1, *first, rest);
    while let [letter, others @ ..] = rest {
        if *letter != b'_' {
            (letters, last) = (letters + 1, *letter);
        }
        rest = others;
    }
    mixed(letters, *first, last)
}

/// The same for a key that anybody named.
fn ends(key: &[u8]) -> u32 {
    let [first, last] = [key.first(), key.last()].map(|it| *it.unwrap_or(&0));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "some bits of it are enough"
    )]
    let length = key.len() as u32;
    mixed(length, first, last)
}

/// Differs in its high bits, too.
const fn mixed(length: u32, first: u8, last: u8) -> u32 {
    let (first, last) = (
        first.to_ascii_lowercase() as u32,
        last.to_ascii_lowercase() as u32,
    );
    (length << 16 | first << 8 | last).wrapping_mul(0x9E37_79B1)
}

/// What is wrong with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Another key of the object is the same.
    Twice,
    /// No parser of the API would take it for what it is.
    Strange,
    /// No message of an API has so many.
    TooMany,
}

/// Whether the control character that strings may hold is anywhere in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HasDelete {
    Yes,
    No,
}

/// The keys of all objects that are open, each object's after those of the
/// object around it.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    open: Vec<Key<'a>>,
    has_delete: HasDelete,
}

/// The keys of one object, as far as it was read.
#[derive(Debug)]
pub(super) struct Object {
    start: usize,
    many: Option<HashSet<Vec<u8>>>,
}

impl<'a> Keys<'a> {
    /// For the keys of this document.
    pub(super) fn of(text: &[u8]) -> Self {
        const DELETE: u8 = 0x7F;
        let has_delete = match memchr::memchr(DELETE, text) {
            Some(_) => HasDelete::Yes,
            None => HasDelete::No,
        };
        Self {
            open: Vec::new(),
            has_delete,
        }
    }

    /// An object begins.
    pub(super) const fn open(&self) -> Object {
        Object {
            start: self.open.len(),
            many: None,
        }
    }

    /// It ends.
    pub(super) fn close(&mut self, object: &Object) {
        self.open.truncate(object.start);
    }

    /// Takes in its next key, or gives it back.
    #[inline]
    pub(super) fn add(
        &mut self,
        object: &mut Object,
        key: Key<'a>,
        scope: Scope,
    ) -> Result<(), (Fault, Key<'a>)> {
        let is_field = matches!(scope, Scope::Fields(_));
        if (is_field && key.has_control(self.has_delete)) || key.text.starts_with(RESERVED) {
            return Err((Fault::Strange, key));
        }
        if let Some(many) = &mut object.many {
            if is_field && many.len() >= MOST_FIELDS {
                return Err((Fault::TooMany, key));
            }
            return if many.insert(folded(&key.text, scope)) {
                Ok(())
            } else {
                Err((Fault::Twice, key))
            };
        }
        let known = self.open.get(object.start..).unwrap_or_default();
        let mut alike = known.iter().filter(|it| it.print == key.print);
        if alike.any(|it| same(&it.text, &key.text, scope)) {
            return Err((Fault::Twice, key));
        }
        if known.len() >= FEW {
            let all = known.iter().chain([&key]);
            object.many = Some(all.map(|it| folded(&it.text, scope)).collect());
        }
        self.open.push(key);
        Ok(())
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

//! The keys of one object, and whether two of them are the same.

use std::{borrow::Cow, collections::HashSet};

use super::{FreeField, MOST_FIELDS};

/// As many keys are compared one by one; more are looked up.
const FEW: usize = 16;

/// Where `serde_json` keeps what it hands over to itself: an object with such a
/// key would be read as a number.
const RESERVED: &[u8] = b"$serde_json::private";

/// Who gives the keys of one object their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The API, but for these fields.
    Fields(&'static [FreeField]),
    /// Anybody; it is, or is part of, the field of this name, if it has one.
    Free(&'static str),
}

impl Scope {
    /// Who names the keys under `key` of an object that is `depth` deep.
    pub(super) fn under(self, key: &[u8], depth: usize) -> Self {
        let Self::Fields(all) = self else {
            return self;
        };
        let mut free = all.iter().filter(|it| depth >= it.from_depth);
        let free = free.find(|it| same_field(it.name.as_bytes(), key));
        free.map_or(self, |it| Self::Free(it.name))
    }
}

/// A key as it is meant: without escapes.
pub(super) type Key<'a> = Cow<'a, [u8]>;

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

/// The keys of all objects that are open, each object's after those of the
/// object around it.
#[derive(Debug, Default)]
pub(super) struct Keys<'a>(Vec<Key<'a>>);

/// The keys of one object, as far as it was read.
#[derive(Debug)]
pub(super) struct Object {
    start: usize,
    many: Option<HashSet<Vec<u8>>>,
}

impl<'a> Keys<'a> {
    /// An object begins.
    pub(super) const fn open(&self) -> Object {
        Object {
            start: self.0.len(),
            many: None,
        }
    }

    /// It ends.
    pub(super) fn close(&mut self, object: &Object) {
        self.0.truncate(object.start);
    }

    /// Takes in its next key.
    pub(super) fn add(
        &mut self,
        object: &mut Object,
        key: Key<'a>,
        scope: Scope,
    ) -> Result<(), Fault> {
        let is_field = matches!(scope, Scope::Fields(_));
        let is_strange = is_field && key.iter().any(u8::is_ascii_control);
        if is_strange || key.starts_with(RESERVED) {
            return Err(Fault::Strange);
        }
        let fresh = if let Some(many) = &mut object.many {
            if is_field && many.len() >= MOST_FIELDS {
                return Err(Fault::TooMany);
            }
            many.insert(folded(&key, scope))
        } else {
            let known = self.0.get(object.start..).unwrap_or_default();
            let fresh = !known.iter().any(|it| same(it, &key, scope));
            if known.len() >= FEW {
                let all = known.iter().chain([&key]);
                object.many = Some(all.map(|it| folded(it, scope)).collect());
            }
            self.0.push(key);
            fresh
        };
        if fresh { Ok(()) } else { Err(Fault::Twice) }
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
pub fn same_field(one: &[u8], other: &[u8]) -> bool {
    let first = |it: &[u8]| it.first().map(u8::to_ascii_lowercase);
    // Most differ there, and fields are looked for very often.
    first(one) == first(other) && letters(one).eq(letters(other))
}

/// A key without what spellings differ in. An underscore in front is part of the
/// name: the API has fields that differ in nothing else.
fn letters(key: &[u8]) -> impl Iterator<Item = u8> {
    let inner = key.iter().enumerate();
    let told = inner.filter(|(at, byte)| *at == 0 || **byte != b'_');
    told.map(|(_, byte)| byte.to_ascii_lowercase())
}

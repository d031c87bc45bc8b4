//! Single-pass parser: RFC 8259, minus what parsers are known to read differently.

use super::{
    ALL_FREE, JsonError, Layout, MAX_DEPTH, Names,
    keys::{Key, KeyError, Keys, Scope},
    layout::Position,
    strings,
    text::{Scanned, Text, wrong},
};

/// Characters of a key that an error quotes.
const MAX_QUOTED_CHARS: usize = 64;

/// Parser state of one document.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    text: Text<'a>,
    keys: Keys<'a>,
    pub(super) layout: Layout,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            text: Text(text),
            keys: Keys::of(text),
            layout: Layout::default(),
        }
    }

    /// Parses one document and returns the positions of its values.
    pub(super) fn laid_out(mut self, names: Names, deepest: usize) -> Scanned<Layout> {
        self.layout = Layout::new(deepest, self.text.0.len());
        let length = self.text.0.len();
        let layout = self.document(names)?.layout;
        if layout.is_full {
            return wrong("more than 524,288 values", length);
        }
        Ok(layout)
    }

    /// Parses one document up to its end.
    pub(super) fn document(mut self, names: Names) -> Scanned<Self> {
        let scope = match names {
            Names::Free => Scope::Free(ALL_FREE),
            Names::Fields(free) => Scope::Fields(free),
        };
        let end = self.value(0, scope, 0, Position::default())?;
        let (at, _) = self.text.next(end);
        if !self.text.ends_at(at) {
            return wrong("something follows the document", at);
        }
        Ok(self)
    }

    /// Parses a value whose key is at `key`; returns the end of the value.
    #[expect(
        clippy::inline_always,
        reason = "a call for each value is a tenth of all work"
    )]
    #[inline(always)]
    fn value(&mut self, at: usize, scope: Scope, depth: usize, key: Position) -> Scanned {
        let (start, first) = self.text.next(at);
        let end = match first {
            b'"' => self.text.string(start)?,
            b'{' | b'[' => {
                if depth >= MAX_DEPTH {
                    return wrong("nested too deep", start);
                }
                let number = self.layout.add(Position::new(start, start), key, depth);
                let end = match first {
                    b'{' => self.object(start + 1, scope, depth + 1)?,
                    _ => self.array(start + 1, scope, depth + 1)?,
                };
                self.layout.end(number, end);
                return Ok(end);
            }
            _ => self.text.literal(start, first)?,
        };
        self.layout.add(Position::new(start, end), key, depth);
        Ok(end)
    }

    /// Parses an object after its opening brace.
    fn object(&mut self, at: usize, scope: Scope, depth: usize) -> Scanned {
        let (mut at, mut next) = self.text.next(at);
        if next == b'}' {
            return Ok(at + 1);
        }
        let mut object = self.keys.open();
        loop {
            if next != b'"' {
                return wrong("expected a key in double quotes", at);
            }
            let (end, key) = match strings::plain_key_end(self.text.0, at + 1) {
                Some(end) => (end, self.keys.plain(at, end)),
                None => self.odd_key(at, scope)?,
            };
            if let Err(error_kind) = self.keys.add(&mut object, key, scope) {
                return self.bad_key(error_kind, key, scope, end);
            }
            (at, next) = self.text.next(end);
            if next != b':' {
                return wrong("a colon is missing", at);
            }
            let under = self.keys.scope_under(key, scope, depth);
            let end = self.value(at + 1, under, depth, key.place)?;
            (at, next) = self.text.next(end);
            if next != b',' {
                break;
            }
            (at, next) = self.text.next(at + 1);
        }
        if next != b'}' {
            return wrong("an object does not end", at);
        }
        self.keys.close(&object);
        Ok(at + 1)
    }

    /// Parses an array after its opening bracket.
    fn array(&mut self, at: usize, scope: Scope, depth: usize) -> Scanned {
        let (mut at, mut next) = self.text.next(at);
        if next == b']' {
            return Ok(at + 1);
        }
        loop {
            let end = self.value(at, scope, depth, Position::default())?;
            (at, next) = self.text.next(end);
            match next {
                b',' => at += 1,
                b']' => return Ok(at + 1),
                _ => return wrong("an array does not end", at),
            }
        }
    }

    #[cold]
    fn odd_key(&mut self, start: usize, scope: Scope) -> Scanned<(usize, Key)> {
        let end = self.text.string(start)?;
        let key = self.text.0.get(start..end).unwrap_or_default();
        self.layout.has_escaped_keys |= key.contains(&b'\\');
        match self.keys.any(start, end, scope) {
            Some(key) => Ok((end, key)),
            None => wrong("a key that parsers may read differently", end),
        }
    }

    #[cold]
    fn bad_key(&self, error_kind: KeyError, key: Key, scope: Scope, end: usize) -> Scanned {
        let error = match (error_kind, scope) {
            (KeyError::TooMany, _) => return wrong("more fields than a message has", end),
            (KeyError::Duplicate, Scope::Free(within)) if !within.name.is_empty() => {
                JsonError::DuplicateFreeKey(within.name)
            }
            (KeyError::Duplicate, Scope::Free(_) | Scope::Fields(_)) => {
                let key = self.keys.meant(key);
                let key = String::from_utf8_lossy(&key);
                JsonError::DuplicateKey(key.chars().take(MAX_QUOTED_CHARS).collect())
            }
        };
        Err(Box::new(error))
    }
}

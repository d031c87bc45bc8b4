//! From the first byte to the last: JSON by the letter of RFC 8259, and less.

use std::{borrow::Cow, ops::Range};

use super::{
    DEPTH, JsonError, Layout, Names,
    keys::{Fault, Key, Keys, Scope},
    strings,
};

/// The longest part of a key that an error quotes, in characters.
const QUOTED: usize = 64;

/// A document under way.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    /// INVARIANT: valid UTF-8.
    text: &'a [u8],
    at: usize,
    keys: Keys<'a>,
    /// Where values stand, if that is wanted.
    layout: Option<Layout>,
}

/// Errors are rare, and each step hands its result on: it is small.
type Scanned<T = ()> = Result<T, Box<JsonError>>;

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            keys: Keys::of(text),
            layout: None,
        }
    }

    /// One value, and nothing behind it; where all that is in it stands.
    pub(super) fn laid_out(mut self, names: Names, deepest: usize) -> Scanned<Layout> {
        self.layout = Some(Layout::new(deepest, self.text.len()));
        Ok(self.document(names)?.layout.unwrap_or_default())
    }

    /// One value, and nothing behind it.
    pub(super) fn document(mut self, names: Names) -> Scanned<Self> {
        let scope = match names {
            Names::Free => Scope::Free(""),
            Names::Fields(free) => Scope::Fields(free),
        };
        self.value(scope, 0, 0..0)?;
        self.skip_white();
        if self.at < self.text.len() {
            return self.wrong("something follows the document");
        }
        Ok(self)
    }

    /// Where the string ends that the text begins with, if it begins with one.
    pub(super) fn string_end(mut self) -> Option<usize> {
        let is_string = self.peek() == Some(b'"') && self.string().is_ok();
        is_string.then_some(self.at)
    }

    /// A value, and where its key stands.
    fn value(&mut self, scope: Scope, depth: usize, key: Range<usize>) -> Scanned {
        self.skip_white();
        let start = self.at;
        let layout = self.layout.as_mut();
        let number = layout.and_then(|it| it.begin(start, key, depth));
        self.bare(scope, depth)?;
        let end = self.at;
        if let Some(layout) = &mut self.layout {
            layout.end(number, end);
        }
        Ok(())
    }

    fn bare(&mut self, scope: Scope, depth: usize) -> Scanned {
        match self.peek() {
            Some(b'{' | b'[') if depth >= DEPTH => self.wrong("nested too deep"),
            Some(b'{') => self.object(scope, depth + 1),
            Some(b'[') => self.array(scope, depth + 1),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(_) | None => self.wrong("a value is missing"),
        }
    }

    fn object(&mut self, scope: Scope, depth: usize) -> Scanned {
        self.at += 1;
        self.skip_white();
        if self.takes(b'}') {
            return Ok(());
        }
        let mut object = self.keys.open();
        loop {
            self.skip_white();
            let start = self.at;
            let key = self.key(scope)?;
            let place = start..self.at;
            let under = scope.under(&key, depth);
            if let Err((fault, key)) = self.keys.add(&mut object, key, scope) {
                return self.bad_key(fault, &key.text, scope);
            }
            self.skip_white();
            self.expect(b':', "a colon is missing")?;
            self.value(under, depth, place)?;
            self.skip_white();
            if !self.takes(b',') {
                break;
            }
        }
        self.keys.close(&object);
        self.expect(b'}', "an object does not end")
    }

    fn array(&mut self, scope: Scope, depth: usize) -> Scanned {
        self.at += 1;
        self.skip_white();
        if self.takes(b']') {
            return Ok(());
        }
        loop {
            self.value(scope, depth, 0..0)?;
            self.skip_white();
            if !self.takes(b',') {
                break;
            }
        }
        self.expect(b']', "an array does not end")
    }

    fn key(&mut self, scope: Scope) -> Scanned<Key<'a>> {
        if self.peek() != Some(b'"') {
            return self.wrong("a key is missing");
        }
        let start = self.at;
        let is_plain = self.string()?;
        let quoted = self.text.get(start..self.at).unwrap_or_default();
        if let (true, [b'"', inner @ .., b'"']) = (is_plain, quoted) {
            return Ok(Key::new(Cow::Borrowed(inner), scope));
        }
        let key: Result<String, _> = serde_json::from_slice(quoted);
        match key {
            Ok(key) => Ok(Key::new(Cow::Owned(key.into_bytes()), scope)),
            Err(_) => self.wrong("a key cannot be read"),
        }
    }

    /// A string; whether nothing in it is escaped.
    fn string(&mut self) -> Scanned<bool> {
        match strings::end(self.text, self.at + 1) {
            Ok(end) => {
                self.at = end.at;
                Ok(end.is_plain)
            }
            Err((what, at)) => {
                self.at = at;
                self.wrong(what)
            }
        }
    }

    fn number(&mut self) -> Scanned {
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        }
        if self.takes(b'.') {
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            if !self.takes(b'+') {
                self.takes(b'-');
            }
            self.digits()?;
        }
        Ok(())
    }

    /// At least one digit.
    fn digits(&mut self) -> Scanned {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|it| it.is_ascii_digit()).count();
        if count == 0 {
            return self.wrong("a number that is none");
        }
        self.at += count;
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Scanned {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word) {
            return self.wrong("a value is missing");
        }
        self.at += word.len();
        Ok(())
    }

    fn skip_white(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    fn expect(&mut self, byte: u8, otherwise: &'static str) -> Scanned {
        if self.takes(byte) {
            return Ok(());
        }
        self.wrong(otherwise)
    }

    fn bad_key(&self, fault: Fault, key: &[u8], scope: Scope) -> Scanned {
        let error = match (fault, scope) {
            (Fault::Strange, _) => return self.wrong("a key that nobody may use"),
            (Fault::TooMany, _) => return self.wrong("more fields than a message has"),
            (Fault::Twice, Scope::Free(within)) if !within.is_empty() => {
                JsonError::TwiceWithin(within)
            }
            (Fault::Twice, Scope::Free(_) | Scope::Fields(_)) => {
                let key = String::from_utf8_lossy(key);
                JsonError::Twice(key.chars().take(QUOTED).collect())
            }
        };
        Err(Box::new(error))
    }

    #[cold]
    fn wrong<T>(&self, what: &'static str) -> Scanned<T> {
        let at = self.at;
        Err(Box::new(JsonError::Broken { what, at }))
    }
}

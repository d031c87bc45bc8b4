//! From the first byte to the last: JSON by the letter of RFC 8259, and less.

use std::{borrow::Cow, ops::Range};

use super::{
    DEPTH, JsonError, Layout, Names,
    keys::{Fault, Key, Keys, Scope},
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

type Scanned = Result<(), JsonError>;

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            keys: Keys::default(),
            layout: None,
        }
    }

    /// One value, and nothing behind it; where all that is in it stands.
    pub(super) fn laid_out(mut self, names: Names) -> Result<Layout, JsonError> {
        self.layout = Some(Layout::default());
        Ok(self.document(names)?.layout.unwrap_or_default())
    }

    /// One value, and nothing behind it.
    pub(super) fn document(mut self, names: Names) -> Result<Self, JsonError> {
        let scope = match names {
            Names::Free => Scope::Free(""),
            Names::Fields(free) => Scope::Fields(free),
        };
        self.value(scope, 0, 0..0)?;
        self.skip_white();
        if self.at < self.text.len() {
            return Err(self.wrong("something follows the document"));
        }
        Ok(self)
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
            Some(b'{' | b'[') if depth >= DEPTH => Err(self.wrong("nested too deep")),
            Some(b'{') => self.object(scope, depth + 1),
            Some(b'[') => self.array(scope, depth + 1),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(_) | None => Err(self.wrong("a value is missing")),
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
            let added = self.keys.add(&mut object, key.clone(), scope);
            added.map_err(|fault| self.bad_key(fault, &key.text, scope))?;
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

    fn key(&mut self, scope: Scope) -> Result<Key<'a>, JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a key is missing"));
        }
        let start = self.at;
        let is_plain = self.string()?;
        let quoted = self.text.get(start..self.at).unwrap_or_default();
        if let (true, [b'"', inner @ .., b'"']) = (is_plain, quoted) {
            return Ok(Key::new(Cow::Borrowed(inner), scope));
        }
        let key: Result<String, _> = serde_json::from_slice(quoted);
        let key = key.map_err(|_| self.wrong("a key cannot be read"))?;
        Ok(Key::new(Cow::Owned(key.into_bytes()), scope))
    }

    /// A string; whether nothing in it is escaped.
    fn string(&mut self) -> Result<bool, JsonError> {
        self.at += 1;
        let mut is_plain = true;
        loop {
            self.at = after_plain(self.text, self.at);
            match self.text.get(self.at..) {
                Some([b'"', ..]) => {
                    self.at += 1;
                    return Ok(is_plain);
                }
                Some(
                    [
                        b'\\',
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
                        ..,
                    ],
                ) => {
                    self.at += 2;
                }
                Some([b'\\', ..]) => self.code_point()?,
                Some([_, ..]) => return Err(self.wrong("a control character in a string")),
                Some([]) | None => return Err(self.wrong("a string does not end")),
            }
            is_plain = false;
        }
    }

    /// An escape of one code point: `\uXXXX`, or two of them.
    fn code_point(&mut self) -> Scanned {
        self.at += 1;
        match self.peek() {
            Some(b'u') => match self.code_unit() {
                Some(0xD800..=0xDBFF) if self.takes(b'\\') => match self.code_unit() {
                    Some(0xDC00..=0xDFFF) => (),
                    _ => return Err(self.wrong("half of a surrogate pair")),
                },
                Some(0xD800..=0xDFFF) => return Err(self.wrong("half of a surrogate pair")),
                Some(_) => (),
                None => return Err(self.wrong("an escape that is none")),
            },
            Some(_) | None => return Err(self.wrong("an escape that is none")),
        }
        Ok(())
    }

    /// `uXXXX`.
    fn code_unit(&mut self) -> Option<u32> {
        let escape = self.text.get(self.at..self.at + 5)?;
        let digits = escape.strip_prefix(b"u")?;
        let unit = digits.iter().try_fold(0, |unit, digit| {
            let value = char::from(*digit).to_digit(16)?;
            Some(unit * 16 + value)
        })?;
        self.at += 5;
        Some(unit)
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
            return Err(self.wrong("a number that is none"));
        }
        self.at += count;
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Scanned {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word) {
            return Err(self.wrong("a value is missing"));
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
        Err(self.wrong(otherwise))
    }

    fn bad_key(&self, fault: Fault, key: &[u8], scope: Scope) -> JsonError {
        match (fault, scope) {
            (Fault::Strange, _) => self.wrong("a key that nobody may use"),
            (Fault::TooMany, _) => self.wrong("more fields than a message has"),
            (Fault::Twice, Scope::Free(within)) if !within.is_empty() => {
                JsonError::TwiceWithin(within)
            }
            (Fault::Twice, Scope::Free(_) | Scope::Fields(_)) => {
                let key = String::from_utf8_lossy(key);
                JsonError::Twice(key.chars().take(QUOTED).collect())
            }
        }
    }

    const fn wrong(&self, what: &'static str) -> JsonError {
        let at = self.at;
        JsonError::Broken { what, at }
    }
}

/// Where the plain text of a string that goes on at `at` ends: with the string, at
/// an escape, or at what must not be there.
fn after_plain(text: &[u8], mut at: usize) -> usize {
    while let Some(word) = text.get(at..).and_then(|it| it.first_chunk()) {
        let stops = stops(u64::from_le_bytes(*word));
        if stops != 0 {
            return at + stops.trailing_zeros() as usize / 8;
        }
        at += size_of::<u64>();
    }
    let is_plain = |it: &&u8| !matches!(**it, b'"' | b'\\' | ..=0x1F);
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(is_plain).count()
}

/// The high bit of the first of eight bytes that is `"`, `\` or a control
/// character, and perhaps of some behind it; 0 if none is.
const fn stops(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // Of a byte below the subtrahend the high bit is borrowed, and of no other that
    // stands before it; bytes above 0x7F had it set before.
    let quote = word ^ (ONES * 0x22);
    let escape = word ^ (ONES * 0x5C);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let found = (quote.wrapping_sub(ONES) & !quote) | (escape.wrapping_sub(ONES) & !escape);
    (found | control) & HIGH
}

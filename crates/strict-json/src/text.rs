//! White space, numbers and literals of a document.

use super::{JsonError, strings};

/// Byte that is returned after the end; not valid in JSON.
const END: u8 = 0;

/// Result of a parser step, usually the end of what was parsed. The error is boxed to
/// keep results small.
pub(super) type Scanned<T = usize> = Result<T, Box<JsonError>>;

/// Text of a document. INVARIANT: valid UTF-8.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a>(pub(super) &'a [u8]);

impl Text<'_> {
    /// Returns the position and the byte of the first non-space character from `at` on.
    #[inline]
    pub(super) fn next(self, at: usize) -> (usize, u8) {
        let first = self.byte(at);
        if first > b' ' {
            return (at, first);
        }
        // A single space is the most frequent.
        let second = self.byte(at + 1);
        if first == b' ' && second > b' ' {
            return (at + 1, second);
        }
        self.behind_white(at)
    }

    #[cold]
    #[inline(never)]
    fn behind_white(self, mut at: usize) -> (usize, u8) {
        while let b' ' | b'\n' | b'\r' | b'\t' = self.byte(at) {
            at += 1;
        }
        (at, self.byte(at))
    }

    #[inline]
    pub(super) fn byte(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(END)
    }

    /// Returns whether `at` is at or after the end of the text.
    pub(super) const fn ends_at(self, at: usize) -> bool {
        at >= self.0.len()
    }

    #[inline]
    pub(super) fn string(self, start: usize) -> Scanned {
        strings::end(self.0, start + 1).or_else(|(what, at)| wrong(what, at))
    }

    /// Parses a number, `true`, `false` or `null`.
    #[inline(never)]
    pub(super) fn literal(self, start: usize, first: u8) -> Scanned {
        match first {
            b'-' | b'0'..=b'9' => self.number(start),
            b't' => self.word(start, b"true"),
            b'f' => self.word(start, b"false"),
            b'n' => self.word(start, b"null"),
            _ => wrong("a value is missing", start),
        }
    }

    fn number(self, start: usize) -> Scanned {
        let mut at = start + usize::from(self.byte(start) == b'-');
        at = match self.byte(at) {
            b'0' => at + 1,
            _ => self.digits(at)?,
        };
        if self.byte(at) == b'.' {
            at = self.digits(at + 1)?;
        }
        if let b'e' | b'E' = self.byte(at) {
            let is_signed = matches!(self.byte(at + 1), b'+' | b'-');
            at = self.digits(at + 1 + usize::from(is_signed))?;
        }
        Ok(at)
    }

    /// Parses at least one digit.
    fn digits(self, start: usize) -> Scanned {
        let mut at = start;
        while self.byte(at).is_ascii_digit() {
            at += 1;
        }
        if at == start {
            return wrong("a number that is none", at);
        }
        Ok(at)
    }

    fn word(self, start: usize, word: &[u8]) -> Scanned {
        let end = start + word.len();
        if self.0.get(start..end) != Some(word) {
            return wrong("a value is missing", start);
        }
        Ok(end)
    }
}

#[cold]
pub(super) fn wrong<T>(what: &'static str, at: usize) -> Scanned<T> {
    Err(Box::new(JsonError::Invalid { what, at }))
}

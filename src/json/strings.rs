//! Where strings end: what stands in 64 of their bytes is found at once, for most
//! of a conversation is text.

use wide::u8x16;

/// How many bytes are looked at together.
const BLOCK: usize = 64;

/// What is wrong with a string, and where.
pub(super) type Fault = (&'static str, usize);

/// The end of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Behind its last quote.
    pub(super) at: usize,
    /// Whether nothing in it is escaped.
    pub(super) is_plain: bool,
}

/// The end of the string whose first quote stands before `start`.
pub(super) fn end(text: &[u8], start: usize) -> Result<End, Fault> {
    let rest = text.get(start..).unwrap_or_default();
    // Keys are short.
    if let Some(first) = rest.first_chunk() {
        let marks = Marks::of_few(first);
        let first = lowest(marks.quotes | marks.backslashes | marks.controls);
        if first & marks.quotes != 0 {
            let at = start + first.trailing_zeros() as usize + 1;
            return Ok(End { at, is_plain: true });
        }
    }
    Walk {
        text,
        at: start,
        is_escaped: 0,
        read: start,
        is_plain: true,
    }
    .run()
}

/// A string on the way to its end.
struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    /// 1 if the byte at `at` is escaped by the one before it.
    is_escaped: u64,
    /// Code points that are escaped were read up to here.
    read: usize,
    is_plain: bool,
}

impl Walk<'_> {
    fn run(mut self) -> Result<End, Fault> {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let mut last = [b' '; BLOCK];
            let block = match rest.first_chunk() {
                Some(block) => block,
                None if rest.is_empty() => {
                    let what = match self.is_escaped {
                        0 => "a string does not end",
                        _ => "an escape that is none",
                    };
                    return Err((what, self.text.len()));
                }
                None => {
                    let places = last.iter_mut().zip(rest);
                    places.for_each(|(place, byte)| *place = *byte);
                    &last
                }
            };
            if let Some(end) = self.take(&Marks::of(block))? {
                return Ok(end);
            }
            self.at += BLOCK;
        }
    }

    /// Reads a block: the end, if it is there.
    fn take(&mut self, marks: &Marks) -> Result<Option<End>, Fault> {
        let escaped = escaped(marks.backslashes, &mut self.is_escaped);
        let ends = marks.quotes & !escaped;
        // What is before the end, or all.
        let inner = lowest(ends).wrapping_sub(1);
        let controls = marks.controls & inner & !escaped;
        let fine = inner & lowest(controls).wrapping_sub(1);
        self.is_plain &= (marks.backslashes | escaped) & inner == 0;
        let mut rest = escaped & fine & !marks.escapable;
        while rest != 0 {
            let place = self.at + rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if !self.text.get(place).copied().is_some_and(is_short) && place >= self.read {
                self.read = after_code_point(self.text, place)?;
            }
        }
        if controls != 0 {
            let place = self.at + controls.trailing_zeros() as usize;
            return Err(("a control character in a string", place));
        }
        let end = End {
            at: self.at + ends.trailing_zeros() as usize + 1,
            is_plain: self.is_plain,
        };
        Ok((ends != 0).then_some(end))
    }
}

/// A bit for each byte, that of the first byte the lowest.
struct Marks {
    quotes: u64,
    backslashes: u64,
    /// Characters that must not be there.
    controls: u64,
    /// What most escapes consist of, behind their backslash: `\\`, `\"` and `\n`.
    escapable: u64,
}

impl Marks {
    #[inline]
    fn of(block: &[u8; BLOCK]) -> Self {
        let [mut quotes, mut backslashes, mut controls, mut escapable] = [0; 4];
        // The last bytes first: each sixteen push those behind them up.
        for few in block.as_chunks().0.iter().rev() {
            let few = Self::of_few(few);
            quotes = quotes << 16 | few.quotes;
            backslashes = backslashes << 16 | few.backslashes;
            controls = controls << 16 | few.controls;
            escapable = escapable << 16 | few.escapable;
        }
        Self {
            quotes,
            backslashes,
            controls,
            escapable,
        }
    }

    #[inline]
    fn of_few(bytes: &[u8; 16]) -> Self {
        let bytes = u8x16::new(*bytes);
        let bits = |it: u8x16| u64::from(it.to_bitmask());
        let are = |byte| bits(bytes.simd_eq(u8x16::splat(byte)));
        let (quotes, backslashes) = (are(b'"'), are(b'\\'));
        Self {
            quotes,
            backslashes,
            controls: bits(bytes.simd_eq(bytes.min(u8x16::splat(0x1F)))),
            escapable: quotes | backslashes | are(b'n'),
        }
    }
}

/// The lowest bit that is set.
#[inline]
const fn lowest(bits: u64) -> u64 {
    bits & bits.wrapping_neg()
}

/// Which bytes are escaped by the one before them. Of backslashes in a row every
/// other one is, so the rows that begin at an odd place are added to themselves:
/// what is carried out of a row says how it ends.
const fn escaped(backslashes: u64, is_first: &mut u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    if backslashes == 0 {
        return std::mem::replace(is_first, 0);
    }
    let rows = backslashes & !*is_first;
    let follows = rows << 1 | *is_first;
    let odd_rows = rows & !EVEN & !follows;
    let (sums, overflows) = odd_rows.overflowing_add(rows);
    *is_first = overflows as u64;
    (EVEN ^ (sums << 1)) & follows
}

/// Whether a character behind a backslash is all of the escape.
const fn is_short(second: u8) -> bool {
    matches!(
        second,
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'
    )
}

/// Behind an escape of one code point, whose `u` stands at `place`: `\uXXXX`, or
/// two of them.
fn after_code_point(text: &[u8], place: usize) -> Result<usize, Fault> {
    match code_unit(text, place) {
        None => Err(("an escape that is none", place)),
        Some(0xD800..=0xDBFF) => {
            let next = text.get(place + 5) == Some(&b'\\');
            match code_unit(text, place + 6).filter(|_| next) {
                Some(0xDC00..=0xDFFF) => Ok(place + 11),
                Some(_) | None => Err(("half of a surrogate pair", place + 5)),
            }
        }
        Some(0xDC00..=0xDFFF) => Err(("half of a surrogate pair", place + 5)),
        Some(_) => Ok(place + 5),
    }
}

/// `uXXXX`.
fn code_unit(text: &[u8], place: usize) -> Option<u32> {
    let escape = text.get(place..place + 5)?;
    escape
        .strip_prefix(b"u")?
        .iter()
        .try_fold(0, |unit, digit| {
            let value = char::from(*digit).to_digit(16)?;
            Some(unit * 16 + value)
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, byte by byte.
    fn slowly(text: &[u8], start: usize) -> Result<End, Fault> {
        let (mut at, mut is_plain) = (start, true);
        loop {
            match text.get(at) {
                Some(b'"') => {
                    let at = at + 1;
                    return Ok(End { at, is_plain });
                }
                Some(b'\\') => {
                    is_plain = false;
                    at = match text.get(at + 1) {
                        Some(second) if is_short(*second) => at + 2,
                        Some(_) | None => after_code_point(text, at + 1)?,
                    };
                }
                Some(..=0x1F) => return Err(("a control character in a string", at)),
                Some(_) => at += 1,
                None => return Err(("a string does not end", text.len())),
            }
        }
    }

    proptest! {
        #[test]
        fn a_string_ends_where_it_ends_byte_by_byte(
            pieces in proptest::collection::vec(
                prop_oneof![
                    8 => "[a-z\u{e9}\u{20ac}]{0,30}",
                    4 => Just("\\\\".to_owned()),
                    2 => Just("\\\"".to_owned()),
                    2 => Just("\\n".to_owned()),
                    1 => Just("\\u00e9".to_owned()),
                    1 => Just("\\ud83d\\ude00".to_owned()),
                    1 => Just("\\".to_owned()),
                    1 => Just("\"".to_owned()),
                    1 => prop::sample::select(vec!["\n", "\\u12", "\\ud800", "\\ude00", "\\x", "\0"])
                        .prop_map(str::to_owned),
                ],
                0..40,
            ),
            start in 0_usize..70,
        ) {
            let text = [" ".repeat(start), pieces.concat()].concat();
            prop_assert_eq!(end(text.as_bytes(), start), slowly(text.as_bytes(), start));
        }
    }
}

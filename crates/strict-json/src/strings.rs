//! End of a string, found 64 bytes at a time with SIMD.

use wide::u8x16;

/// Bytes that are examined together.
const BLOCK: usize = 64;

const QUOTE: u8x16 = u8x16::new([b'"'; 16]);
const BACKSLASH: u8x16 = u8x16::new([b'\\'; 16]);
const N: u8x16 = u8x16::new([b'n'; 16]);
const UNDERSCORE: u8x16 = u8x16::new([b'_'; 16]);
const SPACE: u8x16 = u8x16::new([b' '; 16]);
/// Distance from the first printable character of ASCII to the first behind the printable ones.
const PRINTABLE: u8x16 = u8x16::new([0x7F - b' '; 16]);
const LAST_CONTROL: u8x16 = u8x16::new([0x1F; 16]);

/// Reason and position of an error.
pub(super) type StringError = (&'static str, usize);

/// Returns the end of a string, closing quote included. `start` is after its opening
/// quote.
#[inline]
pub(super) fn end(text: &[u8], start: usize) -> Result<usize, StringError> {
    let stops = |bytes: u8x16| bytes.simd_eq(BACKSLASH) | controls(bytes);
    match plain_end(text, start, stops) {
        Ok(end) => Ok(end),
        Err(at) => long_end(text, at),
    }
}

/// Returns the end of a key that needs no normalization: of printable ASCII, without escapes and
/// underscores.
#[inline]
pub(super) fn plain_key_end(text: &[u8], start: usize) -> Option<usize> {
    let odd = |bytes: u8x16| bytes.simd_eq(BACKSLASH) | bytes.simd_eq(UNDERSCORE);
    plain_end(text, start, |bytes| odd(bytes) | unprintable(bytes)).ok()
}

/// Returns the end of a string without `odd` characters; else a position at or before
/// the first of them.
#[inline]
fn plain_end(
    text: &[u8],
    start: usize,
    odd: impl Fn(u8x16) -> u8x16 + Copy,
) -> Result<usize, usize> {
    // Most strings are short.
    match classify(text, start, odd) {
        Chunk16::End(end) => Ok(end),
        Chunk16::Odd => Err(start),
        Chunk16::Plain => plain_far_end(text, start + 16, odd),
    }
}

/// Continues [`plain_end`] after the first 16 bytes. Not inlined, so that the loop of
/// its caller stays small.
#[inline(never)]
fn plain_far_end(
    text: &[u8],
    start: usize,
    odd: impl Fn(u8x16) -> u8x16 + Copy,
) -> Result<usize, usize> {
    let mut at = start;
    loop {
        match classify(text, at, odd) {
            Chunk16::End(end) => return Ok(end),
            Chunk16::Odd => return Err(at),
            Chunk16::Plain => at += 16,
        }
    }
}

/// Content of 16 bytes of a string.
enum Chunk16 {
    Plain,
    Odd,
    End(usize),
}

#[inline]
fn classify(text: &[u8], at: usize, odd: impl Fn(u8x16) -> u8x16) -> Chunk16 {
    let Some(bytes) = text.get(at..).and_then(|rest| rest.first_chunk()) else {
        return Chunk16::Odd;
    };
    let bytes = u8x16::new(*bytes);
    let quotes = bytes.simd_eq(QUOTE);
    let stops = (quotes | odd(bytes)).to_bitmask();
    let first = stops.trailing_zeros();
    if stops == 0 {
        Chunk16::Plain
    } else if quotes.to_bitmask() >> first & 1 != 0 {
        Chunk16::End(at + first as usize + 1)
    } else {
        Chunk16::Odd
    }
}

/// Marks the characters that a string must not contain.
#[inline]
fn controls(bytes: u8x16) -> u8x16 {
    bytes.simd_eq(bytes.min(LAST_CONTROL))
}

/// Marks all but printable ASCII.
#[inline]
fn unprintable(bytes: u8x16) -> u8x16 {
    // Wraps around for control characters.
    let distance = bytes - SPACE;
    distance.simd_eq(distance.max(PRINTABLE))
}

/// Returns the end of a string that continues at `start`.
#[inline(never)]
fn long_end(text: &[u8], start: usize) -> Result<usize, StringError> {
    let mut walk = Walk {
        text,
        is_escaped: 0,
        read: start,
    };
    let mut at = start;
    let (blocks, rest) = text.get(start..).unwrap_or_default().as_chunks();
    for block in blocks {
        if let Some(end) = walk.take(block, at)? {
            return Ok(end);
        }
        at += BLOCK;
    }
    let mut last = [b' '; BLOCK];
    for (place, byte) in last.iter_mut().zip(rest) {
        *place = *byte;
    }
    match walk.take(&last, at)? {
        Some(end) => Ok(end),
        None => Err(("a string does not end", text.len())),
    }
}

/// State of a string that is longer than a block.
struct Walk<'a> {
    text: &'a [u8],
    /// 1 if the first byte of the next block is escaped.
    is_escaped: u64,
    /// End of the last `\u` escape that was checked.
    read: usize,
}

impl Walk<'_> {
    /// Processes the block at `at`; returns the end of the string if it is in the
    /// block.
    #[inline]
    fn take(&mut self, block: &[u8; BLOCK], at: usize) -> Result<Option<usize>, StringError> {
        let block = Block::of(block);
        let quotes = block.equal(QUOTE);
        let backslashes = block.equal(BACKSLASH);
        let escaped = escaped(backslashes, &mut self.is_escaped);
        let ends = quotes & !escaped;
        // Quotes, backslashes and line breaks are the most frequent escapes.
        let odd = escaped & !(quotes | backslashes | block.equal(N));
        if ends | odd | block.has_control() == 0 {
            return Ok(None);
        }
        // The bits before the end of the string.
        let inner = lowest(ends).wrapping_sub(1);
        let (odd, controls) = (odd & inner, block.controls() & inner & !escaped);
        if odd | controls != 0 {
            self.read = check(self.text, at, odd, controls, self.read)?;
        }
        let end = at + ends.trailing_zeros() as usize + 1;
        Ok((ends != 0).then_some(end))
    }
}

/// Checks the other escapes of the block at `at`, and its control characters. Returns
/// the end of the last `\u` escape.
#[cold]
fn check(
    text: &[u8],
    at: usize,
    odd: u64,
    controls: u64,
    read: usize,
) -> Result<usize, StringError> {
    let mut read = read;
    let mut rest = odd & lowest(controls).wrapping_sub(1);
    while rest != 0 {
        let place = at + rest.trailing_zeros() as usize;
        rest &= rest - 1;
        if !text.get(place).copied().is_some_and(is_short) && place >= read {
            read = after_code_point(text, place)?;
        }
    }
    if controls == 0 {
        return Ok(read);
    }
    let place = at + controls.trailing_zeros() as usize;
    Err(("a control character in a string", place))
}

/// A block in four SIMD registers.
struct Block([u8x16; 4]);

impl Block {
    #[inline]
    fn of(bytes: &[u8; BLOCK]) -> Self {
        let mut block = Self([u8x16::ZERO; 4]);
        if let ([first, second, third, last], []) = bytes.as_chunks() {
            block.0 = [
                u8x16::new(*first),
                u8x16::new(*second),
                u8x16::new(*third),
                u8x16::new(*last),
            ];
        }
        block
    }

    /// Returns a bit for each byte that equals `byte`; the lowest is that of the first
    /// byte.
    #[inline]
    fn equal(&self, byte: u8x16) -> u64 {
        self.bits(|part| part.simd_eq(byte))
    }

    /// Returns a bit for each character that a string must not contain.
    fn controls(&self) -> u64 {
        self.bits(controls)
    }

    /// Returns a value other than 0 if the block has a control character.
    #[inline]
    fn has_control(&self) -> u64 {
        let [first, second, third, last] = self.0;
        let lowest = first.min(second).min(third.min(last));
        u64::from(controls(lowest).to_bitmask())
    }

    #[inline]
    fn bits(&self, find: impl Fn(u8x16) -> u8x16) -> u64 {
        let [first, second, third, last] = self.0;
        let bits = |part| u64::from(find(part).to_bitmask());
        bits(first) | bits(second) << 16 | bits(third) << 32 | bits(last) << 48
    }
}

/// Returns the lowest bit that is set.
#[inline]
const fn lowest(bits: u64) -> u64 {
    bits & bits.wrapping_neg()
}

/// Returns a bit for each byte that is escaped by the previous one. `is_first` is the
/// state before the first byte, and after the last one on return. Every other backslash
/// of a sequence escapes. As in simdjson, the subtraction borrows through each
/// sequence; what then differs from the odd positions is the backslashes that escape
/// and the byte that the last of a sequence escapes.
#[inline]
const fn escaped(backslashes: u64, is_first: &mut u64) -> u64 {
    const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
    let rows = backslashes & !*is_first;
    let escaping = (rows << 1 | ODD).wrapping_sub(rows) ^ ODD;
    let escaped = escaping ^ (backslashes | *is_first);
    *is_first = (escaping & backslashes) >> 63;
    escaped
}

/// Returns whether an escape consists of a backslash and this character only.
const fn is_short(second: u8) -> bool {
    matches!(
        second,
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'
    )
}

/// Returns the end of a `\uXXXX` escape, or of a surrogate pair of two. `place` is the
/// position of its `u`.
fn after_code_point(text: &[u8], place: usize) -> Result<usize, StringError> {
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

/// Returns the code unit of `uXXXX` at `place`.
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

    /// Reference implementation, byte by byte.
    fn reference_end(text: &[u8], start: usize) -> Result<usize, StringError> {
        let mut at = start;
        loop {
            match text.get(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => {
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
        fn strings_end_where_the_reference_implementation_finds_their_end(
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
            let expected = reference_end(text.as_bytes(), start);
            prop_assert_eq!(end(text.as_bytes(), start), expected);
        }

        #[test]
        fn a_plain_key_is_printable_ascii_without_escapes_and_underscores(
            text in "[a-z_\\\\\u{e9}\u{1}\u{7f}\"]{0,24}",
            start in 0_usize..20,
            behind in 0_usize..20,
        ) {
            let text = [" ".repeat(start), text, " ".repeat(behind)].concat();
            if let Some(end) = plain_key_end(text.as_bytes(), start) {
                prop_assert_eq!(Ok(end), reference_end(text.as_bytes(), start));
                let key = text.get(start..end - 1);
                let is_odd =
                    |key: &str| !key.is_ascii() || key.contains(['\\', '_', '\u{1}', '\u{7f}']);
                prop_assert_eq!(key.map(is_odd), Some(false));
            }
        }
    }
}

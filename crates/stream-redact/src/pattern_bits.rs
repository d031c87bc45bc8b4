//! Sets of patterns as bits, and tables from bytes to such sets.

/// Set of patterns, one bit each.
pub(super) type Bits = u64;

/// The set of all patterns.
pub(super) const ALL: Bits = Bits::MAX;

/// Bytes that are examined at an offset: the one before it, and the first ones of a
/// match.
pub(super) const EXAMINED_BYTES: usize = 8;

/// Returns the bit of a pattern. All patterns beyond the 63rd share the last bit.
pub(super) fn bit(rule: usize) -> Bits {
    1 << rule.min(63)
}

/// Returns the indices of the patterns in a set; `all` is the number of patterns.
pub(super) fn rules(mut bits: Bits, all: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        match bit {
            64 => None,
            63 => Some(63..all),
            _ => Some(bit..bit + 1),
        }
    })
    .flatten()
}

/// For each byte value, the patterns it allows at one position.
#[derive(Debug)]
pub(super) struct Table(pub(super) [Bits; 256]);

impl Table {
    pub(super) fn of(&self, byte: u8) -> Bits {
        self.0.get(usize::from(byte)).copied().unwrap_or_default()
    }

    pub(super) fn let_through(&mut self, bit: Bits, may_pass: impl Fn(u8) -> bool) {
        for (byte, bits) in (0..=u8::MAX).zip(&mut self.0) {
            if may_pass(byte) {
                *bits |= bit;
            }
        }
    }
}

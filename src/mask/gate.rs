//! Where a match may begin: the byte before a place and the four after it tell
//! it for all rules at once. Ordinary text costs three look-ups a byte.

use std::ops::Range;

use super::{rule::Rule, view::View};

/// The rules that a byte lets through, one bit each.
pub(super) type Bits = u64;

/// Every rule.
pub(super) const ALL: Bits = Bits::MAX;

/// The bit of a rule. All that are too many share the last one.
pub(super) fn bit(rule: usize) -> Bits {
    1 << rule.min(63)
}

/// The rules that some bits stand for, if there are so many in all.
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

/// For each byte the rules that it lets through, by where it stands.
#[derive(Debug)]
pub(super) struct Gate {
    /// Before a match.
    before: Table,
    first: Table,
    second: Table,
    /// These two only where the others let something through.
    third: Table,
    fourth: Table,
}

impl Gate {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let [mut before, mut first, mut second, mut third, mut fourth] =
            [(); 5].map(|()| Table([0; 256]));
        for (at, rule) in rules.iter().enumerate() {
            let bit = bit(at);
            let [one, two, three, four] = rule.opening();
            before.let_through(bit, |byte| rule.may_follow(byte));
            first.let_through(bit, |byte| one.contains(&byte));
            second.let_through(bit, |byte| two.contains(&byte));
            third.let_through(bit, |byte| three.contains(&byte));
            fourth.let_through(bit, |byte| four.contains(&byte));
        }
        Self {
            before,
            first,
            second,
            third,
            fourth,
        }
    }

    /// The next place in a range where one of the wanted rules may begin, and
    /// which may.
    pub(super) fn next(
        &self,
        view: View<'_>,
        range: Range<usize>,
        wanted: Bits,
    ) -> Option<(usize, Bits)> {
        let mut at = range.start;
        while at < range.end {
            // Where the view begins there is nothing before.
            if at > view.base() {
                at += self.skip(view.bytes(at - 1..range.end), wanted);
            }
            let hits = self.at(view, at) & wanted;
            if hits != 0 {
                return Some((at, hits));
            }
            at += 1;
        }
        None
    }

    /// How many bytes after the first let nothing through, with those beside
    /// them. The last is not looked at.
    fn skip(&self, bytes: &[u8], wanted: Bits) -> usize {
        let is_hit = |[before, first, second]: &[u8; 3]| {
            let hits = self.before.of(*before) & self.first.of(*first) & self.second.of(*second);
            hits & wanted != 0
        };
        let mut windows = bytes.array_windows();
        windows
            .position(is_hit)
            .unwrap_or(bytes.len().saturating_sub(2))
    }

    /// The rules that may begin at a place.
    fn at(&self, view: View<'_>, at: usize) -> Bits {
        let before = at.checked_sub(1).and_then(|it| view.byte(it));
        let before = before.map_or(ALL, |it| self.before.of(it));
        let tables = [&self.first, &self.second, &self.third, &self.fourth];
        let bytes = view.bytes(at..view.end().min(at + tables.len()));
        let bits = tables.iter().zip(bytes);
        bits.fold(before, |bits, (table, byte)| bits & table.of(*byte))
    }
}

#[derive(Debug)]
struct Table([Bits; 256]);

impl Table {
    fn of(&self, byte: u8) -> Bits {
        self.0.get(usize::from(byte)).copied().unwrap_or_default()
    }

    fn let_through(&mut self, bit: Bits, may_pass: impl Fn(u8) -> bool) {
        for (byte, bits) in (0..=u8::MAX).zip(&mut self.0) {
            if may_pass(byte) {
                *bits |= bit;
            }
        }
    }
}

//! Prefilter that reads a text once, with a few instructions per byte, and returns the
//! offsets at which a match may begin.
//!
//! Patterns are merged into eight groups. For each byte value, a 64-bit number has one
//! bit for each group and each of eight positions: whether the byte excludes the group
//! at that position. Shifting and combining the numbers of adjacent bytes gives the
//! groups that are excluded at an offset (as in the Teddy and shift-or algorithms).

use std::{collections::BTreeMap, ops::Range};

use super::{
    pattern_bits::{Bits, EXAMINED_BYTES, Table},
    window::MaskWindow,
};

/// Number of groups: one bit each in a byte of a number.
const GROUPS: usize = 8;

/// Initial states that exclude offsets before the text; at its start, the byte before a
/// match is missing.
const AFTER_A_BYTE: u64 = 0x00ff_ffff_ffff_ffff;
const AT_THE_BEGINNING: u64 = 0x0000_ffff_ffff_ffff;

/// Finds offsets at which a match may begin.
#[derive(Debug)]
pub(super) struct Prefilter {
    /// For each byte value, what it excludes. The lowest byte is for the last of the
    /// examined positions.
    out: [u64; 256],
}

impl Prefilter {
    /// Creates a prefilter from the tables of each examined position.
    pub(super) fn new(tables: &[Table; EXAMINED_BYTES]) -> Self {
        let groups = groups(tables);
        let mut out = [0; 256];
        for (byte, out) in (0..=u8::MAX).zip(&mut out) {
            *out = ruled_out(tables, &groups, byte);
        }
        Self { out }
    }

    /// Passes the offsets of a range at which a match may begin to `take`, in order,
    /// until it returns `true`.
    pub(super) fn find(
        &self,
        view: MaskWindow<'_>,
        range: Range<usize>,
        mut take: impl FnMut(usize) -> bool,
    ) {
        let first = range.start.saturating_sub(1).max(view.base());
        let bytes = view.bytes(first..view.end().min(range.end + EXAMINED_BYTES - 2));
        let mut carry = if first < range.start {
            AFTER_A_BYTE
        } else {
            AT_THE_BEGINNING
        };
        // An offset is decided when the last of its bytes was read.
        let mut at = first;
        let mut takes = |out: u64, at: usize| {
            let mut places =
                lanes(!out).filter_map(|lane| (at + lane).checked_sub(EXAMINED_BYTES - 2));
            places.any(|place| range.contains(&place) && take(place))
        };
        let (blocks, rest) = bytes.as_chunks::<EXAMINED_BYTES>();
        for block in blocks {
            let (out, next) = self.put_together(carry, block);
            if out != u64::MAX && takes(out, at) {
                return;
            }
            (carry, at) = (next, at + EXAMINED_BYTES);
        }
        // Nothing is excluded after the end of the text.
        for block in [rest, &[]] {
            let (out, next) = self.put_together(carry, block);
            if takes(out, at) {
                return;
            }
            (carry, at) = (next, at + EXAMINED_BYTES);
        }
    }

    /// Returns what is excluded at the offsets that end in this block, and the state
    /// for the next block.
    #[inline]
    fn put_together(&self, carry: u64, block: &[u8]) -> (u64, u64) {
        let out = |byte: &u8| self.out.get(usize::from(*byte)).copied();
        let all = block
            .iter()
            .zip(0..)
            .fold(u128::from(carry), |all, (byte, number)| {
                all | u128::from(out(byte).unwrap_or_default()) << (number * 8)
            });
        #[expect(clippy::cast_possible_truncation, reason = "its halves are wanted")]
        let halves = (all as u64, (all >> 64) as u64);
        halves
    }
}

/// Returns the number of a byte value.
fn ruled_out(tables: &[Table; EXAMINED_BYTES], groups: &[Bits], byte: u8) -> u64 {
    let passes = groups.iter().enumerate().flat_map(|(number, group)| {
        let places = tables.iter().rev().enumerate();
        let passing = places.filter(move |(_, table)| table.of(byte) & group != 0);
        passing.map(move |(place, _)| place * GROUPS + number)
    });
    passes.fold(u64::MAX, |out, bit| out & !(1 << bit))
}

/// Returns the indices of the bytes that are not zero.
fn lanes(mut number: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = number.trailing_zeros() / 8;
        number &= !(0xff_u64.checked_shl(lane * 8)?);
        Some(lane as usize)
    })
}

/// For each set of patterns that a position allows, its number of byte values.
type Counts = BTreeMap<Bits, u32>;

/// Returns the share of random text that passes a group.
fn share(counts: &[Counts; EXAMINED_BYTES], group: Bits) -> f64 {
    let shares = counts.iter().map(|counts| {
        let passing = counts.iter().filter(|(allowed, _)| **allowed & group != 0);
        f64::from(passing.map(|(_, count)| count).sum::<u32>()) / 256.0
    });
    shares.product()
}

/// Merges patterns into groups, first those whose union lets through little more than
/// each of them.
fn groups(tables: &[Table; EXAMINED_BYTES]) -> Vec<Bits> {
    let counts = &tables.each_ref().map(|table| {
        let mut counts = Counts::new();
        for allowed in table.0 {
            *counts.entry(allowed).or_default() += 1;
        }
        counts
    });
    let used = counts[1].keys().fold(0, |used, allowed| used | allowed);
    let patterns = (0..64).map(|bit| 1 << bit);
    let mut groups: Vec<Bits> = patterns.filter(|pattern| used & pattern != 0).collect();
    while groups.len() > GROUPS {
        let shares = groups.iter().map(|group| share(counts, *group));
        let shares: Vec<f64> = shares.collect();
        let all = groups.iter().zip(&shares).enumerate();
        let pairs = all.clone().flat_map(|(at, (one, alone))| {
            let others = all.clone().skip(at + 1);
            others.map(move |(other_at, (other, other_alone))| {
                let cost = share(counts, one | other) - alone - other_alone;
                (cost, at, other_at)
            })
        });
        let Some((_, one, other)) = pairs.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            break;
        };
        let other = groups.swap_remove(other);
        if let Some(one) = groups.get_mut(one) {
            *one |= other;
        }
    }
    groups
}

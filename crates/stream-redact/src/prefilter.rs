//! Prefilter that reads a text once, with a few instructions per byte, and returns the
//! offsets at which a match may begin.
//!
//! Patterns are merged into eight groups. For each byte value, a 64-bit number has one
//! bit for each group and each of eight positions: whether the byte excludes the group
//! at that position. Shifting and combining the numbers of adjacent bytes gives the
//! groups that are excluded at an offset (as in the Teddy and shift-or algorithms).

use std::ops::Range;

use super::{
    pattern_bits::{EXAMINED_BYTES, Table},
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
            *out = ruled_out(&groups, byte);
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
fn ruled_out(groups: &[Group], byte: u8) -> u64 {
    let passes = groups.iter().enumerate().flat_map(|(number, group)| {
        let places = group.places.iter().rev().enumerate();
        let passing = places.filter(|(_, bytes)| bytes.has(byte));
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

/// Patterns that are searched together.
#[derive(Debug, Clone)]
struct Group {
    places: [Bytes; EXAMINED_BYTES],
}

impl Group {
    fn with(&self, other: &Self) -> Self {
        let mut places = self.places.clone();
        for (bytes, more) in places.iter_mut().zip(&other.places) {
            bytes.add(more);
        }
        Self { places }
    }

    /// Returns the share of random text that passes.
    fn share(&self) -> f64 {
        let shares = self
            .places
            .iter()
            .map(|bytes| f64::from(bytes.count()) / 256.0);
        shares.product()
    }
}

/// Set of byte values.
#[derive(Debug, Clone, Default)]
struct Bytes([u128; 2]);

impl Bytes {
    fn has(&self, byte: u8) -> bool {
        let half = self.0.get(usize::from(byte >> 7));
        half.is_some_and(|bits| bits >> (byte & 0x7f) & 1 == 1)
    }

    fn insert(&mut self, byte: u8) {
        if let Some(half) = self.0.get_mut(usize::from(byte >> 7)) {
            *half |= 1 << (byte & 0x7f);
        }
    }

    fn add(&mut self, other: &Self) {
        for (half, more) in self.0.iter_mut().zip(other.0) {
            *half |= more;
        }
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|half| half.count_ones()).sum()
    }
}

/// Merges patterns into groups, first those whose union lets through little more than
/// each of them.
fn groups(tables: &[Table; EXAMINED_BYTES]) -> Vec<Group> {
    let used = (0..=u8::MAX).fold(0, |used, byte| used | tables[1].of(byte));
    let group = |bit: u32| {
        let places = tables.each_ref().map(|table| {
            let mut bytes = Bytes::default();
            let passing = (0..=u8::MAX).filter(|byte| table.of(*byte) >> bit & 1 == 1);
            passing.for_each(|byte| bytes.insert(byte));
            bytes
        });
        Group { places }
    };
    let mut groups: Vec<Group> = (0..64)
        .filter(|bit| used >> bit & 1 == 1)
        .map(group)
        .collect();
    while groups.len() > GROUPS {
        let costs = |(at, one): (usize, &Group)| {
            let others = groups.iter().enumerate().skip(at + 1);
            let cost = move |(other_at, other): (usize, &Group)| {
                let cost = one.with(other).share() - one.share() - other.share();
                (cost, at, other_at)
            };
            others.map(cost).collect::<Vec<_>>()
        };
        let pairs = groups.iter().enumerate().flat_map(costs);
        let Some((_, one, other)) = pairs.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            break;
        };
        let other = groups.swap_remove(other);
        if let Some(one) = groups.get_mut(one) {
            *one = one.with(&other);
        }
    }
    groups
}

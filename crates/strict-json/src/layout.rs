//! Where the values of a document stand, so that whoever asks for one of them need
//! not look for it again.

use std::ops::Range;

/// How many values a short document has.
const FEW: usize = 32;

/// How many bytes most documents have, or more, to a value that is taken down.
const BYTES: usize = 64;

/// Where the values of a document stand. A value is known by its number; that of
/// the document is 0.
#[derive(Debug, Default)]
pub struct Layout {
    /// Each value before those in it.
    values: Vec<Value>,
    /// In how many depths values are taken down; the document is in the first.
    depths: usize,
}

/// Where something stands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    start: u32,
    end: u32,
}

impl Place {
    /// INVARIANT: no document is longer than 4 GiB.
    #[inline]
    pub(super) const fn new(start: usize, end: usize) -> Self {
        let (start, end) = (short(start), short(end));
        Self { start, end }
    }

    #[inline]
    pub(super) const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "no document is longer than 4 GiB, nor has more values"
)]
#[inline]
const fn short(place: usize) -> u32 {
    place as u32
}

#[derive(Debug, Clone, Copy)]
struct Value {
    place: Place,
    /// Its key, in quotes; empty if it has none.
    key: Place,
    /// The number of the value after it and all that is in it.
    next: u32,
    /// Whether what is in it was taken down.
    is_open: bool,
}

impl Layout {
    /// None yet, of a text so long.
    pub(super) fn new(deepest: usize, length: usize) -> Self {
        let values = Vec::with_capacity(FEW.max(length / BYTES));
        let depths = deepest + 1;
        Self { values, depths }
    }

    /// A value, so deep, that is all there, but for what is in it. Its number, if it is
    /// taken down.
    #[inline]
    pub(super) fn add(&mut self, place: Place, key: Place, depth: usize) -> Option<u32> {
        if depth >= self.depths {
            return None;
        }
        let number = short(self.values.len());
        self.values.push(Value {
            place,
            key,
            next: number + 1,
            is_open: depth + 1 < self.depths,
        });
        Some(number)
    }

    /// All that is in it was taken down, too, and it ends.
    #[inline]
    pub(super) fn end(&mut self, number: Option<u32>, end: usize) {
        let next = short(self.values.len());
        let value = number.and_then(|it| self.values.get_mut(it as usize));
        if let Some(value) = value {
            (value.place.end, value.next) = (short(end), next);
        }
    }

    /// The numbers of the values in an array or an object; none if that is not
    /// known.
    pub fn within(&self, number: usize) -> Option<impl Iterator<Item = usize> + Clone> {
        let value = self.values.get(number).filter(|it| it.is_open)?;
        let (mut at, end) = (number + 1, value.next as usize);
        Some(std::iter::from_fn(move || {
            let found = self.values.get(at).filter(|_| at < end)?;
            let number = at;
            at = found.next as usize;
            Some(number)
        }))
    }

    /// Where a value stands.
    pub fn place(&self, number: usize) -> Option<Range<usize>> {
        self.values.get(number).map(|it| it.place.range())
    }

    /// Where its key stands, in quotes.
    pub fn key(&self, number: usize) -> Option<Range<usize>> {
        self.values.get(number).map(|it| it.key.range())
    }
}

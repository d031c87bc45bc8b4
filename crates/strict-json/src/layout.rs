//! Positions of the values of a document, recorded while it is checked.

use std::ops::Range;

use super::MAX_VALUES;

/// Capacity for the values of a short document.
const MIN_VALUES_CAPACITY: usize = 32;

/// Bytes per recorded value in most documents, for the initial capacity.
const BYTES_PER_VALUE: usize = 64;

/// Positions of the values of a document. A value is identified by its index; the
/// document itself has index 0.
#[derive(Debug, Default)]
pub struct Layout {
    /// In document order: each value precedes the values nested in it.
    values: Vec<Value>,
    /// Number of recorded nesting levels, the document included.
    depths: usize,
    /// Number of all values, recorded or not.
    pub(super) total: usize,
    /// True if the text has more values than a layout.
    pub(super) is_full: bool,
    /// True if a key at any depth has escapes.
    pub(super) has_escaped_keys: bool,
}

/// Start and end of a range of bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    start: u32,
    end: u32,
}

impl Position {
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
    place: Position,
    /// Position of its key, quotes included; empty without a key.
    key: Position,
    /// Index of the value after it and everything nested in it.
    next: u32,
    /// True if nested values are recorded.
    is_open: bool,
}

impl Layout {
    /// Creates an empty layout for a text of `length` bytes.
    pub(super) fn new(deepest: usize, length: usize) -> Self {
        let capacity = (length / BYTES_PER_VALUE).clamp(MIN_VALUES_CAPACITY, MAX_VALUES);
        let values = Vec::with_capacity(capacity);
        Self {
            values,
            depths: deepest + 1,
            total: 0,
            is_full: false,
            has_escaped_keys: false,
        }
    }

    /// Adds a value without its nested values. Returns its index, or `None` if it is not
    /// recorded, because of its depth or because the layout is full.
    #[inline]
    pub(super) fn add(&mut self, place: Position, key: Position, depth: usize) -> Option<u32> {
        self.total += 1;
        if depth >= self.depths {
            return None;
        }
        if self.values.len() == MAX_VALUES {
            self.is_full = true;
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

    /// Sets the end of a value, after its nested values were added.
    #[inline]
    pub(super) fn end(&mut self, number: Option<u32>, end: usize) {
        let next = short(self.values.len());
        let value = number.and_then(|number| self.values.get_mut(number as usize));
        if let Some(value) = value {
            (value.place.end, value.next) = (short(end), next);
        }
    }

    /// Returns the indices of the elements of an array or the values of an object;
    /// `None` if they were not recorded.
    #[inline]
    pub fn within(&self, number: usize) -> Option<Within<'_>> {
        let value = self.values.get(number).filter(|value| value.is_open)?;
        Some(Within {
            values: self.values.get(..value.next as usize)?,
            at: number + 1,
        })
    }

    /// Returns the number of recorded values within a value, itself included.
    pub(super) fn size(&self, number: usize) -> usize {
        let value = self.values.get(number);
        value.map_or(0, |value| value.next as usize - number)
    }

    /// Returns the number of recorded values `levels` below a value.
    pub(super) fn count(&self, number: usize, levels: usize) -> usize {
        let Some(levels) = levels.checked_sub(1) else {
            return 1;
        };
        let within = self.within(number).unwrap_or_default();
        within.map(|index| self.count(index, levels)).sum()
    }

    /// Returns the position of a value.
    #[inline]
    pub fn place(&self, number: usize) -> Option<Range<usize>> {
        self.values.get(number).map(|value| value.place.range())
    }

    /// Returns the position of a value's key, quotes included.
    #[inline]
    pub fn key(&self, number: usize) -> Option<Range<usize>> {
        self.values.get(number).map(|value| value.key.range())
    }
}

/// Indices of the elements of an array or the values of an object.
#[derive(Debug, Clone, Default)]
pub struct Within<'a> {
    /// The values up to the last one within.
    values: &'a [Value],
    /// Index of the next one.
    at: usize,
}

impl Iterator for Within<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let number = self.at;
        self.at = self.values.get(number)?.next as usize;
        Some(number)
    }
}

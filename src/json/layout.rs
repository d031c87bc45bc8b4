//! Where the values of a document stand, so that whoever asks for one of them need
//! not look for it again.

use std::ops::Range;

/// How many values a short document has.
const FEW: usize = 32;

/// About how many bytes there are to a value.
const BYTES: usize = 128;

/// Where the values of a document stand. A value is known by its number; that of
/// the document is 0.
#[derive(Debug, Default)]
pub struct Layout {
    /// Each value before those in it.
    values: Vec<Value>,
    /// How deep values are taken down; the document is 0.
    deepest: usize,
}

#[derive(Debug, Clone, Copy)]
struct Value {
    start: u32,
    end: u32,
    /// Its key, in quotes; empty if it has none.
    key: (u32, u32),
    /// The number of the value after it and all that is in it.
    next: u32,
    /// Whether what is in it was taken down.
    is_open: bool,
}

impl Layout {
    /// None yet, of a text so long.
    pub(super) fn new(deepest: usize, length: usize) -> Self {
        let values = Vec::with_capacity(FEW.max(length / BYTES));
        Self { values, deepest }
    }

    /// A value begins, so deep. Its number, if it is taken down.
    #[inline]
    pub(super) fn begin(&mut self, start: usize, key: Range<usize>, depth: usize) -> Option<usize> {
        if depth > self.deepest {
            return None;
        }
        let number = self.values.len();
        self.values.push(Value {
            start: short(start)?,
            end: 0,
            key: (short(key.start)?, short(key.end)?),
            next: 0,
            is_open: depth < self.deepest,
        });
        Some(number)
    }

    /// It ends.
    #[inline]
    pub(super) fn end(&mut self, number: Option<usize>, end: usize) {
        let next = short(self.values.len());
        let value = number.and_then(|it| self.values.get_mut(it));
        if let (Some(value), Some(end), Some(next)) = (value, short(end), next) {
            (value.end, value.next) = (end, next);
        }
    }

    /// The numbers of the values in an array or an object; none if that is not
    /// known.
    pub fn within(&self, number: usize) -> Option<impl Iterator<Item = usize>> {
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
        let value = self.values.get(number)?;
        Some(value.start as usize..value.end as usize)
    }

    /// Where its key stands, in quotes.
    pub fn key(&self, number: usize) -> Option<Range<usize>> {
        let value = self.values.get(number)?;
        Some(value.key.0 as usize..value.key.1 as usize)
    }
}

/// No document is longer than 4 GiB; what is, has no layout.
fn short(place: usize) -> Option<u32> {
    u32::try_from(place).ok()
}

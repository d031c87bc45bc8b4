//! The chunks of a streamed response over time, in a bounded number of spans.

use serde::Serialize;
use utoipa::ToSchema;

/// Spans of one response. When there are more, neighbours are merged.
const MAX_SPANS: usize = 64;

/// Spans for which memory is reserved at first.
const MIN_CAPACITY: usize = 4;

/// Microseconds in which chunks are merged into one span at first.
const MIN_SPAN_US: u32 = 20_000;

/// The chunks of a streamed response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChunkStrip {
    /// Spans of time in which chunks arrived, in order.
    pub spans: Vec<ChunkSpan>,
    /// Number of chunks of the model.
    pub chunks: u64,
    /// Bytes of the model's chunks.
    pub received_bytes: u64,
    /// Largest number of bytes that were held back at once.
    pub max_held_bytes: u64,
    /// Number of chunks that were edited.
    pub edited: u64,
    /// Chunks within this time are one span.
    #[serde(skip)]
    span_us: u32,
}

/// Chunks that arrived close to each other. Times are microseconds since the exchange's begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChunkSpan {
    /// Time of the first chunk.
    pub from_us: u32,
    /// Time of the last chunk.
    pub to_us: u32,
    /// Number of chunks in the span.
    pub chunks: u32,
    /// Bytes of these chunks.
    pub received_bytes: u32,
    /// Bytes of the response that were held back after the last of them.
    pub held_bytes: u32,
    /// Number of chunks that were edited.
    pub edited: u32,
}

impl ChunkStrip {
    /// Returns whether there were no chunks.
    pub const fn is_empty(&self) -> bool {
        self.chunks == 0
    }

    /// Adds a chunk, whose span begins and ends at the same time.
    pub(crate) fn push(&mut self, chunk: ChunkSpan) {
        self.count(chunk);
        let span_us = self.span_us.max(MIN_SPAN_US);
        if self.spans.capacity() == 0 {
            self.spans.reserve_exact(MIN_CAPACITY);
        }
        match self.spans.last_mut() {
            Some(last) if chunk.from_us.saturating_sub(last.from_us) < span_us => {
                last.extend(chunk);
            }
            _ => self.spans.push(chunk),
        }
        if self.spans.len() > MAX_SPANS {
            self.span_us = span_us.saturating_mul(2);
            self.halve();
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<ChunkSpan>()
    }

    /// Returns the bytes by which the spans grow with the next chunk, at most.
    pub(crate) fn next_growth(&self) -> usize {
        if self.spans.len() < self.spans.capacity() {
            return 0;
        }
        // A vector doubles its capacity.
        self.spans.capacity().max(MIN_CAPACITY) * size_of::<ChunkSpan>()
    }

    /// Counts a chunk whose time is not kept.
    pub(crate) fn count(&mut self, chunk: ChunkSpan) {
        self.chunks += u64::from(chunk.chunks);
        self.received_bytes += u64::from(chunk.received_bytes);
        self.edited += u64::from(chunk.edited);
        self.max_held_bytes = self.max_held_bytes.max(chunk.held_bytes.into());
    }

    fn halve(&mut self) {
        let mut merged: Vec<ChunkSpan> = Vec::with_capacity(self.spans.len());
        for (index, span) in self.spans.drain(..).enumerate() {
            match merged.last_mut() {
                Some(last) if !index.is_multiple_of(2) => last.extend(span),
                _ => merged.push(span),
            }
        }
        self.spans = merged;
    }
}

impl ChunkSpan {
    const fn extend(&mut self, next: Self) {
        self.to_us = next.to_us;
        self.chunks = self.chunks.saturating_add(next.chunks);
        self.received_bytes = self.received_bytes.saturating_add(next.received_bytes);
        self.held_bytes = next.held_bytes;
        self.edited = self.edited.saturating_add(next.edited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stream_has_few_spans_that_cover_all_of_it() {
        let mut strip = ChunkStrip::default();

        for number in 0..10_000_u32 {
            let at = number * 30_000;
            let bound = strip.heap_bytes() + strip.next_growth();
            strip.push(ChunkSpan {
                from_us: at,
                to_us: at,
                chunks: 1,
                received_bytes: 10,
                held_bytes: number % 7,
                edited: u32::from(number == 5),
            });
            assert!(strip.heap_bytes() <= bound, "{number}");
        }

        assert!(strip.spans.len() <= MAX_SPANS, "{}", strip.spans.len());
        assert!(strip.heap_bytes() <= 2 * MAX_SPANS * size_of::<ChunkSpan>());
        assert_eq!((strip.chunks, strip.received_bytes), (10_000, 100_000));
        assert_eq!((strip.max_held_bytes, strip.edited), (6, 1));
        let sum: u32 = strip.spans.iter().map(|span| span.chunks).sum();
        assert_eq!(sum, 10_000);
        assert_eq!(strip.spans.last().unwrap().to_us, 9_999 * 30_000);
    }
}

//! Sizes of strings in memory.

use compact_str::CompactString;

/// Returns the bytes that a string owns outside of itself.
pub(crate) fn heap_bytes(text: &CompactString) -> usize {
    if text.is_heap_allocated() {
        text.capacity()
    } else {
        0
    }
}

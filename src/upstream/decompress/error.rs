//! Reasons why a compressed body cannot be decoded.

use thiserror::Error;

/// Reasons why a body cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecompressError {
    /// The decoded bytes exceed the limit.
    #[error("more than {0} bytes after decompression")]
    TooLarge(usize),
    /// The bytes are not exactly one member or frame.
    #[error("invalid compressed data")]
    Invalid,
}

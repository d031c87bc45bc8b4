//! Zstandard: the result is the same for every chunk size, and never exceeds the limit. Input:
//! the chunk size, then the frame.

use bytes::Bytes;
use hookgate::upstream::decompress::{BoundedUnzstd, DecompressError};

const LIMIT: usize = 64 * 1024;

pub fn run(bytes: &[u8]) {
    let Some((size, frame)) = bytes.split_first() else {
        return;
    };
    let whole = decode([frame]);
    let chunked = decode(frame.chunks(usize::from(*size).max(1)));
    assert_eq!(whole.is_ok(), chunked.is_ok(), "{whole:?} {chunked:?}");
    if let (Ok(whole), Ok(chunked)) = (whole, chunked) {
        assert!(whole == chunked && whole.len() <= LIMIT);
    }
}

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Bytes, DecompressError> {
    let mut unzstd = BoundedUnzstd::new(LIMIT)?;
    for piece in pieces {
        unzstd.push(piece)?;
    }
    unzstd.finish()
}

//! Gzip: the result is the same for every chunk size, and never exceeds the limit. Input: the
//! chunk size, then the gzip data.

use bytes::Bytes;
use hookgate::upstream::decompress::{BoundedGunzip, DecompressError};

const LIMIT: usize = 64 * 1024;

pub fn run(bytes: &[u8]) {
    let Some((size, gzip)) = bytes.split_first() else {
        return;
    };
    let whole = decode([gzip]);
    let chunked = decode(gzip.chunks(usize::from(*size).max(1)));
    assert_eq!(whole.is_ok(), chunked.is_ok(), "{whole:?} {chunked:?}");
    if let (Ok(whole), Ok(chunked)) = (whole, chunked) {
        assert!(whole == chunked && whole.len() <= LIMIT);
    }
}

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Bytes, DecompressError> {
    let mut gunzip = BoundedGunzip::new(LIMIT);
    for piece in pieces {
        gunzip.push(piece)?;
    }
    gunzip.finish()
}

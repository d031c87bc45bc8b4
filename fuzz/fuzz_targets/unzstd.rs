//! Zstandard: every way of cutting it comes to the same, and never to more than there is room
//! for. Input: where to cut, then the frame.

#![no_main]

use bytes::Bytes;
use hookgate::upstream::decompress::{BoundedUnzstd, DecompressError};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 64 * 1024;

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, frame)) = bytes.split_first() else {
        return;
    };
    let whole = decode([frame]);
    let cut = decode(frame.chunks(usize::from(*cut).max(1)));
    assert_eq!(whole.is_ok(), cut.is_ok(), "{whole:?} {cut:?}");
    if let (Ok(whole), Ok(cut)) = (whole, cut) {
        assert!(whole == cut && whole.len() <= LIMIT);
    }
});

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Bytes, DecompressError> {
    let mut unzstd = BoundedUnzstd::new(LIMIT)?;
    for piece in pieces {
        unzstd.push(piece)?;
    }
    unzstd.finish()
}

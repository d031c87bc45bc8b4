//! Incremental decompression with a bound on the output.

mod error;
mod zstd;

use std::io::{self, Write};

use bytes::{Bytes, BytesMut};
use flate2::write::GzDecoder;

pub use self::{error::DecompressError, zstd::BoundedUnzstd};

/// Gzip decoder that buffers at most a given number of decoded bytes.
#[derive(Debug)]
pub struct BoundedGunzip {
    decoder: GzDecoder<BoundedBuffer>,
}

/// Decoded bytes that were not taken yet.
#[derive(Debug)]
struct BoundedBuffer {
    decoded: BytesMut,
    limit: usize,
    is_full: bool,
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.decoded.len() + bytes.len() > self.limit {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.decoded.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BoundedGunzip {
    /// Returns a decoder that buffers at most `limit` decoded bytes.
    pub fn new(limit: usize) -> Self {
        let decoder = GzDecoder::new(BoundedBuffer {
            decoded: BytesMut::new(),
            limit,
            is_full: false,
        });
        Self { decoder }
    }

    /// Decodes the next piece. Bytes after the first gzip member are an error: one
    /// reader could read a second member and the next one not.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), DecompressError> {
        let pushed = self.decoder.write_all(piece);
        let flushed = pushed.and_then(|()| self.decoder.flush());
        flushed.map_err(|_| self.error())
    }

    /// Returns the number of decoded bytes in the buffer.
    pub fn decoded_len(&self) -> usize {
        self.decoder.get_ref().decoded.len()
    }

    /// Takes the decoded bytes out of the buffer.
    pub fn take(&mut self) -> Bytes {
        self.decoder.get_mut().decoded.split().freeze()
    }

    /// Checks the end of the data and returns the remaining bytes.
    pub fn finish(&mut self) -> Result<Bytes, DecompressError> {
        let finished = self.decoder.try_finish();
        finished.map_err(|_| self.error())?;
        Ok(self.take())
    }

    fn error(&self) -> DecompressError {
        let buffer = self.decoder.get_ref();
        if buffer.is_full {
            DecompressError::TooLarge(buffer.limit)
        } else {
            DecompressError::Invalid
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn gunzip(bytes: &[u8], cut: usize, limit: usize) -> Result<Bytes, DecompressError> {
        let mut decoder = BoundedGunzip::new(limit);
        for piece in bytes.chunks(cut) {
            decoder.push(piece)?;
        }
        decoder.finish()
    }

    proptest! {
        #[test]
        fn data_is_decoded_however_it_is_cut(bytes in prop::collection::vec(any::<u8>(), 0..600), cut in 1_usize..40) {
            prop_assert_eq!(gunzip(&gzip(&bytes), cut, 600).unwrap(), bytes);
        }
    }

    #[test]
    fn invalid_or_oversized_data_is_an_error() {
        let good = gzip(b"hello");
        let twice = [good.clone(), good.clone()].concat();
        let mut wrong = good.clone();
        wrong[good.len() - 1] ^= 1;
        let cut = &good[..good.len() - 1];
        for bytes in [b"".as_slice(), b"{}", &twice, &wrong, cut] {
            assert_eq!(
                gunzip(bytes, 7, 100),
                Err(DecompressError::Invalid),
                "{bytes:?}"
            );
        }
        let bomb = gzip(&vec![0; 10_000_000]);
        assert!(bomb.len() < 20_000);
        assert_eq!(
            gunzip(&bomb, 1000, 4096),
            Err(DecompressError::TooLarge(4096))
        );
    }
}

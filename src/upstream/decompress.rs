//! Gzip, decoded piece by piece, with a bound on what comes out.

use std::io::{self, Write};

use bytes::{Bytes, BytesMut};
use flate2::write::GzDecoder;
use thiserror::Error;

/// A body under way.
#[derive(Debug)]
pub struct BoundedGunzip {
    decoder: GzDecoder<Room>,
    limit: usize,
}

/// Why bytes are not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecompressError {
    /// More comes out than there is room for.
    #[error("more than {0} bytes come out")]
    TooLarge(usize),
    /// The bytes are no gzip, or more than one.
    #[error("it is no gzip")]
    Invalid,
}

/// What was decoded and not yet taken.
#[derive(Debug)]
struct Room {
    decoded: BytesMut,
    limit: usize,
    full: bool,
}

impl Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.decoded.len() + bytes.len() > self.limit {
            self.full = true;
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
    /// A decoder that holds at most `limit` bytes until they are taken.
    pub fn new(limit: usize) -> Self {
        let decoder = GzDecoder::new(Room {
            decoded: BytesMut::new(),
            limit,
            full: false,
        });
        Self { decoder, limit }
    }

    /// Takes the next piece in.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), DecompressError> {
        // What follows the end is not taken: a second member could be read by
        // one reader and not by the next.
        let pushed = self.decoder.write_all(piece);
        let flushed = pushed.and_then(|()| self.decoder.flush());
        flushed.map_err(|_| self.fault())
    }

    /// How many bytes were decoded since the last time.
    pub fn len(&self) -> usize {
        self.decoder.get_ref().decoded.len()
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was decoded since the last time.
    pub fn take(&mut self) -> Bytes {
        self.decoder.get_mut().decoded.split().freeze()
    }

    /// The rest, once all pieces are in.
    pub fn finish(mut self) -> Result<Bytes, DecompressError> {
        let finished = self.decoder.try_finish();
        finished.map_err(|_| self.fault())?;
        Ok(self.take())
    }

    fn fault(&self) -> DecompressError {
        if self.decoder.get_ref().full {
            DecompressError::TooLarge(self.limit)
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
        fn however_it_is_cut_it_comes_out_whole(bytes in prop::collection::vec(any::<u8>(), 0..600), cut in 1_usize..40) {
            prop_assert_eq!(gunzip(&gzip(&bytes), cut, 600).unwrap(), bytes);
        }
    }

    #[test]
    fn what_is_no_gzip_or_too_much_is_refused() {
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

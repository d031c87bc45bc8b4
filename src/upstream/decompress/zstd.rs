//! Zstandard frames (RFC 8878), which Codex sends after a login.

use std::slice;

use bytes::Bytes;
use zstd::{
    stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer},
    zstd_safe::get_frame_content_size,
};

use super::error::DecompressError;

/// Largest window of a frame, as a power of two. RFC 8878, section 3.1.1.1.2, recommends to
/// support 8 MiB.
const MAX_WINDOW_LOG: u32 = 23;

/// Bytes that are decoded at once.
const STEP_BYTES: usize = 128 * 1024;

/// Longest header of a frame.
const MAX_HEADER_BYTES: usize = 18;

/// Zstandard decoder that buffers at most a given number of decoded bytes, and one window.
pub struct BoundedUnzstd {
    decoder: Decoder<'static>,
    /// First bytes of the frame, which contain its header.
    header: Vec<u8>,
    decoded: Vec<u8>,
    limit: usize,
    is_finished: bool,
}

impl BoundedUnzstd {
    /// Returns a decoder that buffers at most `limit` decoded bytes.
    ///
    /// # Errors
    ///
    /// If there is no memory for a decoder.
    pub fn new(limit: usize) -> Result<Self, DecompressError> {
        let invalid = |_| DecompressError::Invalid;
        let mut decoder = Decoder::new().map_err(invalid)?;
        decoder
            .set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))
            .map_err(invalid)?;
        Ok(Self {
            decoder,
            header: Vec::with_capacity(MAX_HEADER_BYTES),
            decoded: Vec::new(),
            limit,
            is_finished: false,
        })
    }

    /// Decodes the next piece. Bytes after the first frame are an error: one reader could read
    /// a second frame and the next one not.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), DecompressError> {
        match piece.split_first() {
            None => Ok(()),
            // Alone, the first byte keeps the library from decoding a whole frame at once, for
            // which it does not check the window.
            Some((first, rest)) if self.header.is_empty() => {
                self.decode(slice::from_ref(first))?;
                self.push(rest)
            }
            Some(_) => self.decode(piece),
        }
    }

    fn decode(&mut self, piece: &[u8]) -> Result<(), DecompressError> {
        let missing = MAX_HEADER_BYTES - self.header.len();
        self.header.extend(piece.iter().take(missing));
        let mut input = InBuffer::around(piece);
        loop {
            if self.is_finished {
                return if input.pos() < piece.len() {
                    Err(DecompressError::Invalid)
                } else {
                    Ok(())
                };
            }
            // One byte more than the limit shows that it is exceeded.
            let left = (self.limit - self.decoded.len()).saturating_add(1);
            self.decoded.reserve(left.min(STEP_BYTES));
            let start = self.decoded.len();
            let mut output = OutBuffer::around_pos(&mut self.decoded, start);
            let hint = self.decoder.run(&mut input, &mut output);
            let is_full = output.pos() == output.capacity();
            self.is_finished = hint.map_err(|_| DecompressError::Invalid)? == 0;
            if self.decoded.len() > self.limit {
                return Err(DecompressError::TooLarge(self.limit));
            }
            if input.pos() == piece.len() && !is_full {
                return Ok(());
            }
        }
    }

    /// Returns an upper bound of the decoded bytes in memory. It never decreases.
    pub fn decoded_len(&self) -> usize {
        // The window holds a copy of the last bytes.
        let length = self.decoded.len();
        length + length.min(1 << MAX_WINDOW_LOG)
    }

    /// Checks the end of the data and returns the decoded bytes.
    pub fn finish(&mut self) -> Result<Bytes, DecompressError> {
        if self.is_finished && self.has_declared_size() {
            Ok(std::mem::take(&mut self.decoded).into())
        } else {
            Err(DecompressError::Invalid)
        }
    }

    /// Returns whether the data has the size that the header declares, if it declares one. The
    /// library does not check it for an empty last block that arrives in pieces.
    fn has_declared_size(&self) -> bool {
        let declared = get_frame_content_size(&self.header);
        declared.is_ok_and(|size| size.is_none_or(|size| size == self.decoded.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(bytes: &[u8], cut: usize, limit: usize) -> Result<Bytes, DecompressError> {
        let mut decoder = BoundedUnzstd::new(limit)?;
        let mut length = 0;
        for piece in bytes.chunks(cut) {
            decoder.push(piece)?;
            assert!(
                decoder.decoded_len() >= length,
                "the length never decreases"
            );
            length = decoder.decoded_len();
        }
        decoder.finish()
    }

    fn encode(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    proptest! {
        #[test]
        fn data_is_decoded_however_it_is_cut(bytes in prop::collection::vec(0_u8..4, 0..3000), cut in 1_usize..900) {
            prop_assert_eq!(decode(&encode(&bytes), cut, 3000).unwrap(), bytes);
        }

        #[test]
        fn any_bytes_are_decoded_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60), cut in 1_usize..20) {
            let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd];
            frame.extend(bytes);
            if let Ok(decoded) = decode(&frame, cut, 1000) {
                prop_assert!(decoded.len() <= 1000);
            }
        }
    }

    #[test]
    fn invalid_or_oversized_data_is_an_error() {
        let good = encode(b"hello");
        let twice = [good.clone(), good.clone()].concat();
        let cut = &good[..good.len() - 1];
        for bytes in [b"".as_slice(), b"{}", &twice, cut] {
            assert_eq!(decode(bytes, 7, 100), Err(DecompressError::Invalid));
        }
        let bomb = encode(&vec![0; 10_000_000]);
        assert!(bomb.len() < 20_000);
        assert_eq!(
            decode(&bomb, 1000, 4096),
            Err(DecompressError::TooLarge(4096))
        );
    }

    #[test]
    fn a_frame_with_a_large_window_is_refused() {
        // Window descriptor 0x70 is 16 MiB; one block of five raw bytes.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x70, 0x29, 0x00, 0x00];
        frame.extend(b"hello");
        assert_eq!(decode(&frame, 100, 100), Err(DecompressError::Invalid));
        // Neither without content: one that declares its size could be decoded at once.
        let empty = [0x28, 0xb5, 0x2f, 0xfd, 0x80, 0x87, 0, 0, 0, 0, 1, 0, 0];
        for cut in [2, 100] {
            assert_eq!(decode(&empty, cut, 100), Err(DecompressError::Invalid));
        }
        frame[5] = 0x68;
        assert_eq!(decode(&frame, 100, 100).unwrap(), "hello");
    }

    #[test]
    fn a_frame_of_another_size_than_it_declares_is_an_error() {
        // It declares 414 bytes and has one empty block.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x80, 0, 0x9e, 1, 0, 0, 1, 0, 0];
        for cut in [2, 100] {
            assert_eq!(decode(&frame, cut, 1000), Err(DecompressError::Invalid));
        }
    }

    #[test]
    fn a_wrong_checksum_is_an_error() {
        // The output of `printf hello | zstd --check`.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x29, 0x00, 0x00];
        frame.extend(b"hello");
        frame.extend([0xa3, 0x6d, 0x9f, 0x88]);
        assert_eq!(decode(&frame, 3, 100).unwrap(), "hello");
        let last = frame.len() - 1;
        frame[last] ^= 1;
        assert_eq!(decode(&frame, 3, 100), Err(DecompressError::Invalid));
    }
}

//! Zstandard frames (RFC 8878), which Codex sends after a login.

use bytes::{Buf, Bytes, BytesMut};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::error::DecompressError;

/// Largest window of a frame. RFC 8878, section 3.1.1.1.2, recommends to support this size.
const MAX_WINDOW_BYTES: usize = 8 * 1024 * 1024;

/// Largest header of a frame, with its magic number.
const MAX_HEADER_BYTES: usize = 18;

/// Largest number of bytes that a block decodes to.
const MAX_BLOCK_BYTES: usize = 128 * 1024;

const BLOCK_HEADER_BYTES: usize = 3;

const CHECKSUM_BYTES: usize = 4;

/// Zstandard decoder that buffers at most a given number of decoded bytes, and one window.
pub struct BoundedUnzstd {
    decoder: FrameDecoder,
    /// Received bytes that are not decoded yet: less than a block.
    pending: BytesMut,
    decoded: Vec<u8>,
    limit: usize,
    state: FrameState,
}

/// Progress within the frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameState {
    Header,
    Blocks { has_checksum: bool },
}

impl BoundedUnzstd {
    /// Returns a decoder that buffers at most `limit` decoded bytes.
    pub fn new(limit: usize) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW_BYTES as u64);
        Self {
            decoder,
            pending: BytesMut::new(),
            decoded: Vec::new(),
            limit,
            state: FrameState::Header,
        }
    }

    /// Decodes the next piece. Bytes after the first frame are an error: one reader could read
    /// a second frame and the next one not.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), DecompressError> {
        self.pending.extend_from_slice(piece);
        if self.state == FrameState::Header && self.pending.len() >= MAX_HEADER_BYTES {
            self.read_header()?;
        }
        self.decode_blocks()
    }

    /// Returns an upper bound of the decoded bytes in memory. It never decreases.
    pub fn decoded_len(&self) -> usize {
        let in_window = match self.state {
            FrameState::Header => 0,
            FrameState::Blocks { .. } => self.decoder.blocks_decoded(),
        };
        let in_window = in_window.saturating_mul(MAX_BLOCK_BYTES);
        self.decoded.len() + in_window.min(MAX_WINDOW_BYTES)
    }

    /// Checks the end of the data and returns the decoded bytes.
    pub fn finish(&mut self) -> Result<Bytes, DecompressError> {
        if self.state == FrameState::Header {
            self.read_header()?;
            self.decode_blocks()?;
        }
        let is_complete = self.decoder.is_finished() && self.pending.is_empty();
        let has_checksum = self.state == FrameState::Blocks { has_checksum: true };
        let is_intact = !has_checksum
            || self.decoder.get_checksum_from_data() == self.decoder.get_calculated_checksum();
        if is_complete && is_intact {
            Ok(std::mem::take(&mut self.decoded).into())
        } else {
            Err(DecompressError::Invalid)
        }
    }

    fn read_header(&mut self) -> Result<(), DecompressError> {
        // The descriptor follows the magic number.
        let descriptor = *self.pending.get(4).ok_or(DecompressError::Invalid)?;
        let mut source = &*self.pending;
        let read = self.decoder.init(&mut source);
        read.map_err(|_| DecompressError::Invalid)?;
        let header_bytes = self.pending.len() - source.len();
        self.pending.advance(header_bytes);
        self.state = FrameState::Blocks {
            has_checksum: descriptor & 0b100 != 0,
        };
        Ok(())
    }

    /// Decodes all blocks that are complete.
    fn decode_blocks(&mut self) -> Result<(), DecompressError> {
        let FrameState::Blocks { has_checksum } = self.state else {
            return Ok(());
        };
        while !self.decoder.is_finished() {
            match block_bytes(&self.pending, has_checksum) {
                Some(bytes) if self.pending.len() >= bytes => (),
                Some(_) | None => return Ok(()),
            }
            let mut source = &*self.pending;
            let step = BlockDecodingStrategy::UptoBlocks(1);
            let decoded = self.decoder.decode_blocks(&mut source, step);
            decoded.map_err(|_| DecompressError::Invalid)?;
            let block_bytes = self.pending.len() - source.len();
            self.pending.advance(block_bytes);
            if self.decoded.len() + self.decoder.can_collect() > self.limit {
                return Err(DecompressError::TooLarge(self.limit));
            }
            self.decoded
                .extend(self.decoder.collect().unwrap_or_default());
        }
        if self.pending.is_empty() {
            Ok(())
        } else {
            Err(DecompressError::Invalid)
        }
    }
}

/// Returns the encoded length of the next block, with the checksum behind the last one. `None`
/// if its header is not complete.
fn block_bytes(pending: &[u8], has_checksum: bool) -> Option<usize> {
    let [first, second, third, ..] = *pending else {
        return None;
    };
    let header = u32::from_le_bytes([first, second, third, 0]);
    let is_last = header & 1 == 1;
    let size = match (header >> 1) & 0b11 {
        // One byte that is repeated.
        1 => 1,
        _ => usize::try_from(header >> 3).ok()?,
    };
    let checksum = if is_last && has_checksum {
        CHECKSUM_BYTES
    } else {
        0
    };
    Some(BLOCK_HEADER_BYTES + size + checksum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn decode(bytes: &[u8], cut: usize, limit: usize) -> Result<Bytes, DecompressError> {
        let mut decoder = BoundedUnzstd::new(limit);
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
        compress_to_vec(bytes, CompressionLevel::Fastest)
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
        frame[5] = 0x68;
        assert_eq!(decode(&frame, 100, 100).unwrap(), "hello");
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

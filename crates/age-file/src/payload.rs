//! The payload: chunks of 64 KiB, each encrypted with its number and whether it is the last one.

use std::{
    fmt,
    io::{self, BufReader, Read, Write},
};

use aws_lc_rs::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey},
    error::Unspecified,
    rand,
};

use crate::{
    DecryptError, derive_key,
    file_key::FileKey,
    header,
    key::{Identity, Recipient},
};

/// Bytes of every chunk but the last.
const CHUNK_BYTES: usize = 64 * 1024;

/// Bytes of an encrypted chunk, with its tag.
const SEALED_BYTES: usize = CHUNK_BYTES + 16;

const SALT_BYTES: usize = 16;

/// Encrypts what is written to it.
///
/// A chunk is written once the next one begins. [`Encryptor::finish`] writes the last chunk,
/// without which the file is truncated.
pub struct Encryptor<W> {
    inner: W,
    key: ChunkKey,
    chunk: Vec<u8>,
}

/// Decrypts what is read from it.
///
/// Reading fails with [`io::ErrorKind::UnexpectedEof`] if the file is truncated after a chunk,
/// and with [`io::ErrorKind::InvalidData`] if a chunk is not as it was written. The chunks
/// before it are returned.
pub struct Decryptor<R> {
    inner: BufReader<R>,
    key: ChunkKey,
    /// Encrypted bytes: a chunk, and one byte that shows that it is not the last one.
    sealed: Vec<u8>,
    opened: Vec<u8>,
    /// Number of bytes of `opened` that were read.
    read: usize,
    state: ReadState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    First,
    More,
    End,
    Truncated,
}

/// Position of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkEnd {
    More,
    Last,
}

/// The key of the chunks, and the number of the next one.
struct ChunkKey {
    key: LessSafeKey,
    counter: u64,
}

impl<W: Write> Encryptor<W> {
    /// Writes the header.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or there is no recipient.
    pub fn new(mut inner: W, recipients: &[Recipient]) -> io::Result<Self> {
        if recipients.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no age recipient",
            ));
        }
        let failed = |_: Unspecified| io::Error::other("no random bytes");
        let file_key = FileKey::generate().map_err(failed)?;
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).map_err(failed)?;
        inner.write_all(header::write(&file_key, recipients)?.as_bytes())?;
        inner.write_all(&salt)?;
        Ok(Self {
            inner,
            key: ChunkKey::new(&file_key, &salt)?,
            chunk: Vec::with_capacity(SEALED_BYTES),
        })
    }

    /// Writes the last chunk and returns the inner writer.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_chunk(ChunkEnd::Last)?;
        Ok(self.inner)
    }

    /// Returns the number of bytes that wait for the end of their chunk.
    pub const fn pending_len(&self) -> usize {
        self.chunk.len()
    }

    fn write_chunk(&mut self, end: ChunkEnd) -> io::Result<()> {
        let nonce = self.key.nonce(end);
        let sealed = self
            .key
            .key
            .seal_in_place_append_tag(nonce, Aad::empty(), &mut self.chunk);
        sealed.map_err(|_| io::Error::other("encryption failed"))?;
        self.key.counter += 1;
        self.inner.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }
}

impl<W: Write> Write for Encryptor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.chunk.len() == CHUNK_BYTES && !bytes.is_empty() {
            self.write_chunk(ChunkEnd::More)?;
        }
        let taken = bytes.iter().take(CHUNK_BYTES - self.chunk.len());
        let length = taken.len();
        self.chunk.extend(taken);
        Ok(length)
    }

    /// Flushes the inner writer; the chunk that is not full stays in memory.
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Decryptor<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// If it is malformed, or no identity matches.
    pub fn new(inner: R, identities: &[Identity]) -> Result<Self, DecryptError> {
        let mut inner = BufReader::new(inner);
        let file_key = header::read(&mut inner, identities)?;
        let mut salt = [0; SALT_BYTES];
        inner.read_exact(&mut salt)?;
        Ok(Self {
            inner,
            key: ChunkKey::new(&file_key, &salt)?,
            sealed: Vec::with_capacity(SEALED_BYTES + 1),
            opened: Vec::new(),
            read: 0,
            state: ReadState::First,
        })
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let wanted = SEALED_BYTES + 1 - self.sealed.len();
        (&mut self.inner)
            .take(wanted as u64)
            .read_to_end(&mut self.sealed)?;
        let after = self.sealed.split_off(self.sealed.len().min(SEALED_BYTES));
        let sealed = std::mem::replace(&mut self.sealed, after);
        let is_first = self.state == ReadState::First;
        self.read = 0;
        if !self.sealed.is_empty() {
            self.opened = self.key.open(sealed, ChunkEnd::More)?;
            self.state = ReadState::More;
        } else if let Ok(opened) = self.key.open(sealed.clone(), ChunkEnd::Last) {
            if opened.is_empty() && !is_first {
                return Err(changed());
            }
            self.opened = opened;
            self.state = ReadState::End;
        } else {
            // The file may end after a whole chunk that is not the last one.
            self.opened = if sealed.is_empty() {
                Vec::new()
            } else {
                self.key.open(sealed, ChunkEnd::More)?
            };
            self.state = ReadState::Truncated;
        }
        Ok(())
    }
}

impl<R: Read> Read for Decryptor<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let mut rest = self.opened.get(self.read..).unwrap_or_default();
            if !rest.is_empty() {
                let length = rest.read(buffer)?;
                self.read += length;
                return Ok(length);
            }
            match self.state {
                ReadState::First | ReadState::More => self.next_chunk()?,
                ReadState::End => return Ok(0),
                ReadState::Truncated => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

impl ChunkKey {
    fn new(file_key: &FileKey, salt: &[u8]) -> io::Result<Self> {
        let key = derive_key(&file_key.0, salt, b"payload")?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key);
        let key = key.map_err(|_| io::Error::other("invalid key"))?;
        Ok(Self {
            key: LessSafeKey::new(key),
            counter: 0,
        })
    }

    /// Returns the nonce of the next chunk: its number in 11 bytes, and 1 for the last one.
    fn nonce(&self, end: ChunkEnd) -> Nonce {
        let last = match end {
            ChunkEnd::More => 0,
            ChunkEnd::Last => 1,
        };
        // 64 bits cannot overflow: that would take a zettabyte.
        let number = (u128::from(self.counter) << 8) | last;
        let [_, _, _, _, nonce @ ..] = number.to_be_bytes();
        Nonce::assume_unique_for_key(nonce)
    }

    fn open(&mut self, mut sealed: Vec<u8>, end: ChunkEnd) -> io::Result<Vec<u8>> {
        let nonce = self.nonce(end);
        let opened = self.key.open_in_place(nonce, Aad::empty(), &mut sealed);
        let length = opened.map_err(|_| changed())?.len();
        self.counter += 1;
        sealed.truncate(length);
        Ok(sealed)
    }
}

fn changed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "truncated, or bytes were changed",
    )
}

/// Omits keys and texts.
impl<W> fmt::Debug for Encryptor<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryptor").finish_non_exhaustive()
    }
}

/// Omits keys and texts.
impl<R> fmt::Debug for Decryptor<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decryptor").finish_non_exhaustive()
    }
}

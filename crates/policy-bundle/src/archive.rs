//! The bytes of an archive: a tar archive in a gzip stream with stored blocks.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use flate2::{Crc, bufread::GzDecoder};
use tar::{Archive, EntryType, Header};

use crate::{
    error::BundleError,
    limits::{MAX_ARCHIVE_BYTES, MAX_FILES},
    path::check_path,
};

/// Header of a gzip stream (RFC 1952, section 2.3) without name and time, from an unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Maximum length of a stored block (RFC 1951, section 3.2.4).
const MAX_BLOCK_BYTES: usize = 0xffff;

/// Length of a block of a tar archive.
const TAR_BLOCK_BYTES: usize = 512;

/// An entry to be written.
pub(crate) struct ArchiveEntry<'a> {
    pub(crate) path: &'a str,
    pub(crate) content: &'a [u8],
    pub(crate) is_executable: bool,
}

/// Writes an archive. Its bytes depend on nothing but the entries.
///
/// # Errors
///
/// Fails if a path does not fit into a header.
pub(crate) fn write(entries: &[ArchiveEntry<'_>]) -> io::Result<Vec<u8>> {
    let mut tar = Vec::new();
    for entry in entries {
        let mut header = Header::new_ustar();
        header.set_path(entry.path)?;
        header.set_entry_type(EntryType::Regular);
        header.set_size(entry.content.len() as u64);
        header.set_mode(if entry.is_executable { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        tar.extend_from_slice(header.as_bytes());
        tar.extend_from_slice(entry.content);
        tar.resize(tar.len().next_multiple_of(TAR_BLOCK_BYTES), 0);
    }
    // Two blocks of zeros end the archive.
    tar.resize(tar.len() + 2 * TAR_BLOCK_BYTES, 0);
    Ok(gzip(&tar))
}

/// Writes a gzip stream with stored blocks.
pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut stream = GZIP_HEADER.to_vec();
    let mut blocks = content.chunks(MAX_BLOCK_BYTES).peekable();
    while let Some(block) = blocks.next() {
        // A block has at most 65,535 bytes.
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    let mut crc = Crc::new();
    crc.update(content);
    stream.extend_from_slice(&crc.sum().to_le_bytes());
    stream.extend_from_slice(&crc.amount().to_le_bytes());
    stream
}

/// Reads the files of an archive, within bounds.
///
/// # Errors
///
/// Returns the first entry that is refused, or the reason why the bytes are no archive.
pub(crate) fn read(bytes: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, BundleError> {
    if bytes.len() > MAX_ARCHIVE_BYTES {
        return Err(BundleError::TooLarge);
    }
    let mut tar = Vec::new();
    // Stored blocks are shorter than their stream: whatever is longer was compressed.
    let mut stream = GzDecoder::new(bytes).take(bytes.len() as u64);
    let read = stream.read_to_end(&mut tar);
    read.map_err(BundleError::NotAnArchive)?;
    let mut files = BTreeMap::new();
    let mut archive = Archive::new(tar.as_slice());
    // Raw entries: an extension that names another path or size is an entry like others.
    let entries = archive.entries().map_err(BundleError::NotAnArchive)?;
    for entry in entries.raw(true) {
        let mut entry = entry.map_err(BundleError::NotAnArchive)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type() != EntryType::Regular {
            return Err(BundleError::NotAFile(path.escape_debug().to_string()));
        }
        check_path(&path)?;
        if files.len() == MAX_FILES {
            return Err(BundleError::TooManyFiles);
        }
        let mut content = Vec::new();
        let read = entry.read_to_end(&mut content);
        read.map_err(BundleError::NotAnArchive)?;
        if files.insert(path.clone(), content).is_some() {
            return Err(BundleError::Duplicate(path));
        }
    }
    Ok(files)
}

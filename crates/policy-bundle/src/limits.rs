//! Bounds of an archive.

/// Maximum size of an archive, in bytes.
pub const MAX_ARCHIVE_BYTES: usize = 32 * 1024 * 1024;

/// Maximum number of files in a bundle.
pub const MAX_FILES: usize = 4096;

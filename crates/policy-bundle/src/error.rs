//! Reasons why a bundle or a key is refused.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::limits::{MAX_ARCHIVE_BYTES, MAX_FILES};

/// Reason why a bundle is refused.
#[derive(Debug, Error)]
pub enum BundleError {
    /// The archive is larger than a reader accepts.
    #[error("larger than {MAX_ARCHIVE_BYTES} bytes")]
    TooLarge,
    /// The archive has more files than a reader accepts.
    #[error("more than {MAX_FILES} files")]
    TooManyFiles,
    /// The bytes are no gzip stream with a tar archive.
    #[error("not a tar.gz archive: {0}")]
    NotAnArchive(#[source] io::Error),
    /// An entry of the archive is no regular file.
    #[error("`{0}` is no regular file: links, devices and folders are refused")]
    NotAFile(String),
    /// A path leaves the bundle, or cannot be written everywhere.
    #[error("path `{path}` {reason}")]
    Path {
        /// The path, with control characters escaped.
        path: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// Two entries have one path.
    #[error("`{0}` is in the archive twice")]
    Duplicate(String),
    /// The archive has no manifest.
    #[error("no `manifest.json`")]
    NoManifest,
    /// The manifest is not in the form that `build` writes.
    #[error("`manifest.json`: {0}")]
    Manifest(String),
    /// The manifest names a file that is not there.
    #[error("`{0}` is in the manifest, but not in the archive")]
    Missing(String),
    /// A file is not named by the manifest.
    #[error("`{0}` is not in the manifest")]
    Unlisted(String),
    /// A file is another than that in the manifest.
    #[error("`{0}` has another SHA-256 than in the manifest")]
    Hash(String),
    /// The bytes of the archive are not those that are written for its content.
    #[error("the archive is not in the form that `bundle build` writes")]
    NotCanonical,
    /// There is no signature, although one is required.
    #[error("not signed")]
    Unsigned,
    /// The signature is of none of the keys.
    #[error("the signature of `manifest.json` is not valid for any of the keys")]
    Signature,
    /// A file or folder cannot be read or written.
    #[error("`{path}`: {source}")]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Reason why a key cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    /// The text is no public key.
    #[error("not a public key: `ed25519:` and 32 bytes in base64")]
    Public,
    /// The text is no private key.
    #[error("not an Ed25519 private key in PKCS#8 and PEM")]
    Private,
    /// The system has no randomness.
    #[error("the system has no randomness")]
    Randomness,
}

impl BundleError {
    pub(crate) fn path(path: &str, reason: &'static str) -> Self {
        let path = path.escape_debug().to_string();
        Self::Path { path, reason }
    }
}

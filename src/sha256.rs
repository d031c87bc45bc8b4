//! SHA-256 of bytes in memory.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

/// Returns the SHA-256 of `bytes`.
pub fn sha256(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes.as_ref()).as_ref());
    hash
}

/// Returns the SHA-256 of `bytes` in hex.
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    HEXLOWER.encode(&sha256(bytes))
}

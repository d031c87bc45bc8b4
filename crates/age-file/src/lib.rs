//! Files in the age v1 format for X25519 recipients, encrypted and decrypted as streams.
//!
//! A file is a header with the file key, wrapped for each recipient, and a payload in chunks of
//! 64 KiB, each with its own authentication tag. A chunk is returned only if its tag is valid,
//! and the last chunk is marked, so that a truncated file is an error. Nothing in a file
//! identifies its author: a public key is enough to encrypt.
//!
#![doc = include_str!("../README.md")]

mod bech32;
mod file_key;
mod header;
mod key;
mod payload;

use std::io;

use thiserror::Error;

pub use self::{
    key::{Identity, KeyError, Recipient},
    payload::{Decryptor, Encryptor},
};

/// Reason why a file cannot be decrypted.
#[derive(Debug, Error)]
pub enum DecryptError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The header is not one of age v1.
    #[error("no valid age header: {0}")]
    Header(&'static str),
    /// The file is encrypted to other recipients.
    #[error("encrypted to other keys")]
    NoMatch,
    /// The header was changed.
    #[error("the header was changed")]
    HeaderMac,
}

/// Length of every key of the format but the file key.
const KEY_BYTES: usize = 32;

/// Derives a key (HKDF-SHA-256).
fn derive_key(secret: &[u8], salt: &[u8], info: &[u8]) -> Result<[u8; KEY_BYTES], io::Error> {
    let key = aws_lc_rs::hkdf::Salt::new(aws_lc_rs::hkdf::HKDF_SHA256, salt).extract(secret);
    let mut derived = [0; KEY_BYTES];
    key.expand(&[info], aws_lc_rs::hkdf::HKDF_SHA256)
        .and_then(|expanded| expanded.fill(&mut derived))
        .map_err(|_| io::Error::other("key derivation failed"))?;
    Ok(derived)
}

#[cfg(test)]
mod tests;

//! Signed archives of policy files: built deterministically, read within bounds, verified with
//! Ed25519.
//!
#![doc = include_str!("../README.md")]

mod archive;
mod bundle;
mod directory;
mod error;
mod extracted;
mod key;
mod manifest;
mod path;

pub use self::{
    bundle::{Bundle, BundleFile},
    directory::read_directory,
    error::{BundleError, KeyError},
    extracted::ExtractedBundle,
    key::{PublicKey, SigningKey},
    manifest::{Manifest, Requirement, Revision},
};

/// Maximum size of an archive, in bytes.
pub const MAX_ARCHIVE_BYTES: usize = 32 * 1024 * 1024;

/// Maximum number of files in a bundle.
pub const MAX_FILES: usize = 4096;

#[cfg(test)]
mod tests;

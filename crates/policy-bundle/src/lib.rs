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
mod limits;
mod manifest;
mod path;

pub use self::{
    bundle::{Bundle, BundleFile},
    directory::read_directory,
    error::{BundleError, KeyError},
    extracted::ExtractedBundle,
    key::{PublicKey, SigningKey},
    limits::{MAX_ARCHIVE_BYTES, MAX_FILES},
    manifest::{Manifest, Requirement, Revision},
};

#[cfg(test)]
mod tests;

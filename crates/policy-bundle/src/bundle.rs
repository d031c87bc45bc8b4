//! A bundle: manifest, signature and files.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

use crate::{
    archive::{self, ArchiveEntry},
    error::BundleError,
    key::{PublicKey, SIGNATURE_BYTES, SigningKey},
    limits::MAX_ARCHIVE_BYTES,
    manifest::{MANIFEST, Manifest, SIGNATURE},
};

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFile {
    /// Bytes of the file, uncompressed.
    pub content: Vec<u8>,
    /// True if it is executable where it is extracted.
    pub is_executable: bool,
}

/// A bundle whose files are those of its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    manifest: Manifest,
    signature: Option<Vec<u8>>,
    files: BTreeMap<String, BundleFile>,
}

impl Bundle {
    /// Builds an unsigned bundle. The files of `manifest` are replaced by `files`.
    ///
    /// # Errors
    ///
    /// Fails if a path is refused, or if the archive would be too large.
    pub fn build(
        manifest: Manifest,
        files: BTreeMap<String, BundleFile>,
    ) -> Result<Self, BundleError> {
        let hashes = files.iter();
        let hashes = hashes.map(|(path, file)| (path.clone(), sha256(&file.content)));
        let executable = files.iter().filter(|(_, file)| file.is_executable);
        let manifest = Manifest {
            files: hashes.collect(),
            executable: executable.map(|(path, _)| path.clone()).collect(),
            ..manifest
        };
        let bundle = Self {
            // The rules for readers.
            manifest: Manifest::from_bytes(&manifest.to_bytes())?,
            signature: None,
            files,
        };
        if let Some(reserved) = bundle.reserved_path() {
            return Err(BundleError::path(
                reserved,
                "is that of a part of the bundle",
            ));
        }
        if bundle.to_bytes()?.len() > MAX_ARCHIVE_BYTES {
            return Err(BundleError::TooLarge);
        }
        Ok(bundle)
    }

    /// Reads an archive. The signature is not verified.
    ///
    /// # Errors
    ///
    /// Returns the first part of the archive that is refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BundleError> {
        let mut found = archive::read(bytes)?;
        let manifest = found.remove(MANIFEST).ok_or(BundleError::NoManifest)?;
        let manifest = Manifest::from_bytes(&manifest)?;
        let signature = found.remove(SIGNATURE);
        let mut files = BTreeMap::new();
        for (path, hash) in &manifest.files {
            let content = found.remove(path);
            let content = content.ok_or_else(|| BundleError::Missing(path.clone()))?;
            if sha256(&content) != *hash {
                return Err(BundleError::Hash(path.clone()));
            }
            let file = BundleFile {
                content,
                is_executable: manifest.executable.contains(path),
            };
            files.insert(path.clone(), file);
        }
        if let Some((path, _)) = found.pop_first() {
            return Err(BundleError::Unlisted(path));
        }
        let bundle = Self {
            manifest,
            signature,
            files,
        };
        // Each byte that nothing above covers is a constant.
        if bundle.to_bytes()? != bytes {
            return Err(BundleError::NotCanonical);
        }
        Ok(bundle)
    }

    /// Returns the bytes of the archive.
    ///
    /// # Errors
    ///
    /// Fails if a path does not fit into the archive.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BundleError> {
        let manifest = self.manifest.to_bytes();
        let part = |path, content| ArchiveEntry {
            path,
            content,
            is_executable: false,
        };
        let mut entries = vec![part(MANIFEST, manifest.as_slice())];
        let signature = self.signature.as_deref();
        entries.extend(signature.map(|signature| part(SIGNATURE, signature)));
        entries.extend(self.files.iter().map(|(path, file)| ArchiveEntry {
            path,
            content: &file.content,
            is_executable: file.is_executable,
        }));
        archive::write(&entries).map_err(BundleError::NotAnArchive)
    }

    /// Signs the manifest, in place of an earlier signature.
    pub fn sign(&mut self, key: &SigningKey) {
        self.signature = Some(key.sign(&self.manifest.to_bytes()));
    }

    /// Returns whether there is a signature, be it valid or not.
    pub const fn is_signed(&self) -> bool {
        self.signature.is_some()
    }

    /// Verifies the signature. Returns the key that it is of.
    ///
    /// # Errors
    ///
    /// Fails without a signature, or if it is of none of the keys.
    pub fn verify(&self, keys: &[PublicKey]) -> Result<PublicKey, BundleError> {
        let signature = self.signature.as_ref().ok_or(BundleError::Unsigned)?;
        let manifest = self.manifest.to_bytes();
        let is_valid = |key: &&PublicKey| {
            signature.len() == SIGNATURE_BYTES && key.verifies(&manifest, signature)
        };
        keys.iter()
            .find(is_valid)
            .copied()
            .ok_or(BundleError::Signature)
    }

    /// The manifest of the bundle.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The files by path, without manifest and signature.
    pub const fn files(&self) -> &BTreeMap<String, BundleFile> {
        &self.files
    }

    /// Returns the SHA-256 of the manifest in hex, which identifies the content.
    pub fn digest(&self) -> String {
        sha256(&self.manifest.to_bytes())
    }

    /// Writes the files into a folder, read-only.
    pub(crate) fn write_files(&self, directory: &Path) -> Result<(), BundleError> {
        let mut folders = DirBuilder::new();
        folders.mode(0o700).recursive(true);
        for (path, file) in &self.files {
            let path = directory.join(path);
            if let Some(folder) = path.parent() {
                name_path(folder, folders.create(folder))?;
            }
            let mut options = OpenOptions::new();
            let mode = if file.is_executable { 0o500 } else { 0o400 };
            options.write(true).create_new(true).mode(mode);
            let opened = options.open(&path);
            let written = opened.and_then(|mut opened| opened.write_all(&file.content));
            name_path(&path, written)?;
        }
        Ok(())
    }

    /// Checks that the files of a folder are those that were written.
    pub(crate) fn check_files(&self, directory: &Path) -> Result<(), BundleError> {
        for (name, file) in &self.files {
            let path = directory.join(name);
            let content = name_path(&path, fs::read(&path))?;
            if content != file.content {
                return Err(BundleError::Hash(name.clone()));
            }
        }
        Ok(())
    }

    fn reserved_path(&self) -> Option<&str> {
        let mut reserved = [MANIFEST, SIGNATURE].into_iter();
        reserved.find(|path| self.files.contains_key(*path))
    }
}

/// Names the path in an error.
pub(crate) fn name_path<T>(path: &Path, result: io::Result<T>) -> Result<T, BundleError> {
    result.map_err(|source| BundleError::Io {
        path: path.to_owned(),
        source,
    })
}

fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}

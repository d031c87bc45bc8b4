//! Bundles whose files are in a folder.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use crate::{
    bundle::{Bundle, name_path},
    error::BundleError,
};

/// A bundle and the folder with its files, which is removed with it.
#[derive(Debug)]
pub struct ExtractedBundle {
    bundle: Bundle,
    directory: PathBuf,
}

impl ExtractedBundle {
    /// Writes the files of a bundle into a new folder with mode 0700, read-only.
    ///
    /// # Errors
    ///
    /// Fails if the folder exists, or if a file cannot be written.
    pub fn new(bundle: Bundle, directory: PathBuf) -> Result<Self, BundleError> {
        let mut folder = DirBuilder::new();
        folder.mode(0o700);
        name_path(&directory, folder.create(&directory))?;
        // Removes the folder if a file cannot be written.
        let extracted = Self { bundle, directory };
        extracted.bundle.write_files(&extracted.directory)?;
        Ok(extracted)
    }

    /// The bundle with its manifest.
    pub const fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The folder with the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Checks that the files in the folder are those of the bundle.
    ///
    /// # Errors
    ///
    /// Returns the first file that is missing or was changed.
    pub fn check(&self) -> Result<(), BundleError> {
        self.bundle.check_files(&self.directory)
    }
}

impl Drop for ExtractedBundle {
    fn drop(&mut self) {
        // One that cannot be removed is removed at the next start.
        fs::remove_dir_all(&self.directory).ok();
    }
}

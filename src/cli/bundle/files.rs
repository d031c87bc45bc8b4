//! Files of bundles, and failures that name them.

use std::{fs, path::Path};

use policy_bundle::{Bundle, BundleError, MAX_ARCHIVE_BYTES};

use crate::cli::failure::Failure;

/// Reads a bundle, signed or not.
pub(super) fn read_bundle(path: &Path) -> Result<Bundle, Failure> {
    let size = fs::metadata(path)
        .map_err(|error| Failure::at(path, error))?
        .len();
    if size > MAX_ARCHIVE_BYTES as u64 {
        return Err(refused(path, &BundleError::TooLarge));
    }
    let bytes = fs::read(path).map_err(|error| Failure::at(path, error))?;
    Bundle::from_bytes(&bytes).map_err(|error| refused(path, &error))
}

/// Replaces a file by a bundle, as a whole.
pub(super) fn write_bundle(path: &Path, bundle: &Bundle) -> Result<(), Failure> {
    let bytes = bundle.to_bytes().map_err(Failure::of)?;
    let temporary = path.with_extension("new");
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| Failure::at(path, error))
}

pub(super) fn refused(path: &Path, error: &BundleError) -> Failure {
    Failure::Failed(format!("bundle `{}` refused: {error}", path.display()))
}

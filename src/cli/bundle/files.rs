//! Files of bundles, and failures that name them.

use std::path::Path;

use policy_bundle::{Bundle, BundleError, MAX_ARCHIVE_BYTES};

use crate::{
    cli::failure::Failure,
    file_replacement::replace_file,
    regular_file::{self, PIPE_TIMEOUT},
};

/// Mode of a bundle, which others may read as far as the umask allows it.
const BUNDLE_MODE: u32 = 0o666;

/// Reads a bundle, signed or not, also from a pipe.
pub(super) fn read_bundle(path: &Path) -> Result<Bundle, Failure> {
    let bytes = regular_file::read_or_pipe(path, MAX_ARCHIVE_BYTES as u64, PIPE_TIMEOUT);
    let bytes = bytes.map_err(|error| Failure::at(path, error))?;
    Bundle::from_bytes(&bytes).map_err(|error| refused(path, &error))
}

/// Replaces a file by a bundle, as a whole.
pub(super) fn write_bundle(path: &Path, bundle: &Bundle) -> Result<(), Failure> {
    let bytes = bundle.to_bytes().map_err(Failure::of)?;
    replace_file(path, &bytes, BUNDLE_MODE).map_err(|error| Failure::at(path, error))
}

pub(super) fn refused(path: &Path, error: &BundleError) -> Failure {
    Failure::Failed(format!("bundle `{}` refused: {error}", path.display()))
}

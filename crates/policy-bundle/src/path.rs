//! Paths of files in a bundle.

use std::collections::BTreeMap;

use crate::error::BundleError;

/// Maximum length of a path in bytes: the field of a tar header.
const MAX_PATH_BYTES: usize = 100;

/// Checks that a path is relative, stays in its folder, and is readable text.
pub(crate) fn check_path(path: &str) -> Result<(), BundleError> {
    let reason = if path.len() > MAX_PATH_BYTES {
        "is longer than 100 bytes"
    } else if path.starts_with('/') {
        "is absolute"
    } else if path.chars().any(|char| char.is_control() || char == '\\') {
        "has a control character or a backslash"
    } else if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        "has an empty part, `.` or `..`"
    } else {
        return Ok(());
    };
    Err(BundleError::path(path, reason))
}

/// Checks that no file is also the folder of another one.
pub(crate) fn check_folders<T>(files: &BTreeMap<String, T>) -> Result<(), BundleError> {
    let folders = files.keys().flat_map(|path| {
        let ends = path.match_indices('/');
        ends.filter_map(|(end, _)| path.get(..end))
    });
    match folders
        .into_iter()
        .find(|folder| files.contains_key(*folder))
    {
        Some(both) => Err(BundleError::path(both, "is both a file and a folder")),
        None => Ok(()),
    }
}

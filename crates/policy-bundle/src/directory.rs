//! The files of a folder from which a bundle is built.

use std::{
    collections::BTreeMap,
    fs::{self, DirEntry},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use crate::{
    bundle::BundleFile,
    error::BundleError,
    limits::{MAX_ARCHIVE_BYTES, MAX_FILES},
    path::check_path,
};

/// Permission bits with which a file can be executed.
const EXECUTABLE: u32 = 0o111;

/// Reads all files of a folder by path, but for those whose name, or that of a folder around
/// them, begins with a dot.
///
/// # Errors
///
/// Fails if a file cannot be read, or is neither a regular file nor a folder.
pub fn read_directory(directory: &Path) -> Result<BTreeMap<String, BundleFile>, BundleError> {
    let mut files = BTreeMap::new();
    let mut folders = vec![(directory.to_owned(), String::new())];
    let mut bytes = 0;
    while let Some((folder, prefix)) = folders.pop() {
        let failed = |source| BundleError::Io {
            path: folder.clone(),
            source,
        };
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let path = format!("{prefix}{name}");
            check_path(&path)?;
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                folders.push((entry.path(), format!("{path}/")));
                continue;
            }
            if !kind.is_file() {
                return Err(BundleError::NotAFile(path));
            }
            let file = read_file(&entry).map_err(|source| BundleError::Io {
                path: entry.path(),
                source,
            })?;
            bytes += file.content.len();
            if bytes > MAX_ARCHIVE_BYTES {
                return Err(BundleError::TooLarge);
            }
            files.insert(path, file);
            if files.len() > MAX_FILES {
                return Err(BundleError::TooManyFiles);
            }
        }
    }
    Ok(files)
}

fn read_file(entry: &DirEntry) -> io::Result<BundleFile> {
    let metadata = entry.metadata()?;
    if metadata.len() > MAX_ARCHIVE_BYTES as u64 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(BundleFile {
        content: fs::read(entry.path())?,
        is_executable: metadata.permissions().mode() & EXECUTABLE != 0,
    })
}

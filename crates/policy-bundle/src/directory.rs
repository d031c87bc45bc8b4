//! The files of a folder from which a bundle is built.

use std::{
    collections::BTreeMap,
    fs::{self, DirEntry},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use crate::{
    bundle::{BundleFile, name_path},
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
        for entry in name_path(&folder, fs::read_dir(&folder))? {
            let entry = name_path(&folder, entry)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let path = format!("{prefix}{name}");
            check_path(&path)?;
            let kind = name_path(&folder, entry.file_type())?;
            if kind.is_dir() {
                folders.push((entry.path(), format!("{path}/")));
                continue;
            }
            if !kind.is_file() {
                return Err(BundleError::NotAFile(path));
            }
            let file = name_path(&entry.path(), read_file(&entry))?;
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

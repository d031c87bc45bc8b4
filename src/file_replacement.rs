//! Files that are replaced as a whole: after a crash there is the old or the new one.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

/// Mode of a file that only its owner reads and writes.
pub const PRIVATE_MODE: u32 = 0o600;

/// Writes a file beside `path`, syncs it, renames it and syncs its folder. A new file has the
/// permissions of `mode` but for those that the umask of the process removes.
///
/// # Errors
///
/// Fails if the file cannot be written; the old one stays.
pub fn replace_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = path.with_added_extension("new");
    // One that a crash left, or a symbolic link, which is not followed.
    fs::remove_file(&temporary).ok();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?;
    let replaced = file
        .write_all(content)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = replaced {
        fs::remove_file(&temporary).ok();
        return Err(error);
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Creates a folder that others cannot read, if it is missing.
///
/// # Errors
///
/// Fails if the folder cannot be created, such as without its parent.
pub fn create_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("audit.jsonl.sent");
        fs::write(&path, "the old one, which is longer").unwrap();

        replace_file(&path, b"new", PRIVATE_MODE).unwrap();

        assert_eq!(fs::read(&path).unwrap(), b"new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, PRIVATE_MODE);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_in_the_place_of_the_new_file_is_not_followed() {
        let folder = TempDir::new().unwrap();
        let (path, target) = (folder.path().join("file"), folder.path().join("target"));
        fs::write(&target, "kept").unwrap();
        symlink(&target, folder.path().join("file.new")).unwrap();

        replace_file(&path, b"new", PRIVATE_MODE).unwrap();

        assert_eq!(fs::read(&target).unwrap(), b"kept");
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn nothing_is_left_of_a_file_that_cannot_be_written() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("file");
        fs::create_dir(&path).unwrap();

        replace_file(&path, b"new", PRIVATE_MODE).unwrap_err();

        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_stays_as_it_was() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        fs::create_dir(folder.path().join("file.new")).unwrap();

        replace_file(&path, b"new", PRIVATE_MODE).unwrap_err();

        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
}

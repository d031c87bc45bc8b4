//! Files and folders that a config names, and that must be there.

use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::{RawPath, Reading};
use crate::config::Size;

/// The least that files of the decision log hold where they are of any use.
const LEAST_AUDIT_FILE: usize = 64 * 1024;

impl Reading {
    pub(super) fn hook_directory(&mut self) -> PathBuf {
        let given: Option<RawPath> = self.section("/hook_directory");
        let given = given.map_or_else(PathBuf::new, |it| it.0);
        let directory = self.absolute(&given);
        if !directory.is_dir() {
            let message = format!("`hook_directory` is no directory: `{}`", given.display());
            self.problem("/hook_directory", &message);
        }
        directory
    }

    pub(super) fn absolute(&self, given: &Path) -> PathBuf {
        let path = Path::new(".").join(&self.directory).join(given);
        let path = std::path::absolute(&path).unwrap_or(path);
        path.components().collect()
    }

    pub(super) fn transcripts(&mut self) -> Option<PathBuf> {
        let pointer = "/sessions/transcripts";
        let given: RawPath = self.section(pointer)?;
        let directory = self.absolute(&given.0);
        let Some(problem) = why_no_file_in(&directory) else {
            return Some(directory);
        };
        let message = format!("`sessions.transcripts` {problem}: `{}`", given.0.display());
        self.problem(pointer, &message);
        None
    }

    /// The file of the decision log, whose folder must take files.
    pub(super) fn audit(&mut self) -> Option<PathBuf> {
        let size = "/audit/rotate/size";
        let given: Option<Size> = self.section(size);
        if given.is_some_and(|it| it.0 < LEAST_AUDIT_FILE) {
            let message = "the files of the decision log are so small that they hold few requests, and soon none is kept: 64KiB or more is meant for use";
            self.warning(size, message);
        }
        let pointer = "/audit/path";
        let given: RawPath = self.section(pointer)?;
        let file = self.absolute(&given.0);
        let folder = file.parent().unwrap_or(Path::new("/"));
        let problem = if file.is_dir() {
            "is a directory".to_owned()
        } else {
            let Some(problem) = why_no_file_in(folder) else {
                return Some(file);
            };
            format!("is in what {problem}")
        };
        let message = format!("`audit.path` {problem}: `{}`", given.0.display());
        self.problem(pointer, &message);
        None
    }
}

/// Why no file can be made in a folder, if none can.
fn why_no_file_in(folder: &Path) -> Option<&'static str> {
    let needed = Access::WRITE_OK | Access::EXEC_OK;
    if !folder.is_dir() {
        return Some("is no directory");
    }
    let refused = rustix::fs::access(folder, needed).is_err();
    refused.then_some("is a directory where no file can be made")
}

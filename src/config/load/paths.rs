//! Checks of the directories and files that a config names.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::Access;

use super::loader::Loader;
use crate::config::{
    settings::{
        record::{RecordRedaction, RecordSettings},
        rollout::RolloutSettings,
    },
    units::Size,
};

/// The smallest useful size of an audit log file, in bytes.
const MIN_AUDIT_FILE_BYTES: usize = 64 * 1024;

/// Permission bits with which the group or others may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

impl Loader {
    pub(super) fn hook_directory(&mut self) -> PathBuf {
        let path: PathBuf = self.section("/hook_directory").unwrap_or_default();
        let directory = match self.layers.first() {
            Some(layer) => self.absolute(&layer.directory),
            None => self.absolute(&path),
        };
        if !directory.is_dir() {
            let message = format!("`hook_directory` is not a directory: `{}`", path.display());
            self.problem("/hook_directory", message);
        }
        directory
    }

    /// Checks the files and folders that hookgate writes, and makes their paths absolute, and that
    /// of the shadow's config.
    pub(super) fn resolve_paths(&mut self) {
        self.resolve_transcripts();
        self.resolve_audit_path();
        self.resolve_created_folder("/revisions/path", "`revisions.path`");
        self.resolve_record_path();
        self.resolve_shadow_config();
        self.resolve_created_folder("/source/persist", "`source.persist`");
    }

    fn resolve_transcripts(&mut self) {
        let pointer = "/sessions/transcripts";
        if let Some((path, directory)) = self.resolve(pointer)
            && let Err(reason) = check_writable(&directory)
        {
            let message = format!("`sessions.transcripts` {reason}: `{}`", path.display());
            self.problem(pointer, message);
        }
    }

    fn resolve_audit_path(&mut self) {
        let size = "/audit/rotate/size";
        let bytes: Option<Size> = self.section(size);
        if bytes.is_some_and(|size| size.0 < MIN_AUDIT_FILE_BYTES) {
            let message = "audit log files this small hold few requests, and records are soon lost to rotation; use 64KiB or more";
            self.warning(size, message);
        }
        let pointer = "/audit/path";
        let Some((path, file)) = self.resolve(pointer) else {
            return;
        };
        let parent = file.parent().unwrap_or(Path::new("/"));
        let problem = if file.is_dir() {
            Some("`audit.path` is a directory".to_owned())
        } else {
            let reason = check_writable(parent).err();
            reason.map(|reason| format!("the parent of `audit.path` {reason}"))
        };
        if let Some(problem) = problem {
            self.problem(pointer, format!("{problem}: `{}`", path.display()));
        }
    }

    /// Checks the folder of a setting. Who can write there chooses the config in use.
    fn resolve_created_folder(&mut self, pointer: &str, setting: &str) {
        let Some((path, folder)) = self.resolve(pointer) else {
            return;
        };
        if let Ok(existing) = fs::metadata(&folder)
            && existing.permissions().mode() & WRITABLE_BY_OTHERS != 0
        {
            let message = format!(
                "{setting} is writable by others, who can choose the config in use: `{}`",
                path.display()
            );
            self.warning(pointer, message);
        }
        let (folder_or_parent, what) = if folder.exists() {
            (folder.as_path(), setting.to_owned())
        } else {
            let parent = folder.parent().unwrap_or(Path::new("/"));
            (parent, format!("the parent of {setting}"))
        };
        if let Err(reason) = check_writable(folder_or_parent) {
            self.problem(pointer, format!("{what} {reason}: `{}`", path.display()));
        }
    }

    /// Checks that a rollout has a share and a folder for its revision.
    pub(super) fn check_rollout(&mut self) {
        let Some(rollout) = self.section::<RolloutSettings>("/rollout") else {
            return;
        };
        if rollout.shares().is_empty() {
            self.problem("/rollout", "`rollout` needs `percent` or `steps`");
        }
        if self.value.get("revisions").is_none() {
            self.problem("/rollout", "`rollout` needs `revisions`");
        }
    }

    fn resolve_record_path(&mut self) {
        let record = self.section::<RecordSettings>("/record");
        if record.is_some_and(|record| {
            record.redact == RecordRedaction::None && record.encrypt_to.is_empty()
        }) {
            let message = "secrets in prompts and answers are written in plain text; add `encrypt_to`, or remove `redact: none`";
            self.warning("/record/redact", message);
        }
        self.resolve("/record/path");
    }

    /// Resolves the path of the shadow's config, which is watched for changes.
    fn resolve_shadow_config(&mut self) {
        if let Some((path, _)) = self.resolve("/shadow/config") {
            self.file(&path);
        }
    }

    /// Makes a path absolute. Returns it as it is written, and absolute.
    fn resolve(&mut self, pointer: &str) -> Option<(PathBuf, PathBuf)> {
        let path: PathBuf = self.section(pointer)?;
        let absolute = self.absolute(&path);
        match serde_json::to_value(&absolute) {
            Ok(resolved) => *self.value.pointer_mut(pointer)? = resolved,
            Err(error) => self.problem(pointer, error.to_string()),
        }
        Some((path, absolute))
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        let path = Path::new(".").join(&self.directory).join(path);
        let path = std::path::absolute(&path).unwrap_or(path);
        path.components().collect()
    }
}

/// Checks that files can be created in a directory.
fn check_writable(directory: &Path) -> Result<(), &'static str> {
    if !directory.is_dir() {
        return Err("is not a directory");
    }
    let needed = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::access(directory, needed).map_err(|_| "is not writable")
}

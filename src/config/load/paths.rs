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
        config_file::Config,
        record::{RecordRedaction, RecordSettings},
        rollout::RolloutSettings,
    },
    units::Size,
};

/// The smallest useful size of an audit log file, in bytes.
const MIN_AUDIT_FILE_BYTES: usize = 64 * 1024;

/// Permission bits with which the group or others may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Absolute paths of the files and folders that hookgate writes, and of the shadow's config.
pub(super) struct ResolvedPaths {
    audit: Option<PathBuf>,
    revisions: Option<PathBuf>,
    record: Option<PathBuf>,
    shadow: Option<PathBuf>,
    persist: Option<PathBuf>,
}

impl ResolvedPaths {
    /// Puts the paths in the place of those that the config names.
    pub(super) fn write_to(self, config: &mut Config) {
        if let (Some(audit), Some(path)) = (&mut config.audit, self.audit) {
            audit.path = path;
        }
        if let (Some(revisions), Some(path)) = (&mut config.revisions, self.revisions) {
            revisions.path = path;
        }
        if let (Some(record), Some(path)) = (&mut config.record, self.record) {
            record.path = path;
        }
        if let (Some(source), Some(path)) = (&mut config.source, self.persist) {
            source.persist = path;
        }
        if let (Some(shadow), Some(path)) = (&mut config.shadow, self.shadow) {
            shadow.config = path;
        }
    }
}

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

    pub(super) fn transcripts(&mut self) -> Option<PathBuf> {
        let pointer = "/sessions/transcripts";
        let path: PathBuf = self.section(pointer)?;
        let directory = self.absolute(&path);
        if let Err(reason) = check_writable(&directory) {
            let message = format!("`sessions.transcripts` {reason}: `{}`", path.display());
            self.problem(pointer, message);
        }
        Some(directory)
    }

    /// Checks the files and folders that hookgate writes, and makes their paths absolute, and that
    /// of the shadow's config.
    pub(super) fn resolved_paths(&mut self) -> ResolvedPaths {
        ResolvedPaths {
            audit: self.audit_path(),
            revisions: self.revision_folder(),
            record: self.record_path(),
            shadow: self.shadow_config(),
            persist: self.persist_folder(),
        }
    }

    fn audit_path(&mut self) -> Option<PathBuf> {
        let size = "/audit/rotate/size";
        let bytes: Option<Size> = self.section(size);
        if bytes.is_some_and(|size| size.0 < MIN_AUDIT_FILE_BYTES) {
            let message = "audit log files this small hold few requests, and records are soon lost to rotation; use 64KiB or more";
            self.warning(size, message);
        }
        let pointer = "/audit/path";
        let path: PathBuf = self.section(pointer)?;
        let file = self.absolute(&path);
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
        Some(file)
    }

    fn revision_folder(&mut self) -> Option<PathBuf> {
        self.created_folder("/revisions/path", "`revisions.path`")
    }

    fn persist_folder(&mut self) -> Option<PathBuf> {
        self.created_folder("/source/persist", "`source.persist`")
    }

    /// Returns the folder of a setting. Who can write there chooses the config in use.
    fn created_folder(&mut self, pointer: &str, setting: &str) -> Option<PathBuf> {
        let path: PathBuf = self.section(pointer)?;
        let folder = self.absolute(&path);
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
        Some(folder)
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

    fn record_path(&mut self) -> Option<PathBuf> {
        let record: RecordSettings = self.section("/record")?;
        if record.redact == RecordRedaction::None && record.encrypt_to.is_empty() {
            let message = "secrets in prompts and answers are written in plain text; add `encrypt_to`, or remove `redact: none`";
            self.warning("/record/redact", message);
        }
        Some(self.absolute(&record.path))
    }

    /// Returns the path of the shadow's config, which is watched for changes.
    fn shadow_config(&mut self) -> Option<PathBuf> {
        let path: PathBuf = self.section("/shadow/config")?;
        self.file(&path);
        Some(self.absolute(&path))
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

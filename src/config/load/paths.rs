//! Checks of the directories and files that a config names.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use rustix::fs::Access;

use super::loader::Loader;
use crate::config::{
    overrides::MissingSecrets,
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

impl Loader {
    /// Checks the files and folders that a config names.
    pub(super) fn check_paths(&mut self) {
        self.check_hook_directory();
        self.check_transcripts();
        self.check_audit_path();
        self.check_created_folder("/revisions/path", "`revisions.path`");
        self.check_record_path();
        self.check_record_redaction();
        // It is watched for changes.
        if let Some(path) = self.section::<PathBuf>("/shadow/config") {
            self.file(&path);
        }
        self.check_created_folder("/source/persist", "`source.persist`");
    }

    /// Makes the paths of a config absolute, and keeps the positions of those to other configs.
    pub(super) fn resolve_paths(&self, config: &mut Config) {
        config.rollout_span = self.document.span("/rollout/to");
        config.shadow_span = self.document.span("/shadow/config");
        if let Some(layer) = self.layers.first() {
            config.hook_directory.clone_from(&layer.directory);
        }
        let paths = [
            Some(&mut config.hook_directory),
            config.sessions.transcripts.as_mut(),
            config.audit.as_mut().map(|audit| &mut audit.path),
            config
                .revisions
                .as_mut()
                .map(|revisions| &mut revisions.path),
            config.record.as_mut().map(|record| &mut record.path),
            config.shadow.as_mut().map(|shadow| &mut shadow.config),
            config.source.as_mut().map(|source| &mut source.persist),
        ];
        for path in paths.into_iter().flatten() {
            *path = self.absolute(path);
        }
    }

    fn check_hook_directory(&mut self) {
        let path: PathBuf = self.section("/hook_directory").unwrap_or_default();
        let directory = self.layers.first().map_or(&path, |layer| &layer.directory);
        if !self.absolute(directory).is_dir() {
            let message = format!("`hook_directory` is not a directory: `{}`", path.display());
            self.problem("/hook_directory", message);
        }
    }

    fn check_transcripts(&mut self) {
        let pointer = "/sessions/transcripts";
        let Some(path) = self.section::<PathBuf>(pointer) else {
            return;
        };
        if let Err(reason) = self.check_writable(&self.absolute(&path)) {
            let message = format!("`sessions.transcripts` {reason}: `{}`", path.display());
            self.problem(pointer, message);
        }
    }

    fn check_audit_path(&mut self) {
        let size = "/audit/rotate/size";
        let bytes: Option<Size> = self.section(size);
        if bytes.is_some_and(|size| size.0 < MIN_AUDIT_FILE_BYTES) {
            let message = "audit log files this small hold few requests, and records are soon lost to rotation; use 64KiB or more";
            self.warning(size, message);
        }
        let pointer = "/audit/path";
        let Some(path) = self.section::<PathBuf>(pointer) else {
            return;
        };
        let file = self.absolute(&path);
        let parent = file.parent().unwrap_or(Path::new("/"));
        let problem = if file.is_dir() {
            Some("`audit.path` is a directory".to_owned())
        } else {
            let reason = self.check_writable(parent).err();
            reason.map(|reason| format!("the parent of `audit.path` {reason}"))
        };
        if let Some(problem) = problem {
            self.problem(pointer, format!("{problem}: `{}`", path.display()));
        }
    }

    /// Checks the folder of a setting. Who can write there chooses the config in use.
    fn check_created_folder(&mut self, pointer: &str, setting: &str) {
        let Some(path) = self.section::<PathBuf>(pointer) else {
            return;
        };
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
        if let Err(reason) = self.check_writable(folder_or_parent) {
            self.problem(pointer, format!("{what} {reason}: `{}`", path.display()));
        }
    }

    /// Checks the folder of recordings, which is created with its parents.
    fn check_record_path(&mut self) {
        let pointer = "/record/path";
        let Some(path) = self.section::<PathBuf>(pointer) else {
            return;
        };
        let folder = self.absolute(&path);
        let existing = folder.ancestors().find(|folder| folder.exists());
        let Some((existing, Err(reason))) =
            existing.map(|found| (found, self.check_writable(found)))
        else {
            return;
        };
        let what = if existing == folder {
            "`record.path`"
        } else {
            "a parent of `record.path`"
        };
        let message = format!("{what} {reason}: `{}`", path.display());
        if existing.is_dir() {
            self.warning(pointer, message);
        } else {
            self.problem(pointer, message);
        }
    }

    /// Checks that a rollout has a share and a folder for its revision.
    pub(super) fn check_rollout(&mut self) {
        let Some(rollout) = self.section::<RolloutSettings>("/rollout") else {
            return;
        };
        match rollout.shares()[..] {
            [] => self.problem("/rollout", "`rollout` needs `percent` or `steps`"),
            [share] if rollout.percent.is_some() && !rollout.steps.is_empty() => {
                let message =
                    format!("no step is larger than `percent`, so the share stays {share} %");
                self.warning("/rollout/steps", message);
            }
            _ => (),
        }
        if self.value.get("revisions").is_none() {
            self.problem("/rollout", "`rollout` needs `revisions`");
        }
        let to = &rollout.to;
        if Path::new(to).file_name() != Some(OsStr::new(to)) {
            let message = format!(
                "`rollout.to` must be a version, or the name of a file in the directory of the config file, not `{to}`"
            );
            self.problem("/rollout/to", message);
        }
    }

    fn check_record_redaction(&mut self) {
        let record: Option<RecordSettings> = self.section("/record");
        let is_plain = |record: &RecordSettings| {
            record.redact == RecordRedaction::None && record.encrypt_to.is_empty()
        };
        if record.as_ref().is_some_and(is_plain) {
            let message = "secrets in prompts and answers are written in plain text; add `encrypt_to`, or remove `redact: none`";
            self.warning("/record/redact", message);
        }
        if record.is_some_and(|record| record.what.only.is_empty()) {
            let message = "nothing is recorded, because the list is empty";
            self.warning("/record/what/only", message);
        }
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        let path = Path::new(".").join(&self.directory).join(path);
        let path = std::path::absolute(&path).unwrap_or(path);
        path.components().collect()
    }

    /// Checks that files can be created in a directory. With placeholders for secrets, none are.
    fn check_writable(&self, directory: &Path) -> Result<(), &'static str> {
        if self.missing_secrets == MissingSecrets::Placeholder {
            return Ok(());
        }
        if !directory.is_dir() {
            return Err("is not a directory");
        }
        let needed = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::access(directory, needed).map_err(|_| "is not writable")
    }
}

/// Returns an absolute path without `..`.
pub(super) fn normalized_path(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut normalized = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            normalized.pop();
        } else {
            normalized.push(part);
        }
    }
    normalized
}

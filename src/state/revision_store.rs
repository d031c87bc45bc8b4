//! A folder with the configs that were in use, and a file that names the one in use.
//!
//! A revision is one file, `VERSION.json`, with the texts of all files of a config. `active.json`
//! names the revision in use. Each is replaced as a whole, by renaming a synced file, so that a
//! process that is killed leaves the old or the new one.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::Arc,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::{
    audit_log::PromotionRecord,
    config::{Config, ConfigFiles, RevisionSettings},
    file_replacement::{PRIVATE_MODE, create_folder, replace_file},
    regular_file::{MAX_FILE_BYTES, read_text},
    timestamp::utc_timestamp,
};

/// Digits of a version.
const VERSION_DIGITS: usize = 16;

/// Name of the file that names the revision in use.
const ACTIVE: &str = "active.json";

/// Name of the file that is locked by the process that writes to the folder.
const LOCK: &str = "lock";

/// A folder with the configs that were in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RevisionStore(RevisionSettings);

/// The lock of a folder, which this process holds.
#[derive(Debug)]
pub(super) struct FolderLock {
    folder: PathBuf,
    _file: File,
}

/// A config that is or was in use, with all of its files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredRevision {
    /// Version of the config.
    pub version: String,
    /// Time at which it was last taken into use: RFC 3339 in UTC.
    pub applied: String,
    /// Reason why it was taken into use.
    pub cause: String,
    /// Texts of its files.
    pub(super) files: Arc<ConfigFiles>,
}

/// The revisions of a folder.
#[derive(Debug, Default)]
pub struct RevisionList {
    /// Those that can be read, newest first.
    pub revisions: Vec<StoredRevision>,
    /// Versions of the others, and why they cannot be read.
    pub damaged: Vec<(String, RevisionError)>,
}

/// The revision in use, and what it depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveRevision {
    /// Version of the config in use.
    pub revision: String,
    /// Version of the config file then. As long as that does not change, the revision stays.
    pub file: String,
    /// Version that was in use before.
    pub previous: Option<String>,
    /// User who promoted the revision; empty if it is in use because of the config file.
    pub by: String,
    /// SHA-256 of the report on which the promotion is based.
    pub report: Option<String>,
    /// Versions whose rollouts were aborted since the config file changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aborted_rollouts: Vec<String>,
    /// Promotions whose lines are not in the decision log yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unrecorded: Vec<PromotionRecord>,
}

/// Reason why a revision cannot be stored or read.
#[derive(Debug, Error)]
pub enum RevisionError {
    /// The config has no `revisions`.
    #[error("the config has no `revisions`")]
    NotKept,
    /// No revision has this version.
    #[error("no revision of the config has the version `{0}`")]
    Unknown(String),
    /// Another process writes to the folder.
    #[error("revisions folder `{0}` is in use by another process")]
    Locked(PathBuf),
    /// The bundles in use cannot be stored.
    #[error("{0}")]
    Bundles(String),
    /// A file of the folder cannot be read or written.
    #[error("revision file `{path}`: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file of the folder is not what was written.
    #[error("revision file `{path}`: {message}")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Difference from what was written.
        message: String,
    },
}

impl RevisionStore {
    pub(super) const fn new(settings: RevisionSettings) -> Self {
        Self(settings)
    }

    /// Locks the folder for this process until the lock is dropped.
    ///
    /// # Errors
    ///
    /// Fails if another process has locked it, or if it cannot be locked.
    pub(super) fn lock(&self) -> Result<FolderLock, RevisionError> {
        let folder = &self.0.path;
        let path = folder.join(LOCK);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let opened = create_folder(folder).and_then(|()| options.open(&path));
        let file = opened.map_err(|source| RevisionError::Io {
            path: path.clone(),
            source,
        })?;
        match file.try_lock() {
            Ok(()) => Ok(FolderLock {
                folder: folder.clone(),
                _file: file,
            }),
            Err(TryLockError::WouldBlock) => Err(RevisionError::Locked(folder.clone())),
            Err(TryLockError::Error(source)) => Err(RevisionError::Io { path, source }),
        }
    }

    /// Returns whether a lock is that of this folder.
    pub(super) fn is_locked_by(&self, lock: &FolderLock) -> bool {
        lock.folder == self.0.path
    }

    /// Returns the revision in use, if there was one.
    ///
    /// # Errors
    ///
    /// Fails if its file cannot be read.
    pub(super) fn active(&self) -> Result<Option<ActiveRevision>, RevisionError> {
        self.read(ACTIVE).map_err(|error| match error {
            RevisionError::Damaged { message, .. } => self.damaged_active(&message),
            error => error,
        })
    }

    /// Returns the revision that [`Self::active`] names.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if it cannot be read.
    pub(super) fn load_active(&self, version: &str) -> Result<StoredRevision, RevisionError> {
        self.load(version).map_err(|error| match error {
            RevisionError::Unknown(_) => {
                self.damaged_active(&format!("its revision `{version}` has no file here"))
            }
            error => error,
        })
    }

    fn damaged_active(&self, message: &str) -> RevisionError {
        RevisionError::Damaged {
            path: self.0.path.join(ACTIVE),
            message: format!("{message}; remove `{ACTIVE}` to use the config file"),
        }
    }

    /// Replaces the revision in use.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written; the old one stays.
    pub(super) fn set_active(&self, active: &ActiveRevision) -> Result<(), RevisionError> {
        self.write(ACTIVE, active)
    }

    /// Stores a config that is about to be in use, and removes the oldest revisions but for
    /// those in `needed`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(super) fn save(
        &self,
        config: &Config,
        cause: &str,
        needed: &[&str],
    ) -> Result<(), RevisionError> {
        let revision = StoredRevision {
            version: config.version.clone(),
            applied: utc_timestamp(),
            cause: cause.to_owned(),
            files: Arc::clone(&config.texts),
        };
        self.write(&file_name(&revision.version), &revision)?;
        let RevisionList { revisions, damaged } = self.list()?;
        for (_, error) in &damaged {
            tracing::warn!(%error, "stored revision skipped");
        }
        let old = revisions.iter().skip(self.0.keep);
        let is_needed = |version: &str| version == config.version || needed.contains(&version);
        for revision in old.filter(|revision| !is_needed(&revision.version)) {
            let path = self.0.path.join(file_name(&revision.version));
            fs::remove_file(&path).map_err(|source| RevisionError::Io { path, source })?;
        }
        Ok(())
    }

    /// Returns the revision of a version.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if it cannot be read.
    pub(super) fn load(&self, version: &str) -> Result<StoredRevision, RevisionError> {
        let unknown = || RevisionError::Unknown(version.to_owned());
        if !is_version(version) {
            return Err(unknown());
        }
        self.read(&file_name(version))?.ok_or_else(unknown)
    }

    /// Returns all revisions of the folder.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be read.
    pub(super) fn list(&self) -> Result<RevisionList, RevisionError> {
        let mut list = RevisionList::default();
        let path = &self.0.path;
        let error = |source| RevisionError::Io {
            path: path.clone(),
            source,
        };
        let entries = match fs::read_dir(path) {
            Err(missing) if missing.kind() == ErrorKind::NotFound => return Ok(list),
            entries => entries.map_err(error)?,
        };
        for entry in entries {
            let name = entry.map_err(error)?.file_name();
            let version = name.to_str().and_then(|name| name.strip_suffix(".json"));
            let Some(version) = version.filter(|version| is_version(version)) else {
                continue;
            };
            match self.load(version) {
                Ok(revision) => list.revisions.push(revision),
                // Those that are needed are loaded by their versions.
                Err(error) => list.damaged.push((version.to_owned(), error)),
            }
        }
        list.revisions
            .sort_by(|one, other| other.applied.cmp(&one.applied));
        Ok(list)
    }

    /// Returns the error for a revision whose files have another version.
    pub(super) fn differs(&self, version: &str, found: &str) -> RevisionError {
        RevisionError::Damaged {
            path: self.0.path.join(file_name(version)),
            message: format!(
                "its files have the version `{found}`: they or the command line have changed"
            ),
        }
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, RevisionError> {
        let path = self.0.path.join(name);
        let text = match read_text(&path, MAX_FILE_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| RevisionError::Io {
                path: path.clone(),
                source,
            })?,
        };
        let parsed = serde_json::from_str(&text);
        parsed.map(Some).map_err(|error| RevisionError::Damaged {
            path,
            message: error.to_string(),
        })
    }

    fn write(&self, name: &str, content: &impl Serialize) -> Result<(), RevisionError> {
        let path = self.0.path.join(name);
        let written = serde_json::to_vec(content)
            .map_err(io::Error::from)
            .and_then(|text| {
                create_folder(&self.0.path)?;
                replace_file(&path, &text, PRIVATE_MODE)
            });
        written.map_err(|source| RevisionError::Io { path, source })
    }
}

fn file_name(version: &str) -> String {
    format!("{version}.json")
}

/// Returns whether a text has the form of a version.
pub(super) fn is_version(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == VERSION_DIGITS && text.bytes().all(is_digit)
}

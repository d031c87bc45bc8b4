//! Files of the config in use and of a refused one, with hashes of the contents that were read.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::Notify;

use crate::{
    mutex::Mutex,
    regular_file::{self, MAX_FILE_BYTES},
};

/// Files of the config in use, and of the last config if it was refused. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct ReadFiles(Arc<SharedFiles>);

#[derive(Debug, Default)]
struct SharedFiles {
    fingerprints: Mutex<BTreeMap<PathBuf, u64>>,
    /// Notified after a reload.
    reloaded: Notify,
}

impl ReadFiles {
    /// Returns the paths of the files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.fingerprints.lock().keys().cloned().collect()
    }

    /// Returns whether a file differs from what was read. Blocks.
    pub fn have_changed(&self) -> bool {
        let files = self.0.fingerprints.lock().clone();
        let mut files = files.iter();
        files.any(|(file, read)| fingerprint(file) != *read)
    }

    /// Waits for the next reload, or returns at once if there was one since the last call.
    pub async fn reloaded(&self) {
        self.0.reloaded.notified().await;
    }

    pub(in crate::state) fn notify_reloaded(&self) {
        self.0.reloaded.notify_one();
    }

    /// Marks the start of a read. A change from now on is noticed.
    pub(super) fn begin_read(&self) {
        for (file, read) in self.0.fingerprints.lock().iter_mut() {
            *read = fingerprint(file);
        }
    }

    /// Adds files that were read.
    pub(super) fn add(&self, files: &[PathBuf]) {
        let mut fingerprints = self.0.fingerprints.lock();
        for file in files {
            let new = || fingerprint(file);
            fingerprints.entry(file.clone()).or_insert_with(new);
        }
    }

    /// Replaces the files by those of the config in use.
    pub(super) fn set(&self, files: &[PathBuf]) {
        self.add(files);
        self.0
            .fingerprints
            .lock()
            .retain(|file, _| files.contains(file));
    }
}

/// Hashes the content of a file, which may be secret.
fn fingerprint(file: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let content = regular_file::read(file, MAX_FILE_BYTES);
    content.ok().hash(&mut hasher);
    hasher.finish()
}

//! Triggers of config reloads: SIGHUP, and changes of the config files.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::PathBuf,
    time::Duration,
};

use futures_util::future::OptionFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::file_watcher::FileWatcher;
use crate::state::{App, ReloadCause};

/// Delay after a change, because editors and Kubernetes change files in several steps.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Reloads the config when it may have changed. Listens from its creation on.
#[derive(Debug)]
pub(super) struct ReloadTrigger {
    hangups: Signal,
    watcher: Option<FileWatcher>,
    files: Vec<PathBuf>,
    /// Hash of the files when they were last read.
    fingerprint: u64,
}

impl ReloadTrigger {
    /// Starts to watch the files of the current config.
    ///
    /// # Errors
    ///
    /// Returns an error if the signal handler cannot be installed.
    pub(super) fn new(app: &App) -> io::Result<Self> {
        let mut trigger = Self {
            hangups: signal(SignalKind::hangup())?,
            watcher: None,
            files: Vec::new(),
            fingerprint: 0,
        };
        trigger.watch_config_files(app);
        Ok(trigger)
    }

    /// Reloads the config on each trigger. Never returns.
    pub(super) async fn run(mut self, app: App) {
        loop {
            let cause = tokio::select! {
                _ = self.hangups.recv() => {
                    self.fingerprint = fingerprint(&self.files);
                    ReloadCause::Signal
                }
                Some(Ok(())) = OptionFuture::from(self.watcher.as_mut().map(FileWatcher::changed)) => {
                    tokio::time::sleep(DEBOUNCE).await;
                    // Taken before the files are read, so that later changes are noticed.
                    let current = self.watch();
                    if std::mem::replace(&mut self.fingerprint, current) == current {
                        continue;
                    }
                    ReloadCause::FileChange
                }
            };
            let reloaded = app.clone();
            // The result is logged by `App::reload`.
            let task = tokio::task::spawn_blocking(move || drop(reloaded.reload(cause)));
            if let Err(error) = task.await {
                tracing::warn!(%error, "config reload task failed");
            }
            self.watch_config_files(&app);
        }
    }

    /// Switches to the files of the current config.
    fn watch_config_files(&mut self, app: &App) {
        let snapshot = app.snapshot();
        if self.files != snapshot.config.files {
            self.files.clone_from(&snapshot.config.files);
            self.fingerprint = self.watch();
        }
    }

    /// Watches the files anew, because replaced files are no longer watched, and returns
    /// the hash of their contents.
    fn watch(&mut self) -> u64 {
        let watcher = FileWatcher::new(&self.files).inspect_err(|error| {
            tracing::warn!(%error, "file watcher unavailable; reload with SIGHUP or POST /reload");
        });
        self.watcher = watcher.ok();
        fingerprint(&self.files)
    }
}

/// Hashes the contents of files, which may be secret.
fn fingerprint(files: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(file).ok().hash(&mut hasher);
    }
    hasher.finish()
}

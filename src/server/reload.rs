//! When to reload: on SIGHUP, and when a file of the config changes.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use crate::app::{App, fingerprint};

/// Editors and Kubernetes change files in several steps.
const SETTLED: Duration = Duration::from_millis(200);

/// Tells when to reload. Listening begins when it is made.
#[derive(Debug)]
pub(super) struct Watch {
    hangups: Signal,
    changes: mpsc::Receiver<()>,
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    files: Vec<PathBuf>,
    /// What stood in the files when they were last read.
    seen: u64,
}

impl Watch {
    /// Watches the files of the running config.
    pub(super) fn begin(app: &App) -> io::Result<Self> {
        let (change, changes) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |_| {
            // One notice is as good as many.
            let _full = change.try_send(());
        });
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!(%error, "files are not watched; SIGHUP and POST /reload remain");
        });
        let mut watch = Self {
            hangups: signal(SignalKind::hangup())?,
            changes,
            watcher: watcher.ok(),
            folders: BTreeSet::new(),
            files: Vec::new(),
            seen: 0,
        };
        watch.follow(app);
        Ok(watch)
    }

    /// Reloads whenever there is a reason to, for ever.
    pub(super) async fn run(mut self, app: App) {
        loop {
            tokio::select! {
                _ = self.hangups.recv() => self.seen = fingerprint(&self.files),
                Some(()) = self.changes.recv() => {
                    tokio::time::sleep(SETTLED).await;
                    // Taken before they are read: what changes meanwhile is seen
                    // next time.
                    let now = fingerprint(&self.files);
                    if std::mem::replace(&mut self.seen, now) == now {
                        continue;
                    }
                }
            }
            let reloaded = app.clone();
            let done = tokio::task::spawn_blocking(move || reloaded.reload()).await;
            if let Err(error) = done {
                tracing::warn!(%error, "a reload did not end");
            }
            self.follow(&app);
        }
    }

    /// Goes over to the files of the running config, and watches the folders
    /// they are in: a file that is replaced is another file.
    fn follow(&mut self, app: &App) {
        let snapshot = app.snapshot();
        if self.files == snapshot.config.files {
            return;
        }
        self.files.clone_from(&snapshot.config.files);
        self.seen = fingerprint(&self.files);
        let folders: BTreeSet<PathBuf> = self.files.iter().map(|it| folder_of(it)).collect();
        for folder in folders.difference(&self.folders) {
            let watched = match &mut self.watcher {
                Some(watcher) => watcher.watch(folder, RecursiveMode::NonRecursive),
                None => Ok(()),
            };
            if let Err(error) = watched {
                tracing::warn!(%error, "a folder of the config is not watched");
            }
        }
        self.folders = folders;
    }
}

/// A bare name is a file of the current folder.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

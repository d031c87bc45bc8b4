//! When to reload: on SIGHUP, and when a file of the config changes.

use std::{
    fs,
    future::pending,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::PathBuf,
    time::Duration,
};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::file_watcher::Notices;
use crate::state::App;

/// Editors and Kubernetes change files in several steps.
const SETTLED: Duration = Duration::from_millis(200);

/// Tells when to reload. Listening begins when it is made.
#[derive(Debug)]
pub(super) struct Watch {
    hangups: Signal,
    notices: Option<Notices>,
    files: Vec<PathBuf>,
    /// What stood in the files when they were last read.
    seen: u64,
}

impl Watch {
    /// Watches the files of the running config.
    pub(super) fn begin(app: &App) -> io::Result<Self> {
        let mut watch = Self {
            hangups: signal(SignalKind::hangup())?,
            notices: None,
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
                () = told(self.notices.as_mut()) => {
                    tokio::time::sleep(SETTLED).await;
                    // Taken before they are read: what changes meanwhile is seen
                    // next time.
                    let now = self.look();
                    if std::mem::replace(&mut self.seen, now) == now {
                        continue;
                    }
                }
            }
            let reloaded = app.clone();
            let done = tokio::task::spawn_blocking(move || reloaded.reload()).await;
            if let Err(error) = done {
                tracing::warn!(%error, "config reload task failed");
            }
            self.follow(&app);
        }
    }

    /// Goes over to the files of the running config.
    fn follow(&mut self, app: &App) {
        let snapshot = app.snapshot();
        if self.files == snapshot.config.files {
            return;
        }
        self.files.clone_from(&snapshot.config.files);
        self.seen = self.look();
    }

    /// Listens from now on, and says what stands in the files. A file that was
    /// replaced is another one, so this is done anew after each change.
    fn look(&mut self) -> u64 {
        let notices = Notices::of(&self.files).inspect_err(|error| {
            tracing::warn!(%error, "file watcher unavailable; reload with SIGHUP or POST /reload");
        });
        self.notices = notices.ok();
        fingerprint(&self.files)
    }
}

/// Waits until something may have changed; for ever if nobody tells.
async fn told(notices: Option<&mut Notices>) {
    if let Some(notices) = notices
        && notices.next().await.is_ok()
    {
        return;
    }
    let () = pending().await;
}

/// Hashes the contents of files, which may be secret.
fn fingerprint(files: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(file).ok().hash(&mut hasher);
    }
    hasher.finish()
}

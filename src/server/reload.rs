//! Triggers of config reloads: SIGHUP, and changes of the config files.

use std::{io, time::Duration};

use futures_util::future::OptionFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::file_watcher::FileWatcher;
use crate::state::{App, ReadFiles, ReloadCause};

/// Delay after a change, because editors and Kubernetes change files in several steps.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Reloads the config when it may have changed. Listens from its creation on.
#[derive(Debug)]
pub(super) struct ReloadTrigger {
    hangups: Signal,
    files: ReadFiles,
}

impl ReloadTrigger {
    /// Starts to listen for SIGHUP. Changes of `files` are noticed from their last read on.
    ///
    /// # Errors
    ///
    /// Returns an error if the signal handler cannot be installed.
    pub(super) fn new(files: ReadFiles) -> io::Result<Self> {
        let hangups = signal(SignalKind::hangup())?;
        Ok(Self { hangups, files })
    }

    /// Reloads the config on each trigger. Never returns.
    pub(super) async fn run(mut self, app: App) {
        loop {
            let cause = self.next().await;
            reload(&app, cause).await;
        }
    }

    /// Waits for the next cause of a reload.
    async fn next(&mut self) -> ReloadCause {
        loop {
            // Created anew, because replaced files are no longer watched, and before the files
            // are compared, so that later changes are noticed.
            let compared = tokio::task::spawn_blocking({
                let files = self.files.clone();
                move || (FileWatcher::new(&files.paths()), files.have_changed())
            });
            let compared = compared.await.map_err(io::Error::other);
            let (watcher, have_changed) = compared.unwrap_or_else(|error| (Err(error), false));
            if have_changed {
                return ReloadCause::FileChange;
            }
            let watcher = watcher.inspect_err(|error| {
                tracing::warn!(%error, "file watcher unavailable; reload with SIGHUP or POST /reload");
            });
            let mut watcher = watcher.ok();
            tokio::select! {
                _ = self.hangups.recv() => return ReloadCause::Signal,
                Some(Ok(())) = OptionFuture::from(watcher.as_mut().map(FileWatcher::changed)) => {
                    tokio::time::sleep(DEBOUNCE).await;
                }
                () = self.files.reloaded() => (),
            }
        }
    }
}

/// Reads the config again. The result is logged by `App::reload`.
async fn reload(app: &App, cause: ReloadCause) {
    let app = app.clone();
    let task = tokio::task::spawn_blocking(move || drop(app.reload(cause)));
    if let Err(error) = task.await {
        tracing::warn!(%error, "config reload task failed");
    }
}

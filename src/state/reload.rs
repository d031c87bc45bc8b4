//! A new config in the place of the old one: read, built whole, swapped.
//!
//! A bad one leaves the old running, and says so on `/readyz` and in a metric.

use std::{
    fmt, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use super::{App, BuildError, Snapshot};
use crate::{
    audit_log::Record,
    config::{Config, ConfigError},
    observe::ReloadOutcome,
};

/// Reads the config anew, from wherever it came.
pub type ReadConfig = dyn Fn() -> Result<Config, ConfigError> + Send + Sync;

/// Where configs come from, and how the last reload went.
#[derive(Clone, Default)]
pub struct Reloading {
    read: Option<Arc<ReadConfig>>,
    refused: Arc<Mutex<Option<String>>>,
    /// Whoever holds it reloads: two at once would both take over from one config,
    /// and what both keep would end with the first of them.
    turn: Arc<Mutex<()>>,
}

/// What came of a reload.
#[derive(Debug)]
pub enum Reload {
    /// The new config is in force.
    Swapped,
    /// The old one stays; the text says why, problem by problem.
    Refused(String),
}

impl App {
    /// Lets the config be read anew by `read`.
    pub fn reload_with(&mut self, read: Arc<ReadConfig>) {
        self.reloading.read = Some(read);
    }

    /// Reads and builds the config anew, and swaps it in if it is good.
    ///
    /// Requests under way keep the old one. Reads files, so it blocks.
    pub fn reload(&self) -> Reload {
        let turn = self.reloading.turn.lock();
        let _turn = turn.unwrap_or_else(PoisonError::into_inner);
        let reload = match self.rebuild() {
            Ok(snapshot) => {
                self.swap(snapshot);
                tracing::info!("config reloaded");
                Reload::Swapped
            }
            Err(why) => {
                tracing::warn!(problems = why, "config reload rejected");
                Reload::Refused(why)
            }
        };
        let refused = match &reload {
            Reload::Swapped => None,
            Reload::Refused(why) => Some(why.clone()),
        };
        let outcome = match &reload {
            Reload::Swapped => ReloadOutcome::Applied,
            Reload::Refused(_) => ReloadOutcome::Rejected,
        };
        self.shared.metrics.record_reload(outcome);
        if let Some(audit) = &self.snapshot().audit {
            audit.tell(&Record::Reload { outcome });
        }
        let last = self.reloading.refused.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = refused;
        reload
    }

    /// Why the last reload was refused, if it was.
    pub fn refused_config(&self) -> Option<String> {
        let last = self.reloading.refused.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn rebuild(&self) -> Result<Snapshot, String> {
        let Some(read) = &self.reloading.read else {
            return Err("there is no config file to read".to_owned());
        };
        let config = read().map_err(|error| error.to_string())?;
        let old = self.snapshot();
        if (config.listen, config.admin.listen) != (old.config.listen, old.config.admin.listen) {
            tracing::warn!("listener addresses changed; restart to apply");
        }
        let built = Snapshot::build(config, &self.shared, Some(&*old));
        let opened = built.and_then(|it| Ok(it.recorded(&self.shared, Some(&*old))?));
        opened.map_err(|error: BuildError| error.to_string())
    }
}

/// Tells the contents of files apart without keeping them: secrets are among
/// them.
pub fn fingerprint(files: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(file).ok().hash(&mut hasher);
    }
    hasher.finish()
}

impl fmt::Debug for Reloading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloading").finish_non_exhaustive()
    }
}

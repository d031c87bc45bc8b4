//! Source of the config in use: the config file, or a stored revision that was promoted.
//!
//! The config file decides. A promoted revision stays in use as long as the version of the
//! config file is that at the time of the promotion; a change of the file ends it.

mod promotion_lines;
mod read_files;
mod source_error;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use self::{read_files::ReadFiles, source_error::SourceError};
use super::revision_store::{
    ActiveRevision, FolderLock, RevisionError, RevisionList, RevisionStore, StoredRevision,
    is_version,
};
use crate::{
    audit_log::PromotionRecord,
    config::{Config, ConfigError, ConfigFiles, PolicyLayer},
    mutex::Mutex,
};

/// Reads a config from one of its sources, with the policies of these bundles if it has the
/// `source` of the config in use.
pub type ReadConfig =
    dyn Fn(ConfigInput<'_>, Vec<PolicyLayer>) -> Result<Config, ConfigError> + Send + Sync;

/// Stores the bundles that are about to be in use.
pub type StoreLayers = dyn Fn(&[PolicyLayer]) -> Result<(), String> + Send + Sync;

/// Source from which [`ReadConfig`] reads a config.
#[derive(Debug, Clone)]
pub enum ConfigInput<'a> {
    /// The config file of the command line.
    File,
    /// Another file in its directory, with the same command line.
    Other(&'a Path),
    /// The files of a stored revision.
    Stored(Arc<ConfigFiles>),
    /// A text that an operator has posted, which names no other file.
    Posted(String),
}

/// Source of the config in use. Clones share their state.
#[derive(Clone)]
pub struct ConfigSource {
    read: Arc<ReadConfig>,
    store_layers: Option<Arc<StoreLayers>>,
    state: Arc<Mutex<SourceState>>,
    files: ReadFiles,
}

/// The config file when it was last valid, and the revision in use.
#[derive(Debug, Clone, Default)]
struct SourceState {
    file_version: String,
    files: Vec<PathBuf>,
    store: Option<RevisionStore>,
    /// The folder that this process has locked.
    lock: Option<Arc<FolderLock>>,
    active: Option<ActiveRevision>,
    /// The bundles in use, which are read again with the config file.
    layers: Vec<PolicyLayer>,
}

impl ConfigSource {
    /// A source that reads with `read`.
    pub fn new(read: Arc<ReadConfig>) -> Self {
        Self {
            read,
            store_layers: None,
            state: Arc::default(),
            files: ReadFiles::default(),
        }
    }

    /// Returns the files of the config in use, and of the last config if it was refused.
    pub const fn files(&self) -> &ReadFiles {
        &self.files
    }

    /// The same source, whose bundles are stored by `store_layers` before they are used.
    #[must_use]
    pub fn with_layers(self, store_layers: Arc<StoreLayers>) -> Self {
        Self {
            store_layers: Some(store_layers),
            ..self
        }
    }

    /// Reads the config file with the policies of these bundles.
    ///
    /// # Errors
    ///
    /// Returns every problem of the config and of the bundles.
    pub fn read_layers(&self, layers: Vec<PolicyLayer>) -> Result<Config, SourceError> {
        self.load(ConfigInput::File, layers).map_err(|error| {
            let SourceState { layers, .. } = self.state();
            // New bundles are not refused for problems of the config file.
            match self.load(ConfigInput::File, layers.clone()) {
                Err(error) if !layers.is_empty() => SourceError::FileOfBundles(error),
                _ => error.into(),
            }
        })
    }

    /// Reads the config in use: that of the file, or the promoted revision if the version of
    /// the file is that at the time of the promotion.
    ///
    /// # Errors
    ///
    /// Returns every problem of the config, or of the stored revision.
    pub fn read(&self) -> Result<Config, SourceError> {
        let SourceState { layers, lock, .. } = self.state();
        self.files.begin_read();
        let file = self.load(ConfigInput::File, layers.clone())?;
        let kept = file.revisions.as_ref().filter(|_| !file.texts.is_empty());
        let store = kept.cloned().map(RevisionStore::new);
        let active = store.as_ref().map(RevisionStore::active);
        let active = active.transpose()?.flatten();
        let state = SourceState {
            file_version: file.version.clone(),
            files: file.files.clone(),
            store,
            lock,
            active,
            layers,
        };
        let promoted = state.promoted().map(|active| active.revision.clone());
        let promoted = state.store.as_ref().zip(promoted);
        let promoted = promoted.map(|(store, version)| store.load_active(&version));
        *self.state.lock() = state;
        match promoted {
            Some(revision) => self.read_stored(revision?),
            None => Ok(file),
        }
    }

    /// Reads a config that is not taken into use, with the bundles in use.
    ///
    /// # Errors
    ///
    /// Returns every problem of the config.
    pub(super) fn read_other(&self, input: ConfigInput<'_>) -> Result<Config, ConfigError> {
        (self.read)(input, self.state().layers)
    }

    /// Reads a config that is about to be in use, and keeps the list of its files.
    fn load(
        &self,
        input: ConfigInput<'_>,
        layers: Vec<PolicyLayer>,
    ) -> Result<Config, ConfigError> {
        let read = (self.read)(input, layers);
        let files = read
            .as_ref()
            .map_or_else(|error| &error.files, |config| &config.files);
        self.files.add(files);
        read
    }

    /// Returns the stored revision of a version.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if it cannot be read.
    pub(super) fn stored(&self, version: &str) -> Result<StoredRevision, RevisionError> {
        self.state_and_store()?.1.load(version)
    }

    /// Reads the config of a stored revision.
    ///
    /// # Errors
    ///
    /// Returns every problem of the config.
    pub(super) fn read_stored(&self, revision: StoredRevision) -> Result<Config, SourceError> {
        let (state, store) = self.state_and_store()?;
        let StoredRevision { version, files, .. } = revision;
        let mut config = match (self.read)(ConfigInput::Stored(files), Vec::new()) {
            Ok(config) => config,
            Err(source) => return Err(SourceError::Stored { version, source }),
        };
        if config.version != version {
            return Err(store.differs(&version, &config.version).into());
        }
        // A change of the config file ends the promotion.
        let more = state.files.into_iter();
        let more: Vec<_> = more.filter(|file| !config.files.contains(file)).collect();
        config.files.extend(more);
        Ok(config)
    }

    /// Reads the config that is rolled out: a stored revision, or another file in the directory
    /// of the config file.
    ///
    /// # Errors
    ///
    /// Returns every problem of the config.
    pub(super) fn read_candidate(&self, to: &str) -> Result<Config, SourceError> {
        if is_version(to) {
            return self.read_stored(self.stored(to)?);
        }
        let (state, _) = self.state_and_store()?;
        let directory = state.files.first().and_then(|file| file.parent());
        let path = directory.unwrap_or(Path::new("")).join(to);
        Ok(self.load(ConfigInput::Other(&path), Vec::new())?)
    }

    /// Returns whether an operator took a version into use, and the config file has not changed
    /// since.
    pub(super) fn is_promoted(&self, version: &str) -> bool {
        let state = self.state();
        let file = &state.file_version;
        state.active.as_ref().is_some_and(|active| {
            (active.revision.as_str(), &active.file) == (version, file) && !active.by.is_empty()
        })
    }

    /// Stores the config that is rolled out, unless it is a stored revision.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be stored.
    pub(super) fn store_candidate(&self, config: &Config) -> Result<(), RevisionError> {
        let (state, store) = self.state_and_store()?;
        let stored = store.load(&config.version);
        if stored.is_ok_and(|stored| stored.files == config.texts) {
            return Ok(());
        }
        self.lock(&store)?;
        let mut needed = vec![state.file_version.as_str()];
        if let Some(active) = &state.active {
            needed.extend(active.previous.as_deref());
            needed.push(&active.revision);
        }
        store.save(config, "rollout", &needed)
    }

    /// Returns whether the rollout of a version was aborted since the config file changed.
    pub(super) fn is_aborted(&self, version: &str) -> bool {
        let state = self.state();
        state.aborted().iter().any(|aborted| aborted == version)
    }

    /// Stores that the rollout of a version was aborted, so that a restart does not begin it
    /// anew.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be stored.
    pub(super) fn store_abort(&self, version: &str) -> Result<(), RevisionError> {
        let mut state = self.state.lock();
        let SourceState { store, active, .. } = &mut *state;
        let (Some(store), Some(active)) = (store, active) else {
            return Ok(());
        };
        active.aborted_rollouts.push(version.to_owned());
        store.set_active(active)
    }

    /// Stores a config that is about to be in use, and keeps the revision of the `candidate` that
    /// is rolled out. With `promotion`, it stays in use until the config file changes.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be stored; the previous one stays.
    pub(super) fn store(
        &self,
        config: &Config,
        candidate: Option<&Config>,
        cause: &str,
        promotion: Option<&PromotionRecord>,
    ) -> Result<(), RevisionError> {
        self.store_layers(&config.layers)?;
        self.files.set(&config.files);
        let Ok((state, store)) = self.state_and_store() else {
            return Ok(());
        };
        self.lock(&store)?;
        let before = state.active.clone();
        let is_same = |active: &&ActiveRevision| {
            (&active.revision, &active.file) == (&config.version, &state.file_version)
        };
        // A promotion of the revision in use changes by whom it is in use.
        if promotion.is_none() && before.as_ref().is_some_and(|active| is_same(&active)) {
            return Ok(());
        }
        let previous = match before {
            Some(before) if before.revision != config.version => Some(before.revision),
            Some(before) => before.previous,
            None => None,
        };
        let mut active = ActiveRevision {
            revision: config.version.clone(),
            file: state.file_version.clone(),
            previous,
            by: promotion.map_or_else(String::new, |promotion| promotion.by.clone()),
            report: promotion.and_then(|promotion| promotion.report.clone()),
            aborted_rollouts: Vec::new(),
            unrecorded: Vec::new(),
        };
        let candidate = candidate.map(|candidate| &candidate.version);
        let needed = [Some(&active.file), active.previous.as_ref(), candidate];
        let needed: Vec<&str> = needed.into_iter().flatten().map(String::as_str).collect();
        store.save(config, cause, &needed)?;
        // Locked, because a rollout that is aborted meanwhile stores the active revision, too.
        let mut state = self.state.lock();
        active.aborted_rollouts = state.aborted().to_vec();
        let unrecorded = state.active.iter().flat_map(|before| &before.unrecorded);
        active.unrecorded = unrecorded.chain(promotion).cloned().collect();
        store.set_active(&active)?;
        state.active = Some(active);
        Ok(())
    }

    /// Returns the stored revisions: that in use first, the others by their time, newest first.
    ///
    /// # Errors
    ///
    /// Fails if none are kept, or if they cannot be read.
    pub(super) fn history(&self) -> Result<RevisionList, RevisionError> {
        let (state, store) = self.state_and_store()?;
        let mut list = store.list()?;
        let active = state.active.map(|active| active.revision);
        let is_other = |revision: &StoredRevision| active.as_ref() != Some(&revision.version);
        list.revisions.sort_by_key(is_other);
        Ok(list)
    }

    /// Locks the folder of revisions, unless this process has locked it before.
    fn lock(&self, store: &RevisionStore) -> Result<(), RevisionError> {
        let mut state = self.state.lock();
        if !state
            .lock
            .as_ref()
            .is_some_and(|lock| store.is_locked_by(lock))
        {
            state.lock = Some(Arc::new(store.lock()?));
        }
        Ok(())
    }

    /// Returns the revision in use, if revisions are kept.
    pub(super) fn active(&self) -> Option<ActiveRevision> {
        self.state().active
    }

    /// Stores the bundles that are about to be in use, if they are others than before.
    fn store_layers(&self, layers: &[PolicyLayer]) -> Result<(), RevisionError> {
        let Some(store_layers) = &self.store_layers else {
            return Ok(());
        };
        let before = self.state().layers;
        let before = before.iter().map(PolicyLayer::signed_bundle);
        if before.ne(layers.iter().map(PolicyLayer::signed_bundle)) {
            store_layers(layers).map_err(RevisionError::Bundles)?;
            self.state.lock().layers = layers.to_vec();
        }
        Ok(())
    }

    fn state_and_store(&self) -> Result<(SourceState, RevisionStore), RevisionError> {
        let state = self.state();
        let store = state.store.clone().ok_or(RevisionError::NotKept)?;
        Ok((state, store))
    }

    fn state(&self) -> SourceState {
        self.state.lock().clone()
    }
}

impl SourceState {
    /// Returns the revision in use if it is another than that of the config file.
    fn promoted(&self) -> Option<&ActiveRevision> {
        let active = self.active.as_ref()?;
        let is_unchanged = active.file == self.file_version;
        (is_unchanged && active.revision != self.file_version).then_some(active)
    }

    /// Returns the versions whose rollouts were aborted under the config file as it is.
    fn aborted(&self) -> &[String] {
        let active = self.active.as_ref();
        let active = active.filter(|active| active.file == self.file_version);
        let aborted = active.map(|active| active.aborted_rollouts.as_slice());
        aborted.unwrap_or_default()
    }
}

impl fmt::Debug for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigSource")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

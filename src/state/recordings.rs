//! The recording of a snapshot: the recorder and the shadow, with the rules and the revision of
//! one config.

mod shadow_slot;

use std::{sync::Arc, time::SystemTime};

use http::request::Parts;
use tokio_util::task::TaskTracker;

pub use self::shadow_slot::{ShadowAction, ShadowError, ShadowRequest, ShadowSlot, ShadowStatus};
use super::resources::AppResources;
use crate::{
    config::{Config, ConfigError, Problem},
    hook::HookTable,
    observe::recorder::Sink,
    policy::redact_patterns,
    recording::{ExchangeRecorder, RecordingSink, RuleDefinition},
};

/// The recording of one config, if it has one.
#[derive(Debug)]
pub struct Recordings {
    recorder: Option<Arc<ExchangeRecorder>>,
    shadow: Arc<ShadowSlot>,
    rules: Arc<[RuleDefinition]>,
    revision: Arc<str>,
}

impl Recordings {
    /// Continues the recording of `previous`, if its settings are the same. Starts nothing.
    ///
    /// # Errors
    ///
    /// If the patterns of policies cannot be compiled.
    pub(super) fn new(
        config: &Config,
        table: &HookTable,
        resources: &AppResources,
        previous: Option<&Self>,
    ) -> Result<Self, ConfigError> {
        let previous = previous.and_then(|previous| previous.recorder.as_ref());
        let recorder = config.record.as_ref().map(|settings| {
            let patterns = redact_patterns(config);
            ExchangeRecorder::new(settings, patterns, &resources.metrics, previous)
        });
        let recorder = recorder.transpose().map_err(|error| {
            let message = format!("`record.redact`: {error}");
            ConfigError::from(Problem::without_span(message))
        })?;
        Ok(Self {
            recorder,
            shadow: Arc::clone(&resources.shadow),
            rules: table.definitions().into(),
            revision: config.version.as_str().into(),
        })
    }

    /// Starts the writer, once the snapshot is in use.
    pub(super) fn start(&self, tasks: &TaskTracker) {
        if let Some(recorder) = &self.recorder {
            recorder.start(tasks);
        }
    }

    /// Returns the sinks of an exchange of a caller: none, if it is neither recorded nor given to
    /// the shadow.
    pub(super) fn sinks(&self, caller: &str, head: &Parts) -> impl Iterator<Item = Box<dyn Sink>> {
        let recorder = self.recorder.as_ref();
        let recorder = recorder.map(|recorder| Arc::clone(recorder.collector()));
        let collectors = recorder.into_iter().chain(self.shadow.collector());
        let started = SystemTime::now();
        let collectors = collectors.filter(|collector| collector.collects_caller(caller));
        collectors.map(move |collector| {
            let sink = RecordingSink::new(&collector, &self.rules, &self.revision, head, started);
            Box::new(sink) as Box<dyn Sink>
        })
    }
}

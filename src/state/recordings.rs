//! The recording of a snapshot: the recorder, with the rules and the revision of one config.

use std::sync::Arc;

use http::request::Parts;
use tokio_util::task::TaskTracker;

use crate::{
    config::{Config, ConfigError, Problem},
    hook::HookTable,
    observe::{Metrics, recorder::Sink},
    policy::redact_patterns,
    recording::{ExchangeRecorder, RecordingSink, RuleDefinition},
};

/// The recording of one config, if it has one.
#[derive(Debug)]
pub struct Recordings {
    recorder: Option<Arc<ExchangeRecorder>>,
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
        metrics: &Arc<Metrics>,
        previous: Option<&Self>,
    ) -> Result<Self, ConfigError> {
        let previous = previous.and_then(|previous| previous.recorder.as_ref());
        let recorder = config.record.as_ref().map(|settings| {
            ExchangeRecorder::new(settings, redact_patterns(config), metrics, previous)
        });
        let recorder = recorder.transpose().map_err(|error| {
            let message = format!("`record.redact`: {error}");
            ConfigError::from(Problem::without_span(message))
        })?;
        Ok(Self {
            recorder,
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

    /// Returns the sink of an exchange of a caller; `None` if it is not recorded.
    pub(super) fn sink(&self, caller: &str, head: &Parts) -> Option<Box<dyn Sink>> {
        let recorder = self.recorder.as_ref()?;
        let sink = || RecordingSink::new(recorder, &self.rules, &self.revision, head);
        let is_recorded = recorder.records_caller(caller);
        is_recorded.then(|| Box::new(sink()) as Box<dyn Sink>)
    }
}

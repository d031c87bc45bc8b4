//! The recorder of a config: the exchanges that it collects, and the start of its writer.

use std::sync::{
    Arc,
    mpsc::{Receiver, channel},
};

use stream_redact::{Mask, MaskError};
use tokio_util::task::TaskTracker;

use super::{
    collector::ExchangeCollector, raw_exchange::CollectedExchange, segment_writer::SegmentWriter,
};
use crate::{
    config::{RecordRedaction, RecordSettings},
    mutex::Mutex,
    observe::{
        Metrics,
        redaction::{MaskPatterns, full_mask},
    },
};

/// Bytes that recordings hold in memory: exchanges in flight, and those that wait for the
/// writer.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// Type and definition of a policy or hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleDefinition {
    /// Type of the hook; `builtin` for policies.
    pub kind: String,
    /// SHA-256 of the definition, in hex.
    pub definition: String,
}

/// Records exchanges of one config. Its writer ends when this is dropped.
#[derive(Debug)]
pub struct ExchangeRecorder {
    settings: RecordSettings,
    patterns: MaskPatterns,
    mask: Option<Mask>,
    metrics: Arc<Metrics>,
    collector: Arc<ExchangeCollector>,
    /// The end of the collector's queue, until the writer is started.
    unstarted: Mutex<Option<Receiver<Box<CollectedExchange>>>>,
}

impl ExchangeRecorder {
    /// Returns the recorder of these settings: `previous`, if it has the same. Starts nothing.
    ///
    /// # Errors
    ///
    /// If the patterns cannot be compiled.
    pub fn new(
        settings: &RecordSettings,
        patterns: MaskPatterns,
        metrics: &Arc<Metrics>,
        previous: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, MaskError> {
        let is_same = |previous: &&Arc<Self>| {
            (&previous.settings, &previous.patterns) == (settings, &patterns)
        };
        if let Some(previous) = previous.filter(is_same) {
            return Ok(Arc::clone(previous));
        }
        let mask = match settings.redact {
            RecordRedaction::None => None,
            RecordRedaction::All => Some(full_mask(&patterns)?),
        };
        let (queue, receiver) = channel();
        let queue = Box::new(move |exchange| queue.send(exchange).is_ok());
        let (what, dropped) = (settings.what.clone(), metrics.recording_dropped.clone());
        let collector = ExchangeCollector::new(what, MAX_QUEUED_BYTES, queue, dropped);
        Ok(Arc::new(Self {
            settings: settings.clone(),
            patterns,
            mask,
            metrics: Arc::clone(metrics),
            collector: Arc::new(collector),
            unstarted: Mutex::new(Some(receiver)),
        }))
    }

    /// Starts the writer, unless it was started before.
    pub fn start(&self, tasks: &TaskTracker) {
        let Some(receiver) = self.unstarted.lock().take() else {
            return;
        };
        let (settings, metrics) = (self.settings.clone(), Arc::clone(&self.metrics));
        let writer = SegmentWriter::new(settings, self.mask.clone(), metrics);
        tasks.spawn_blocking(move || writer.run(&receiver));
    }

    /// Returns the collector of the exchanges that are recorded.
    pub const fn collector(&self) -> &Arc<ExchangeCollector> {
        &self.collector
    }
}

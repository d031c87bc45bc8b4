//! The recorder of a config: the sample, the bounded queue, and the start of its writer.

use std::{
    collections::BTreeMap,
    fmt,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::AtomicUsize,
        mpsc::{Receiver, Sender, channel},
    },
};

use aws_lc_rs::digest::{SHA256, digest};
use lru::LruCache;
use stream_redact::{DETECTORS, Mask, MaskError, Style};
use tokio_util::task::TaskTracker;

use super::{
    raw_exchange::{ExchangeSummary, QueuedExchange, RawExchange},
    segment_writer::SegmentWriter,
};
use crate::{
    config::{RecordRedaction, RecordSettings, RecordedKind, SampleUnit},
    observe::{Metrics, recorder::ExchangeAction},
};

/// Sessions whose recorded calls are counted.
const MAX_SESSIONS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Type and definition of a policy or hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleDefinition {
    /// Type of the hook; `builtin` for policies.
    pub kind: String,
    /// SHA-256 of the definition, in hex.
    pub definition: String,
}

/// Patterns of `redact` policies, by name.
pub type MaskPatterns = BTreeMap<String, String>;

/// Records exchanges of one config. Its writer ends when this is dropped.
pub struct ExchangeRecorder {
    settings: RecordSettings,
    patterns: MaskPatterns,
    mask: Option<Mask>,
    metrics: Arc<Metrics>,
    memory: Arc<AtomicUsize>,
    /// Number of recorded calls by session.
    places: Mutex<LruCache<String, u64>>,
    queue: Sender<QueuedExchange>,
    /// The other end of the queue, until the writer is started.
    unstarted: Mutex<Option<Receiver<QueuedExchange>>>,
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
            RecordRedaction::All => Some(all_patterns(&patterns)?),
        };
        let (queue, receiver) = channel();
        Ok(Arc::new(Self {
            settings: settings.clone(),
            patterns,
            mask,
            metrics: Arc::clone(metrics),
            memory: Arc::default(),
            places: Mutex::new(LruCache::new(MAX_SESSIONS)),
            queue,
            unstarted: Mutex::new(Some(receiver)),
        }))
    }

    /// Starts the writer, unless it was started before.
    pub fn start(&self, tasks: &TaskTracker) {
        let mut unstarted = self
            .unstarted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(receiver) = unstarted.take() else {
            return;
        };
        let (settings, metrics) = (self.settings.clone(), Arc::clone(&self.metrics));
        let writer = SegmentWriter::new(settings, self.mask.clone(), metrics);
        tasks.spawn_blocking(move || writer.run(&receiver));
    }

    /// Returns whether exchanges of this caller are recorded.
    pub fn records_caller(&self, name: &str) -> bool {
        let callers = &self.settings.what.callers;
        self.settings.what.sample > 0.0
            && (callers.is_empty() || callers.iter().any(|caller| caller == name))
    }

    /// Returns whether a call is in the sample. Sessions are in it as a whole, and those of
    /// equal id on all replicas.
    pub(super) fn is_sampled(&self, session: &str, request: &str) -> bool {
        let key = match self.settings.what.sessions {
            SampleUnit::Whole if !session.is_empty() => session,
            SampleUnit::Whole | SampleUnit::Calls => request,
        };
        is_in_sample(key, self.settings.what.sample)
    }

    /// Returns whether exchanges with this outcome are recorded.
    pub(super) fn records(&self, action: ExchangeAction, is_tool_denied: bool) -> bool {
        self.settings.what.only.iter().any(|kind| match kind {
            RecordedKind::All => true,
            RecordedKind::Denied => {
                is_tool_denied || matches!(action, ExchangeAction::Deny | ExchangeAction::Stop)
            }
            RecordedKind::Edited => {
                matches!(action, ExchangeAction::Edit | ExchangeAction::Respond)
            }
        })
    }

    /// Returns the number of recorded calls of a session before this one.
    pub(super) fn next_place(&self, session: &str) -> u64 {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let next = places.get_or_insert_mut(session.to_owned(), || 0);
        *next += 1;
        *next - 1
    }

    pub(super) fn memory(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.memory)
    }

    /// Queues an exchange, whose memory is reserved; never waits.
    pub(super) fn push(&self, raw: Box<RawExchange>, summary: ExchangeSummary) {
        if self.queue.send(QueuedExchange { raw, summary }).is_err() {
            self.count_dropped(1);
        }
    }

    pub(super) fn count_dropped(&self, exchanges: u64) {
        self.metrics.recording_dropped.inc_by(exchanges);
    }
}

impl fmt::Debug for ExchangeRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeRecorder")
            .field("path", &self.settings.path)
            .finish_non_exhaustive()
    }
}

/// Returns whether a key is in a sample of this share. The hash of the key decides.
fn is_in_sample(key: &str, share: f64) -> bool {
    let hash = digest(&SHA256, key.as_bytes());
    let start = hash.as_ref().first_chunk().copied().unwrap_or_default();
    f64::from(u32::from_be_bytes(start)) < share * f64::from(u32::MAX) || share >= 1.0
}

/// Compiles all detectors and the patterns of policies.
fn all_patterns(patterns: &MaskPatterns) -> Result<Mask, MaskError> {
    let detectors: Vec<&str> = DETECTORS.iter().map(|detector| detector.name).collect();
    let patterns = patterns.iter();
    let patterns: Vec<(&str, &str)> = patterns
        .map(|(name, pattern)| (name.as_str(), pattern.as_str()))
        .collect();
    Mask::new(&detectors, &patterns, &Style::Label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_about_its_share_of_all_sessions() {
        let sampled = |share| {
            let keys = (0..10_000).map(|number| format!("session-{number}"));
            keys.filter(|key| is_in_sample(key, share)).count()
        };

        assert!((800..1200).contains(&sampled(0.1)), "{}", sampled(0.1));
        assert_eq!((sampled(0.0), sampled(1.0)), (0, 10_000));
    }
}

//! Inputs of a replayed request that replace the network, the clock and randomness.

use std::sync::Arc;

use crate::{
    mutex::Mutex, observe::recorder::Sink, session::RecordedMatch, upstream::RecordedAnswers,
};

/// Inputs of a replayed request, stored in its extensions. Requests received over a connection have
/// none.
#[derive(Debug, Clone)]
pub struct ReplayInput {
    /// Time at which the request was recorded (RFC 3339).
    pub time: Arc<str>,
    /// Session that the request was matched to.
    pub session: Option<Arc<RecordedMatch>>,
    /// Answers of the model API.
    pub answers: Arc<RecordedAnswers>,
    sink: Arc<Mutex<Option<Box<dyn Sink>>>>,
}

impl ReplayInput {
    /// Input of one request, whose events `sink` receives.
    pub fn new(
        time: &str,
        session: Option<RecordedMatch>,
        answers: Arc<RecordedAnswers>,
        sink: Box<dyn Sink>,
    ) -> Self {
        Self {
            time: time.into(),
            session: session.map(Arc::new),
            answers,
            sink: Arc::new(Mutex::new(Some(sink))),
        }
    }

    /// Takes the sink of the request, once.
    pub fn take_sink(&self) -> Option<Box<dyn Sink>> {
        let mut sink = self.sink.lock();
        sink.take()
    }
}

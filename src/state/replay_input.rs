//! What a replay gives to a request instead of the network, the clock and chance.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{observe::recorder::Sink, session::RecordedMatch, upstream::RecordedAnswers};

/// What a replay gives to a request, in the extensions of the request. Nothing that arrives over
/// a connection has it.
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
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.take()
    }
}

//! Content of an exchange in flight, until it is known whether it is kept.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    config::ContentSettings,
    observe::{
        recorder::{BodyPart, ExchangeAction},
        trace::{
            record::CallRecord,
            store::{
                TraceStore,
                content::{ContentReason, RawContent},
                masking::MAX_BODY_BYTES,
                memory::InFlightBytes,
                raw_body::{RawAnswer, RawRequest},
            },
        },
    },
};

/// Content of an exchange in flight.
#[derive(Debug)]
pub(crate) struct ContentCapture {
    settings: ContentSettings,
    request: Option<RawRequest>,
    /// Request that went upstream, unless it is the kept one of the agent.
    upstream_request: Option<RawRequest>,
    answer: RawAnswer,
    /// Number of chunks of the answer before each round.
    round_starts: Vec<usize>,
    agent_answer: RawAnswer,
    bytes: InFlightBytes,
}

impl ContentCapture {
    pub(crate) fn new(store: &TraceStore, settings: ContentSettings) -> Self {
        Self {
            settings,
            request: None,
            upstream_request: None,
            answer: RawAnswer::default(),
            round_starts: Vec::new(),
            agent_answer: RawAnswer::default(),
            bytes: store.contents.in_flight(),
        }
    }

    /// Begins a round: the chunks of the model's answer that follow are of another response.
    pub(crate) fn begin_round(&mut self) {
        self.round_starts.push(self.answer.kept_chunks());
    }

    /// Adds a body or chunk. A body that is too large, or for which there is no memory, is not
    /// kept.
    pub(crate) fn add(&mut self, store: &TraceStore, part: BodyPart, body: &Bytes) {
        match part {
            BodyPart::AgentRequest => self.request = Some(self.raw_request(store, body)),
            BodyPart::UpstreamRequest => {
                let from_agent = self.request.as_ref();
                let is_kept = from_agent.is_some_and(|request| request.keeps(body));
                self.upstream_request = (!is_kept).then(|| self.raw_request(store, body));
            }
            BodyPart::ModelAnswer => {
                let kept = self.kept(store, body, self.answer.bytes);
                self.answer.add(body, kept);
            }
            BodyPart::AgentAnswer => {
                let kept = self.kept(store, body, self.agent_answer.bytes);
                self.agent_answer.add(body, kept);
            }
        }
    }

    /// Queues the content for masking, if it is kept.
    pub(crate) fn finish(self, store: &TraceStore, record: &CallRecord, is_watched: bool) {
        let Some(because) = self.reason(record, is_watched) else {
            return;
        };
        // A request that was ready is not sent if an error comes first.
        let upstream_request = self.upstream_request.filter(|_| record.rounds > 0);
        // Chunks that were ready are not sent if an error takes their place.
        let agent_answer = if record.is_successful() {
            self.agent_answer
        } else {
            RawAnswer::default()
        };
        store.contents.push(RawContent {
            id: Arc::clone(&record.id),
            session: record.session.to_string(),
            because,
            upstream_request,
            request: self.request,
            answer: self.answer,
            round_starts: self.round_starts,
            agent_answer,
            bytes: self.bytes,
        });
    }

    fn raw_request(&mut self, store: &TraceStore, body: &Bytes) -> RawRequest {
        RawRequest::new(body.len(), self.kept(store, body, 0))
    }

    /// Returns a copy of a body or chunk, behind `before` bytes of the same answer.
    fn kept(&mut self, store: &TraceStore, body: &Bytes, before: usize) -> Option<Bytes> {
        if before + body.len() > MAX_BODY_BYTES
            || !store
                .contents
                .grow(&mut self.bytes, body.len() + size_of::<Bytes>())
        {
            store.drop_detail();
            return None;
        }
        // A piece of a read buffer would keep all of it in memory.
        Some(Bytes::copy_from_slice(body))
    }

    fn reason(&self, record: &CallRecord, is_watched: bool) -> Option<ContentReason> {
        let has_effect = !matches!(record.action, ExchangeAction::Pass | ExchangeAction::Error);
        if is_watched {
            Some(ContentReason::Watched)
        } else if self.settings.denied_or_edited && has_effect {
            Some(ContentReason::DeniedOrEdited)
        } else {
            is_sampled(&record.id, self.settings.sample).then_some(ContentReason::Sampled)
        }
    }
}

/// Returns whether a request is in the sample. Ids are random, so their digits decide.
fn is_sampled(id: &str, share: f64) -> bool {
    let digits = id.get(..8).unwrap_or_default();
    let number = u32::from_str_radix(digits, 16).unwrap_or(u32::MAX);
    share > 0.0 && f64::from(number) < share * f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_sample_has_about_its_share_of_all_requests() {
        let ids: Vec<String> = (0..10_000).map(|_| Uuid::new_v4().to_string()).collect();
        let sampled = |share| ids.iter().filter(|id| is_sampled(id, share)).count();

        let tenth = sampled(0.1);

        assert!((800..1200).contains(&tenth), "{tenth}");
        assert_eq!((sampled(0.0), sampled(1.0)), (0, 10_000));
    }
}

//! A gateway in this process on which recorded calls are replayed. It has no listener, and calls
//! no model API.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use super::{
    compare::is_left,
    comparison::UnknownReason,
    recorded_inputs::{header_map, request, request_runs, session, stored_answer},
    redaction::fix_hash_keys,
    replay_sink::{ReplaySink, ReplayedCall},
    session_order::OrderedCall,
};
use crate::{
    config::Config,
    dialect::{self, Api},
    error::ErrorReason,
    middleware::{Authenticated, RequestId},
    proxy,
    recording::{
        AnswerBody, RecordedAnswer, RecordedBody, RecordedChunk, RecordedExchange, RecordedOutcome,
        RecordedResponse, RecordedRound, RuleDefinition,
    },
    state::{App, AppResources, BuildError, ReplayInput, content_name},
    transport::RecordedRuns,
    upstream::RecordedAnswers,
};

/// Most sessions that are kept at once. Live gateways may keep more, but not in 512 MiB.
const MAX_SESSIONS: usize = 8192;

/// Longest replay of one call, beyond any timeout of hooks.
const CALL_TIMEOUT: Duration = Duration::from_hours(1);

/// Errors of the moment, or of a body that is not recorded as it arrived.
const UNREAD: [ErrorReason; 5] = [
    ErrorReason::AuditUnavailable,
    ErrorReason::BodyBroken,
    ErrorReason::BodyTimeout,
    ErrorReason::Overloaded,
    ErrorReason::UnsupportedMediaType,
];

/// Reason code of a call whose caller the config does not serve.
pub(super) const UNKNOWN_CALLER: &str = "UNAUTHENTICATED";

/// Hooks that a replay runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReplayedHooks {
    /// Policies. Hooks answer as recorded, if definition and input are the same, or not at all.
    Policies,
    /// The same, but an event of a hook without a recorded answer is unknown.
    Recorded,
    /// All hooks run, with all their effects.
    Run,
}

/// A gateway on which recorded calls are replayed.
pub(super) struct ReplayGateway {
    pub(super) app: App,
    runs: Option<Arc<RecordedRuns>>,
    rules: Arc<[RuleDefinition]>,
    /// Names of the rules whose hashes have another key here than in a live gateway.
    pub(super) other_hash_keys: BTreeSet<String>,
}

/// A call as the gateway handled it, and what its hooks lacked.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    /// The call in the form of a recording.
    pub(super) exchange: RecordedExchange,
    /// Names of hooks without a recorded output.
    pub(super) unanswered: BTreeSet<String>,
    /// Names of the rules that ran.
    pub(super) asked: BTreeSet<String>,
    /// Duration of the call in the gateway.
    pub(super) elapsed: Duration,
}

impl ReplayGateway {
    /// Builds the gateway of a config.
    ///
    /// # Errors
    ///
    /// Returns an error if something that the config asks for cannot be built.
    pub(super) async fn new(mut config: Config, hooks: ReplayedHooks) -> Result<Self, BuildError> {
        let runs = (hooks != ReplayedHooks::Run).then(Arc::<RecordedRuns>::default);
        let resources = AppResources {
            recorded_runs: runs.clone(),
            ..AppResources::default()
        };
        config.isolate();
        let other_hash_keys = fix_hash_keys(&mut config);
        config.trace.exchanges = 0;
        config.sessions.max = config.sessions.max.min(MAX_SESSIONS);
        let app = App::new(config, resources).await?;
        let snapshot = app.snapshot();
        let table = snapshot.engine.table();
        app.resources.process_slots.resize(table.free_slots());
        let rules = table.definitions().into();
        drop(snapshot);
        Ok(Self {
            app,
            runs,
            rules,
            other_hash_keys,
        })
    }

    /// Ends the gateway, and waits for its hook processes.
    pub(super) async fn end(self) {
        self.app.end().await;
    }

    /// Replays one call.
    ///
    /// # Errors
    ///
    /// Returns the reason why it cannot be replayed.
    pub(super) async fn replay(&self, call: &OrderedCall) -> Result<Replayed, UnknownReason> {
        let recorded = &call.exchange;
        let snapshot = self.app.snapshot();
        let body = whole_body(recorded).ok_or(UnknownReason::RequestNotRecorded)?;
        let mut request = request(recorded, body).ok_or(UnknownReason::NotReplayed)?;
        let (authenticator, metrics) = (&snapshot.authenticator, &self.app.resources.metrics);
        let (name, key) = (&recorded.caller, &recorded.caller_key);
        let caller = authenticator.recorded_caller(name, key, request.headers(), metrics);
        let Some(identity) = caller else {
            return Ok(refused(recorded));
        };
        if call.resets_counters
            && let Some(session) = &recorded.session
        {
            let counters = &self.app.resources.session_counters;
            counters.remove(&identity.caller().key, &session.id);
        }
        let answers = recorded.rounds.iter().map(|round| {
            let response = round.response.as_ref();
            response.map(stored_answer).transpose()
        });
        let answers: Result<Vec<_>, _> = answers.collect();
        let answers = Arc::new(RecordedAnswers::new(answers?));
        let sink = ReplaySink::new(&self.rules);
        let session = session(recorded);
        let time = &recorded.time;
        let input = ReplayInput::new(time, session, Arc::clone(&answers), Box::new(sink.clone()));
        let extensions = request.extensions_mut();
        extensions.insert(input);
        extensions.insert(RequestId(recorded.id.as_str().into()));
        if let Some(runs) = &self.runs {
            runs.insert(&recorded.id, request_runs(recorded));
        }
        let authenticated = Authenticated {
            identity: Arc::new(identity),
            snapshot,
            named_api: Api::named(&recorded.dialect),
        };
        let started = Instant::now();
        let handled = self.handle(authenticated, request);
        let body = tokio::time::timeout(CALL_TIMEOUT, handled).await;
        let elapsed = started.elapsed();
        let runs = self.runs.as_ref();
        let runs = runs.map(|runs| runs.remove(&recorded.id));
        let body = body.map_err(|_elapsed| UnknownReason::NotReplayed)?;
        let mut call = sink.take();
        let asked = std::mem::take(&mut call.asked);
        let exchange = replayed_exchange(recorded, call, &answers, &body);
        if lacks_request(recorded, &exchange) {
            return Err(UnknownReason::RequestNotRecorded);
        }
        Ok(Replayed {
            exchange,
            asked,
            unanswered: runs.unwrap_or_default().unanswered,
            elapsed,
        })
    }

    /// Returns whether a call refers to a response that this gateway has not given its caller.
    pub(super) fn lacks_earlier_response(&self, recorded: &RecordedExchange) -> bool {
        let (snapshot, resources) = (self.app.snapshot(), &self.app.resources);
        let dialect = Api::named(&recorded.dialect).map(dialect::of);
        let body = whole_body(recorded).map(Bytes::from);
        let references = dialect.zip(body).and_then(|(dialect, body)| {
            let body = dialect.parse_request(body).ok()?;
            dialect.request_references(&body).ok()
        });
        let headers = header_map(&recorded.headers);
        let authenticator = &snapshot.authenticator;
        let (name, key) = (&recorded.caller, &recorded.caller_key);
        let caller = authenticator.recorded_caller(name, key, &headers, &resources.metrics);
        let key = caller.map_or_else(String::new, |identity| identity.caller().key);
        let mut references = references.into_iter().flatten();
        references.any(|reference| {
            let name = content_name(&reference);
            !resources.earlier_responses.is_owner(&name, &key)
        })
    }

    /// Handles a call, and returns the body of its response as far as it went.
    async fn handle(&self, authenticated: Authenticated, request: Request) -> Bytes {
        let response = proxy::handle(&self.app, authenticated, Box::new(request)).await;
        let mut body = response.into_body();
        let mut bytes = BytesMut::new();
        while let Some(Ok(frame)) = body.frame().await {
            if let Some(piece) = frame.data_ref() {
                bytes.extend_from_slice(piece);
            }
        }
        bytes.freeze()
    }
}

/// Returns whether `replayed` lacks credentials of a refused query, or the rest of a cut body.
fn lacks_request(recorded: &RecordedExchange, replayed: &RecordedExchange) -> bool {
    let [before, after] = [recorded, replayed].map(|call| call.outcome.error.as_deref());
    let is_empty = || whole_body(recorded).is_some_and(|body| body.is_empty());
    let lacks_body = || is_left(recorded) || before.is_some() && is_empty();
    before != after
        && (before == Some(ErrorReason::BadQuery.as_str())
            || after == Some(ErrorReason::BadJson.as_str()) && lacks_body())
}

/// Returns the body of a request; `None` if it is not recorded, or was not read completely.
fn whole_body(recorded: &RecordedExchange) -> Option<Vec<u8>> {
    let error = recorded.outcome.error.as_deref();
    if UNREAD.iter().any(|reason| error == Some(reason.as_str())) {
        return None;
    }
    recorded.request.bytes().map(Cow::into_owned)
}

/// Returns the replayed call in the form of a recording.
fn replayed_exchange(
    recorded: &RecordedExchange,
    call: ReplayedCall,
    answers: &RecordedAnswers,
    body: &[u8],
) -> RecordedExchange {
    let sent = answers.take_sent().into_iter().enumerate();
    let rounds = sent.map(|(at, sent)| RecordedRound {
        ms: 0,
        target: sent.target,
        sent: RecordedBody::from_bytes(&sent.body),
        response: recorded.rounds.get(at).and_then(|round| {
            let response = round.response.as_ref()?;
            Some(RecordedResponse {
                status: response.status,
                complete: response.complete,
                ..RecordedResponse::default()
            })
        }),
    });
    let bytes = RecordedBody::from_bytes(body);
    let answer = RecordedAnswer {
        ms: 0,
        status: call.status,
        body: AnswerBody::Chunks(vec![RecordedChunk { ms: 0, bytes }]),
    };
    RecordedExchange {
        rounds: rounds.collect(),
        events: call.events,
        answer: Some(answer),
        outcome: call.outcome.unwrap_or_else(|| error_outcome("INTERNAL")),
        ..head(recorded)
    }
}

/// Returns a call of a caller that is not served.
fn refused(recorded: &RecordedExchange) -> Replayed {
    Replayed {
        exchange: RecordedExchange {
            outcome: error_outcome(UNKNOWN_CALLER),
            ..head(recorded)
        },
        ..Replayed::default()
    }
}

fn error_outcome(reason: &str) -> RecordedOutcome {
    RecordedOutcome {
        action: "error".to_owned(),
        error: Some(reason.to_owned()),
        end: "complete".to_owned(),
        ..RecordedOutcome::default()
    }
}

/// Returns what is known of a call before it is handled. The request stays in the recording.
fn head(recorded: &RecordedExchange) -> RecordedExchange {
    RecordedExchange {
        v: recorded.v,
        id: recorded.id.clone(),
        time: recorded.time.clone(),
        caller: recorded.caller.clone(),
        caller_key: recorded.caller_key.clone(),
        session: recorded.session.clone(),
        dialect: recorded.dialect.clone(),
        operation: recorded.operation.clone(),
        method: recorded.method.clone(),
        target: recorded.target.clone(),
        request: RecordedBody::Omitted(0),
        ..RecordedExchange::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_a_call_that_failed_for_the_moment_is_not_replayed() {
        let answered = RecordedExchange {
            request: RecordedBody::Text("{}".to_owned()),
            ..RecordedExchange::default()
        };
        assert_eq!(whole_body(&answered), Some(b"{}".to_vec()));
        for reason in ["OVERLOADED", "AUDIT_UNAVAILABLE"] {
            let failed = RecordedExchange {
                outcome: error_outcome(reason),
                ..answered.clone()
            };
            assert_eq!(whole_body(&failed), None, "{reason}");
        }
    }
}

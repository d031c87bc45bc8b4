//! Input and result of a session lookup.

use std::collections::BTreeSet;

use super::{
    session_key::SessionKey,
    state::{SessionSource, SessionState},
};
use crate::{
    dialect::{Call, Operation, ResponseExpectation},
    event::EventName,
};

/// Origin of a request.
#[derive(Debug, Clone, Copy)]
pub struct SessionRequest<'a> {
    /// SHA-256 of the caller's credential; empty without one.
    pub caller: &'a str,
    /// `User-Agent` of the request.
    pub agent: &'a str,
    /// Name of the session, and where the request has it.
    pub named: Option<(&'a str, SessionSource)>,
    /// Id of the stored response that the request continues.
    pub continued: Option<&'a str>,
    /// Purpose of the call.
    pub role: CallRole,
    /// Session that a replayed request was matched to when it was recorded.
    pub recorded: Option<&'a RecordedMatch>,
}

/// Session that a request was matched to when it was recorded. A replay follows it, so that
/// ids are the same, and so that a call that goes otherwise does not change later ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedMatch {
    /// Id of the session.
    pub id: String,
    /// Relation of the request to the session.
    pub match_kind: MatchKind,
    /// Events that the agent reported itself.
    pub reported: BTreeSet<EventName>,
}

/// Purpose of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRole {
    /// A turn of the agent's conversation.
    Main,
    /// An auxiliary call of the agent, such as choosing a model or summarizing.
    Helper,
}

impl CallRole {
    /// Returns the purpose of a call of the agent with this `User-Agent`.
    pub fn of(call: &Call, expectation: ResponseExpectation, agent: &str) -> Self {
        let generates = call.operation.generates() && !call.retrieves();
        if generates && !is_helper_call(call, expectation, agent) {
            Self::Main
        } else {
            Self::Helper
        }
    }
}

/// Returns whether a known agent makes this call for itself: to choose a model, to compress its
/// history, to find a title, to search the web. Calls of its agents declare functions, and those of
/// gemini-cli stream.
pub fn is_helper_call(call: &Call, expectation: ResponseExpectation, agent: &str) -> bool {
    let is_google = call.method.api.is_google();
    let agents: &[&str] = if is_google {
        &["CloudCodeVSCode", "GeminiCLI"]
    } else {
        &["claude-cli", "codex", "opencode"]
    };
    agents.iter().any(|name| agent.starts_with(name))
        && !expectation.declares_functions
        && (!is_google || call.operation == Operation::Generate)
}

named_enum! {
    /// Relation of a request to the session that it was matched to.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum MatchKind {
        /// It starts a session.
        New = "new",
        /// It continues after the latest item of the session.
        Continued = "continued",
        /// It continues after an earlier item: the agent took items back.
        RolledBack = "rolled_back",
        /// It continues another agent's conversation and copies the decisions about it.
        Forked = "forked",
        /// Its history was rewritten; some items are known.
        Rewritten = "rewritten",
        /// A helper call without a session. No state is kept.
        Transient = "transient",
    }
}

/// Result of a session lookup.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) key: SessionKey,
    pub(super) state: SessionState,
    pub(super) match_kind: MatchKind,
    /// Number of leading items that are indexed already.
    pub(super) known_items: usize,
    /// Id of the session that a forked one copies.
    pub(super) parent: Option<String>,
}

impl Lookup {
    /// Returns a lookup that starts a session.
    pub(super) fn new_session(key: SessionKey) -> Self {
        Self {
            key,
            state: SessionState::default(),
            match_kind: MatchKind::New,
            known_items: 0,
            parent: None,
        }
    }
}

//! Stored sessions: their identity and size, never their content.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    error::{ApiError, ErrorReason},
    event::EventName,
    observe::trace::{CallRecord, is_key_begin},
    session::{ItemNote, SessionKey, SessionState},
    state::App,
    timestamp::rfc3339_ms,
};

/// Sessions by last activity.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionList {
    /// Sessions, most recently used first.
    pub sessions: Vec<SessionInfo>,
}

/// One session of the list.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionInfo {
    /// The id of the session. With `auth`, hooks receive it with a suffix for its caller.
    pub id: String,
    /// Method of session identification: `history`, `path`, `header`, `code_assist`,
    /// `agent_header`, `body` or `reported`.
    pub source: &'static str,
    /// The `User-Agent` of its first request.
    pub agent: String,
    /// Name of its caller; empty if it is anonymous, or was not seen by this process and is not in
    /// the config.
    pub caller_name: String,
    /// Key of its caller: derived from the caller's name, or the SHA-256 of its credential;
    /// empty without one.
    pub caller: String,
    /// Time of the first request: RFC 3339 in UTC.
    pub started: String,
    /// Time of the last request.
    pub last_seen: String,
    /// Number of user prompts.
    pub turns: u64,
    /// Number of model calls.
    pub requests: u64,
}

/// One session and what is stored of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionDetails {
    /// Identity of the session.
    #[serde(flatten)]
    pub session: SessionInfo,
    /// Items of its conversation for which hooks have run or will not run again.
    pub items: usize,
    /// Denied requests that are removed from its history.
    pub denied: usize,
    /// Tool results that are hidden from the model.
    pub replaced: usize,
    /// Prompts, results and session starts to which hooks added context.
    pub contexts: usize,
    /// True if hooks stopped a turn.
    pub stopped: bool,
    /// Events that the agent reports itself.
    #[schema(value_type = Vec<String>)]
    pub reported: BTreeSet<EventName>,
    /// Sums over its calls that the live trace of this process keeps.
    pub kept: KeptCalls,
}

/// Sums over the calls and reported events of a session that the live trace keeps.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct KeptCalls {
    /// Number of these calls and events.
    pub records: usize,
    /// Tools that they are about, by name.
    pub tools: Vec<SessionTool>,
    /// Tokens of the requests.
    pub prompt_tokens: u64,
    /// Tokens of the requests that the model API took from its cache.
    pub cached_tokens: u64,
    /// All tokens, those of answers and thoughts included.
    pub total_tokens: u64,
}

/// One tool in the kept calls of a session.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionTool {
    /// Name of the tool.
    pub name: String,
    /// Number of kept calls and events that are about it.
    pub records: usize,
    /// Number of those in which a call of it was denied.
    pub denied: usize,
}

/// Returns the sessions that were used last.
pub async fn newest(app: &App, limit: usize) -> SessionList {
    let snapshot = app.snapshot();
    let newest = snapshot.sessions.store().newest(limit).await;
    let sessions = newest
        .iter()
        .map(|(key, state)| SessionInfo::new(app, key, state));
    SessionList {
        sessions: sessions.collect(),
    }
}

/// Returns the session with an id; of several callers' sessions, that of the caller whose key
/// begins with `caller`, or the one that was used last.
///
/// # Errors
///
/// Returns an error if no session has the id.
pub async fn find(app: &App, id: &str, caller: Option<&str>) -> Result<SessionDetails, ApiError> {
    let snapshot = app.snapshot();
    let sessions = snapshot.sessions.store().find_by_id(id).await;
    let is_wanted = |key: &SessionKey| caller.is_none_or(|begin| is_key_begin(begin, &key.caller));
    let matching = sessions.iter().filter(|(key, _)| is_wanted(key));
    let newest = matching.max_by_key(|(_, state)| state.last_seen);
    let Some((key, state)) = newest else {
        let message = "no session has this id";
        return Err(ApiError::new(ErrorReason::UnknownSession, message));
    };
    Ok(SessionDetails::new(app, key, state))
}

impl SessionInfo {
    fn new(app: &App, key: &SessionKey, state: &SessionState) -> Self {
        Self {
            caller_name: caller_name(app, &key.caller),
            id: key.id.clone(),
            source: state.source.as_str(),
            agent: state.agent.clone(),
            caller: key.caller.clone(),
            started: rfc3339_ms(state.first_seen),
            last_seen: rfc3339_ms(state.last_seen),
            turns: state.turns,
            requests: state.requests,
        }
    }
}

impl SessionDetails {
    fn new(app: &App, key: &SessionKey, state: &SessionState) -> Self {
        let kept = app.resources.trace.matching(|record| is_of(record, key));
        // A note is stored for each fingerprint of its item.
        let mut notes: Vec<&ItemNote> = state.notes.values().collect();
        notes.sort();
        notes.dedup();
        let count = |has: fn(&ItemNote) -> bool| notes.iter().filter(|note| has(note)).count();
        Self {
            session: SessionInfo::new(app, key, state),
            items: state.evaluated.len().div_ceil(2),
            denied: count(|note| note.denied.is_some()),
            replaced: count(|note| note.replaced.is_some()),
            contexts: count(|note| note.context.is_some()) + usize::from(state.context.is_some()),
            stopped: count(|note| note.stopped.is_some()) > 0,
            reported: state.reported.clone(),
            kept: KeptCalls::new(&kept),
        }
    }
}

impl KeptCalls {
    fn new(records: &[Arc<CallRecord>]) -> Self {
        let mut kept = Self {
            records: records.len(),
            ..Self::default()
        };
        let mut tools: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for record in records {
            for tool in record.tools() {
                let (count, denied) = tools.entry(tool).or_default();
                *count += 1;
                *denied += usize::from(record.denies_tool(tool));
            }
            if let Some(tokens) = record.tokens {
                kept.prompt_tokens = kept.prompt_tokens.saturating_add(tokens.prompt);
                kept.cached_tokens = kept.cached_tokens.saturating_add(tokens.cached);
                kept.total_tokens = kept.total_tokens.saturating_add(tokens.total);
            }
        }
        let tools = tools.into_iter();
        kept.tools = tools
            .map(|(name, (records, denied))| SessionTool {
                name: name.to_owned(),
                records,
                denied,
            })
            .collect();
        kept
    }
}

/// Returns whether a record is of a session. It has the begin of the caller's key.
fn is_of(record: &CallRecord, key: &SessionKey) -> bool {
    *record.session == *key.id && is_key_begin(&record.caller_key, &key.caller)
}

/// Returns the name of the caller with a key; empty if it is unknown.
fn caller_name(app: &App, key: &str) -> String {
    if let Some(name) = app.snapshot().authenticator.name_of(key) {
        return name.to_owned();
    }
    let seen = app.resources.auth.name_of(key);
    seen.unwrap_or_default().to_string()
}

//! Adds a call to the transcript of its session, if transcripts are kept.

use serde_json::Value;

use super::{
    model_request::ModelRequest, response_filter::response_buffer::ResponseBuffer,
    turn_state::TurnState,
};
use crate::{
    dialect::History,
    error::ApiError,
    session::{
        CallRole, MatchKind, Session, SessionKey, TranscriptRequest, TranscriptResponse,
        Transcripts,
    },
    timestamp::utc_timestamp,
};

/// Adds the transcript's path to the fields that hooks receive.
pub(super) async fn set_path(turn: &mut TurnState<'_>, session: &Session) {
    let transcripts = turn.context.snapshot.transcripts.as_ref();
    if let Some(transcripts) = transcripts.filter(|_| session.match_kind != MatchKind::Transient) {
        let (cwd, now) = (&turn.hook_context.cwd, &turn.hook_context.timestamp);
        let id = turn.hook_context.hook_session_id();
        turn.hook_context.transcript_path = transcripts.path(&session.key, &id, cwd, now).await;
    }
}

/// Records what the model receives.
pub(super) async fn record_request(
    turn: &TurnState<'_>,
    session: &Session,
    request: &ModelRequest,
) -> Result<(), ApiError> {
    let Some((transcripts, key)) = transcript(turn, session) else {
        return Ok(());
    };
    if let Some(history) = History::read(&request.document)? {
        let caller = &turn.hook_context.caller.key;
        let sessions = &turn.context.snapshot.sessions;
        let continued = request.continued.as_deref();
        let conversation = sessions.read(caller, continued, &history).await?;
        let entry = TranscriptRequest {
            history: &history,
            conversation: &conversation,
            model: request.call.model_name(),
            now: &turn.hook_context.timestamp,
        };
        transcripts.append_request(key, entry).await;
    }
    Ok(())
}

/// Records the model's response.
pub(super) async fn record_response(turn: &TurnState<'_>, buffer: &ResponseBuffer<'_>) {
    let session = turn.session.as_deref();
    let Some((transcripts, key)) = session.and_then(|session| transcript(turn, session)) else {
        return;
    };
    let allowed = buffer.calls.iter().filter(|call| call.refusal.is_none());
    let calls = allowed.map(|call| (call.name.clone(), call.arguments.clone()));
    let calls: Vec<(String, Value)> = calls.collect();
    // Part of a document that was checked.
    let usage = buffer.usage.as_deref().map(serde_json::from_slice);
    let usage: Option<Value> = usage.and_then(Result::ok);
    let entry = TranscriptResponse {
        text: buffer.texts.first(),
        calls: &calls,
        model: &buffer.filter.model,
        usage: &usage.unwrap_or_default(),
        now: &utc_timestamp(),
    };
    transcripts.append_response(key, entry).await;
}

/// Only an agent's own calls are part of its conversation.
fn transcript<'a>(
    turn: &TurnState<'a>,
    session: &'a Session,
) -> Option<(&'a Transcripts, &'a SessionKey)> {
    let transcripts = turn.context.snapshot.transcripts.as_deref()?;
    (turn.role == CallRole::Main).then_some((transcripts, &session.key))
}

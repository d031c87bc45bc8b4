//! What a call adds to the transcript of its session, if one is kept.

use serde_json::Value;

use super::{exchange::Exchange, response_buffer::Round};
use crate::{
    dialect::{Document, History},
    session::{
        CallRole, MatchKind, Session, SessionKey, TranscriptRequest, TranscriptResponse,
        Transcripts,
    },
    state::{self, ApiError},
};

impl Exchange {
    /// Tells hooks where the transcript is.
    pub(super) async fn point_to_transcript(&mut self, session: &Session) {
        let transcripts = self.snapshot.transcripts.as_ref();
        if let Some(transcripts) = transcripts.filter(|_| session.match_kind != MatchKind::Unkept) {
            let (cwd, now) = (&self.context.cwd, &self.context.timestamp);
            self.context.transcript_path = transcripts.path(&session.key, cwd, now).await;
        }
    }

    /// Writes down what the model is shown.
    pub(super) async fn transcribe(
        &self,
        session: &Session,
        document: &Document,
    ) -> Result<(), ApiError> {
        let Some((transcripts, key)) = self.transcript(session) else {
            return Ok(());
        };
        if let Some(history) = History::read(document)? {
            let caller = &self.context.caller.key;
            let conversation = self.snapshot.sessions.read(caller, &history).await?;
            let told = TranscriptRequest {
                history: &history,
                conversation: &conversation,
                model: self.call.model_name(),
                now: &self.context.timestamp,
            };
            transcripts.append_request(key, told).await;
        }
        Ok(())
    }

    /// Writes down what the model answered.
    pub(super) async fn transcribe_answer(&self, round: &Round) {
        let session = self.session.as_ref();
        let Some((transcripts, key)) = session.and_then(|it| self.transcript(it)) else {
            return;
        };
        let calls = round.calls.iter().filter(|it| it.refusal.is_none());
        let calls = calls.map(|it| (it.name.clone(), it.arguments.clone()));
        let calls: Vec<(String, Value)> = calls.collect();
        let answered = TranscriptResponse {
            text: &round.text,
            calls: &calls,
            model: self.call.model_name(),
            usage: &round.usage.read(),
            now: &state::now(),
        };
        transcripts.append_response(key, answered).await;
    }

    /// Only an agent's own calls are its conversation.
    fn transcript<'a>(&'a self, session: &'a Session) -> Option<(&'a Transcripts, &'a SessionKey)> {
        let transcripts = self.snapshot.transcripts.as_deref()?;
        (self.role == CallRole::Main).then_some((transcripts, &session.key))
    }
}

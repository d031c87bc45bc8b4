//! Expires idle sessions and fires `SessionEnd`.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{app::App, snapshot::Snapshot};
use crate::{
    config::RolloutUnit,
    event::{Caller, Context, EventName, EventOrigin, SessionEnd},
    hook::EventScope,
    session::{SessionKey, SessionSource, SessionState},
    timestamp::utc_timestamp,
};

const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);

/// Sessions whose `SessionEnd` hooks run at the same time.
const MAX_CONCURRENT_ENDS: usize = 8;

/// Expired sessions that wait for their hooks; while the queue is full, none expires.
const MAX_QUEUED_ENDS: usize = 1024;

/// Expires idle sessions and fires `SessionEnd` for them until shutdown.
pub async fn expire_sessions(app: App) {
    let (sender, mut expired) = mpsc::channel(MAX_QUEUED_ENDS);
    let shutdown = app.resources.shutdown.clone();
    let expired = stream::poll_fn(move |context| expired.poll_recv(context));
    let expired = expired.take_until(shutdown.cancelled_owned());
    let ended = expired.for_each_concurrent(MAX_CONCURRENT_ENDS, |(snapshot, key, state)| {
        end(snapshot, key, state)
    });
    tokio::join!(collect_expired(app, sender), ended);
}

async fn collect_expired(
    app: App,
    sender: mpsc::Sender<(Arc<Snapshot>, SessionKey, SessionState)>,
) {
    let mut ticks = interval(EXPIRY_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = app.resources.shutdown.cancelled() => return,
            _ = ticks.tick() => (),
        }
        let snapshot = app.snapshot();
        let expired = snapshot.sessions.expire().await;
        if let Some(transcripts) = &snapshot.transcripts {
            transcripts.expire();
        }
        for (key, state) in expired {
            let snapshot = assigned_snapshot(&snapshot, &key, &state);
            // Ignore send errors during shutdown.
            sender.send((snapshot, key, state)).await.ok();
        }
    }
}

/// Returns the snapshot of a session while another config is rolled out. Sessions without a
/// name, which are assigned by their first prompt, end under the config in use.
fn assigned_snapshot(
    snapshot: &Arc<Snapshot>,
    key: &SessionKey,
    state: &SessionState,
) -> Arc<Snapshot> {
    let caller = snapshot.authenticator.name_of(&key.caller);
    let unit = snapshot.rollout_unit(caller.unwrap_or_default());
    let is_named = state.source != SessionSource::History;
    let snapshot = Arc::clone(snapshot);
    match unit {
        Some(RolloutUnit::Caller) => snapshot.for_session(&key.caller, ""),
        Some(RolloutUnit::Session) if is_named => snapshot.for_session(&key.caller, &key.id),
        _ => snapshot,
    }
}

/// Fires `SessionEnd`, unless the session was never active, and removes the transcript.
async fn end(snapshot: Arc<Snapshot>, key: SessionKey, state: SessionState) {
    let was_active = state.started || state.turns > 0;
    if was_active && snapshot.derives(EventName::SessionEnd) {
        fire(&snapshot, &key, state).await;
    }
    snapshot.remove_transcript(&key).await;
}

async fn fire(snapshot: &Snapshot, key: &SessionKey, state: SessionState) {
    let name = snapshot.authenticator.name_of(&key.caller);
    let mut context = Context {
        request_id: Uuid::new_v4().to_string(),
        session_id: key.id.clone(),
        session_named: state.source != SessionSource::History,
        cwd: snapshot.config.hook_directory.display().to_string(),
        timestamp: utc_timestamp(),
        caller: Caller {
            name: name.unwrap_or_default().to_owned(),
            key: key.caller.clone(),
            agent: state.agent,
            session_scope: snapshot.authenticator.session_scope(),
        },
        ..Context::default()
    };
    if let Some(transcripts) = &snapshot.transcripts {
        let id = context.hook_session_id();
        let path = transcripts.path(key, &id, &context.cwd, &context.timestamp);
        context.transcript_path = path.await;
    }
    let event = SessionEnd {
        reason: "other".to_owned(),
    };
    let recorder = snapshot.event_recorder(&context, CancellationToken::new());
    let scope = EventScope::new(&context, &recorder);
    let fired = snapshot.engine.fire(scope, event, EventOrigin::Derived);
    fired.await;
}

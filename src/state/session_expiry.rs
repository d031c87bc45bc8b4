//! Sessions of which nothing is heard come to their end.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{App, Snapshot, now};
use crate::{
    event::{Caller, Context, EventName, SessionEnd},
    hook::EventOrigin,
    session::{SessionKey, SessionSource, SessionState},
};

/// How often the store of sessions is looked after.
const OFTEN: Duration = Duration::from_secs(1);

/// How many ends hooks are told of at once.
const AT_ONCE: usize = 8;

/// How many ended sessions wait for that; then sessions end later.
const WAITING: usize = 1024;

/// A session that ended, and the snapshot of that moment.
type Ended = (Arc<Snapshot>, SessionKey, SessionState);

impl App {
    /// Looks after sessions, and fires `SessionEnd` for those that end, until the
    /// house closes.
    pub async fn tend_sessions(self) {
        let (sender, mut ended) = mpsc::channel(WAITING);
        let closing = self.shared.shutdown.clone();
        let ended = stream::poll_fn(|context| ended.poll_recv(context));
        let ended = ended.take_until(closing.cancelled_owned());
        let told = ended.for_each_concurrent(AT_ONCE, tell);
        tokio::join!(self.tend(sender), told);
    }

    async fn tend(self, sender: mpsc::Sender<Ended>) {
        let mut ticks = interval(OFTEN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.shared.shutdown.cancelled() => return,
                _ = ticks.tick() => (),
            }
            let snapshot = self.snapshot();
            let ended = snapshot.sessions.store().expire().await;
            if let Some(transcripts) = &snapshot.transcripts {
                transcripts.expire();
            }
            let ended = ended.into_iter();
            for ended in ended.map(|(key, state)| (Arc::clone(&snapshot), key, state)) {
                // Nobody hears it any more if the house closes.
                sender.send(ended).await.ok();
            }
        }
    }
}

/// Fires `SessionEnd`, unless the agent reports it, or was never at work.
async fn tell((snapshot, key, state): Ended) {
    let worked = state.started || state.turns > 0;
    let reported = state.reported.contains(&EventName::SessionEnd);
    if worked && !reported && snapshot.derives(EventName::SessionEnd) {
        fire(&snapshot, &key, state).await;
    }
    snapshot.remove_transcript(&key);
}

async fn fire(snapshot: &Snapshot, key: &SessionKey, state: SessionState) {
    let name = snapshot.callers.name_of(&key.caller).unwrap_or_default();
    let mut context = Context {
        session_id: key.id.clone(),
        session_named: state.source != SessionSource::History,
        cwd: snapshot.config.hook_directory.display().to_string(),
        timestamp: now(),
        caller: Caller {
            name: name.to_owned(),
            key: key.caller.clone(),
            agent: state.agent,
            session_scope: snapshot.callers.session_scope(),
        },
        ..Context::default()
    };
    if let Some(transcripts) = &snapshot.transcripts {
        let id = context.hook_session_id();
        let path = transcripts.path(key, &id, &context.cwd, &context.timestamp);
        context.transcript_path = path.await;
    }
    let reason = "other".to_owned();
    let event = SessionEnd { reason };
    snapshot
        .engine
        .fire(&context, event, EventOrigin::Derived)
        .await;
}

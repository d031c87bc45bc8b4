//! Sessions of reported events.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    auth::Identity,
    config::RolloutUnit,
    event::{Context, EventName},
    middleware::sub_agent_session,
    session::{SessionKey, Sessions},
    state::Snapshot,
};

/// Returns the snapshot of the event's session, while another config is rolled out.
pub fn assigned_snapshot(
    snapshot: Arc<Snapshot>,
    identity: &Identity,
    fields: &Map<String, Value>,
) -> Arc<Snapshot> {
    let Some(unit) = snapshot.rollout_unit(&identity.name) else {
        return snapshot;
    };
    let field = |key: &str| fields.get(key).and_then(Value::as_str);
    let session = field("session_id").filter(|_| unit == RolloutUnit::Session);
    let session = session.map(|session| session_of(session, field("agent_id")));
    snapshot.for_session(&identity.caller().key, &session.unwrap_or_default())
}

/// Returns the key of the event's session.
pub fn session_key(context: &Context) -> SessionKey {
    let id = session_of(&context.session_id, context.sub_agent.as_deref());
    SessionKey::new(&context.caller.key, id)
}

/// Records that an agent reports an event, so that it is no longer derived from its model calls. A
/// session that has ended is removed before hooks run: the agent may continue it meanwhile.
pub async fn record_report(sessions: &Sessions, key: &SessionKey, event: EventName) {
    if event == EventName::SessionEnd {
        sessions.remove(key).await;
        return;
    }
    let (caller, id) = (&key.caller, &key.id);
    sessions.record_reported_event(caller, id, event).await;
}

/// Returns the id of the session to which the model calls of the agent belong. A sub-agent has its
/// own; an empty id, or that of the session, is the main agent's.
fn session_of(session: &str, agent: Option<&str>) -> String {
    let sub_agent = agent.filter(|id| !id.is_empty() && *id != session);
    let id = sub_agent.and_then(|id| sub_agent_session(session, id));
    id.unwrap_or_else(|| session.to_owned())
}

//! Schemas of bodies that have no type of their own, for the `OpenAPI` document.

#![expect(dead_code, reason = "only the schemas are used")]

use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::event::EventName;

/// Hook input of an event.
#[derive(Debug, ToSchema)]
pub struct EventInput {
    /// Name of the event.
    #[schema(value_type = String, example = "BeforeTool")]
    hook_event_name: EventName,
    /// The agent's session; generated if absent.
    #[schema(max_length = 256)]
    session_id: Option<String>,
    /// Path of a file with the conversation so far.
    transcript_path: Option<String>,
    /// Working directory of the agent.
    cwd: Option<String>,
    /// The sub-agent that the event is of; absent for the agent itself.
    agent_id: Option<String>,
    /// Time of the event: RFC 3339 in UTC.
    timestamp: Option<String>,
    /// Fields of the event itself; `docs/hooks.md` lists them.
    #[schema(additional_properties, value_type = Object)]
    event: Map<String, Value>,
}

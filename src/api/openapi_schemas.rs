//! The shapes of bodies that have no type of their own, for the `OpenAPI`
//! document.

use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::event::EventName;

/// The hook input of an event.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct EventInput {
    /// Which event it is.
    #[schema(value_type = String, example = "BeforeTool")]
    hook_event_name: EventName,
    /// The agent's session; made up if it is left out.
    #[schema(max_length = 256)]
    session_id: Option<String>,
    /// The conversation so far as a file.
    transcript_path: Option<String>,
    /// The agent's working directory.
    cwd: Option<String>,
    /// RFC 3339 in UTC.
    timestamp: Option<String>,
    /// The fields of the event itself; `docs/hooks.md` lists them.
    #[schema(additional_properties, value_type = Object)]
    event: Map<String, Value>,
}

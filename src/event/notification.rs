//! `Notification`: an agent tells its user something.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Event, EventKind, EventName, HookOutput, Part};

/// What the user is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Notification {
    /// Such as `ToolPermission`.
    pub notification_type: String,
    /// In words.
    pub message: String,
    /// What it is about.
    #[serde(default)]
    pub details: Map<String, Value>,
}

impl EventKind for Notification {
    const NAME: EventName = EventName::Notification;
    const HONOURS: &'static [Part] = &[Part::SystemMessage, Part::SuppressOutput];
    /// Nobody waits for it.
    type Verdict = Option<()>;

    fn as_event(&self) -> Event<'_> {
        Event::Notification(self)
    }

    fn judge(_folded: &HookOutput) -> Option<()> {
        None
    }
}

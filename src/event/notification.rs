//! `Notification`: a message of an agent for its user.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    definition::EventDefinition,
    output::{HookOutput, OutputPart},
};

/// Message for the user.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Notification {
    /// Kind of notification, such as `ToolPermission`.
    pub notification_type: String,
    /// Text of the message.
    pub message: String,
    /// Structured details of the message.
    #[serde(default)]
    pub details: Map<String, Value>,
}

impl EventDefinition for Notification {
    const HONOURS: &'static [OutputPart] = &[OutputPart::SystemMessage, OutputPart::SuppressOutput];
    /// Advisory event without effect.
    type Verdict = ();

    fn evaluate(_merged: &HookOutput) {}
}

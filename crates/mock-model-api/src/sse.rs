//! Server-sent events, in frames that are sent one after the other.

use bytes::Bytes;
use serde_json::Value;

/// Events of a response, several of them to a frame.
#[derive(Debug, Default)]
pub(super) struct EventFrames {
    frames: Vec<Bytes>,
    open: String,
}

impl EventFrames {
    /// Adds an event with its name, which is the `type` of the document.
    pub(super) fn named(&mut self, event: &Value) {
        let name = event
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        self.open.push_str("event: ");
        self.open.push_str(name);
        self.open.push('\n');
        self.data(&event.to_string());
    }

    /// Adds an event without a name.
    pub(super) fn data(&mut self, data: &str) {
        self.open.push_str("data: ");
        self.open.push_str(data);
        self.open.push_str("\n\n");
    }

    /// Ends the frame; what follows is sent after the next pause.
    pub(super) fn end_frame(&mut self) {
        if !self.open.is_empty() {
            self.frames.push(std::mem::take(&mut self.open).into());
        }
    }

    pub(super) fn finish(mut self) -> Vec<Bytes> {
        self.end_frame();
        self.frames
    }
}

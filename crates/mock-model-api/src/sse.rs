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
        self.name(event);
        self.data(&event.to_string());
    }

    /// Adds the name of the next event, which is the `type` of the document.
    fn name(&mut self, event: &Value) {
        let name = event
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        self.open.push_str("event: ");
        self.open.push_str(name);
        self.open.push('\n');
    }

    /// Adds an event without a name.
    pub(super) fn data(&mut self, data: &str) {
        for line in data.lines() {
            self.open.push_str("data: ");
            self.open.push_str(line);
            self.open.push('\n');
        }
        self.open.push('\n');
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

/// Returns the events of a stream, each of which is JSON, in a frame of its own. Streams without
/// names of events, which are those of Chat Completions, end with a terminator.
pub(super) fn native_events(events: &[String]) -> Vec<Bytes> {
    let mut frames = EventFrames::default();
    let mut has_names = false;
    for text in events {
        let event: Value = serde_json::from_str(text).unwrap_or_default();
        if event.get("type").is_some() {
            has_names = true;
            frames.name(&event);
        }
        frames.data(text);
        frames.end_frame();
    }
    if !has_names && !events.is_empty() {
        frames.data("[DONE]");
    }
    frames.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_events_are_sent_as_they_are() {
        let sent = |events: &[&str]| {
            let events: Vec<String> = events.iter().map(|event| (*event).to_owned()).collect();
            let frames = native_events(&events).concat();
            String::from_utf8(frames).unwrap()
        };

        let doubled = r#"{"type":"x","n":1,"n":2}"#;
        assert_eq!(sent(&[doubled]), format!("event: x\ndata: {doubled}\n\n"));
        assert_eq!(
            sent(&["{\n\"id\":1}"]),
            "data: {\ndata: \"id\":1}\n\ndata: [DONE]\n\n"
        );
        assert_eq!(sent(&[]), "");
    }
}

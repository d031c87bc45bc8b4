//! The end of a message: stop reason and token counts.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::dialect::{
    anthropic::{
        fields::{CANDIDATES, FINISH_REASON},
        response::{
            message_event::{DELTA, MessageEvent, MessageEventKind},
            message_tokens::new_usage,
            stop_reason::{STOP_REASON, edited_stop_reason, stop_reason_in, stop_sequence},
        },
    },
    document::{Document, to_value},
    error::Result,
};

/// End of a message, which is written last.
#[derive(Debug, Default)]
pub struct MessageEnd {
    /// Events of the API; none if it is synthetic.
    events: Vec<Bytes>,
    finish: Option<String>,
    /// Stop reason that the API has sent for an answer that is written anew.
    stop: Option<String>,
    /// Stop sequence of a synthetic end.
    sequence: Value,
    /// Token counts of a synthetic end.
    usage: Option<Value>,
}

/// Returns whether events are the end of a message.
pub fn is_end(events: &[Bytes]) -> Result<bool> {
    let first = events.first().map(MessageEvent::read).transpose()?;
    let kind = first.map(|event| event.kind);
    Ok(matches!(
        kind,
        None | Some(MessageEventKind::MessageDelta | MessageEventKind::MessageStop)
    ))
}

impl MessageEnd {
    /// Keeps the end in a chunk, unless its finish reason was removed because the model is
    /// asked again. `merged` is the end of the events that a chunk without events was merged from.
    pub fn keep(&mut self, events: &[Bytes], merged: &[Bytes], form: &Document) -> Result<()> {
        let candidates = form.children(CANDIDATES)?.unwrap_or_default();
        let first = candidates.into_iter().next().unwrap_or_default();
        let finish = first.string(FINISH_REASON)?;
        if finish.is_none() {
            return Ok(());
        }
        self.finish = finish;
        if events.is_empty() {
            self.usage = Some(to_value(&new_usage(form, merged)?)?);
            self.stop = stop_reason_in(merged)?;
            self.sequence = stop_sequence(self.stop.as_deref(), form)?;
        } else {
            self.events = events.to_vec();
        }
        Ok(())
    }

    /// Writes the end. The stop reason follows what was sent if anything `is_changed`.
    pub fn write(self, out: &mut BytesMut, has_calls: bool, is_changed: bool) -> Result<()> {
        let mut has_delta = false;
        let mut stop = None;
        for data in &self.events {
            let mut event = MessageEvent::read(data)?;
            if event.kind == MessageEventKind::MessageDelta {
                has_delta = true;
                if is_changed {
                    self.write_stop_reason(&mut event, has_calls)?;
                }
                event.write(out);
            } else {
                stop = Some(event);
            }
        }
        if !has_delta {
            let (stop, finish) = (self.stop.as_deref(), self.finish.as_deref());
            let reason = edited_stop_reason(stop, finish, has_calls);
            let sequence = Some(self.sequence).filter(|_| stop == Some(&*reason));
            let usage = self.usage.unwrap_or_else(|| json!({ "output_tokens": 0 }));
            let event = json!({
                "type": "message_delta",
                "delta": { "stop_reason": reason, "stop_sequence": sequence },
                "usage": usage,
            });
            MessageEvent::from_json(&event)?.write(out);
        }
        let own = || MessageEvent::from_json(&json!({ "type": "message_stop" }));
        stop.map_or_else(own, Ok)?.write(out);
        Ok(())
    }

    fn write_stop_reason(&self, event: &mut MessageEvent, has_calls: bool) -> Result<()> {
        let mut delta = event.child(DELTA)?;
        let Some(stop) = delta.string(STOP_REASON)? else {
            return Ok(());
        };
        let new = edited_stop_reason(Some(&stop), self.finish.as_deref(), has_calls);
        if stop != new {
            delta.set(STOP_REASON, &json!(new))?;
            event.document.set_child(DELTA, &delta)?;
        }
        Ok(())
    }
}

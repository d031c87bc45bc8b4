//! `gemini`: the protocol of gemini-cli.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{Ended, Protocol, exit};
use crate::event::{Answer, Context, Event, EventName, HookInput};

#[derive(Debug)]
pub(super) struct Gemini;

impl Protocol for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn write(&self, context: &Context, event: Event<'_>, document: Option<&RawValue>) -> Bytes {
        let input = HookInput::new(context, event, document);
        // Texts, numbers and JSON values always become JSON.
        serde_json::to_vec(&input)
            .map(Bytes::from)
            .unwrap_or_default()
    }

    fn read(&self, ended: &Ended, event: EventName) -> Answer {
        exit::read(ended, event)
    }

    fn render_context(&self, text: &str) -> String {
        let escaped = text.replace('<', "&lt;").replace('>', "&gt;");
        format!("<hook_context>{escaped}</hook_context>")
    }
}

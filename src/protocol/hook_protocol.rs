//! The interface of a hook protocol.

use std::fmt;

use bytes::Bytes;

use super::{exit_code, input, process_output::ProcessOutput, tool_names::ToolFamily};
use crate::event::{Context, Event, EventName, HookResult, InputExtras, SettingsFormat};

/// Encoding of hook inputs and interpretation of hook outputs.
pub trait Protocol: fmt::Debug + Send + Sync {
    /// Returns the name in the config.
    fn name(&self) -> &'static str;

    /// Returns the family whose names of tools its hooks use.
    fn tools(&self) -> ToolFamily {
        ToolFamily::Gemini
    }

    /// Returns the folder in which its agent has its settings file; `None` if files in any folder
    /// have the protocol by default.
    fn settings_folder(&self) -> Option<&'static str> {
        None
    }

    /// Returns the format of its settings files; `None` if it is gemini-cli's.
    fn settings_format(&self) -> Option<&'static SettingsFormat> {
        None
    }

    /// Returns whether hooks see all parts of a request's messages, not only texts.
    fn shows_message_parts(&self) -> bool {
        false
    }

    /// Returns whether a hook that is an HTTP server may answer with text or nothing.
    fn accepts_text_over_http(&self) -> bool {
        false
    }

    /// Encodes the hook input as one JSON object.
    fn write(&self, context: &Context, event: Event<'_>, extras: InputExtras<'_>) -> Bytes {
        input::write(context, event, extras)
    }

    /// Reads the output of an exited hook on `event`.
    fn read(&self, output: &ProcessOutput, event: EventName) -> HookResult {
        exit_code::read(output, event)
    }

    /// Sets the output's [`Interpretation`](crate::event::Interpretation) where the
    /// protocol differs from `gemini`. `event` is as the hook saw it.
    fn interpret(&self, _result: &mut HookResult, _event: Event<'_>) {}
}

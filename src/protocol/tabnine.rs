//! The `tabnine` protocol of the Tabnine CLI: `tool_input` replaces the arguments
//! of a call.

use super::hook_protocol::Protocol;
use crate::event::{Event, HookResult};

#[derive(Debug)]
pub(super) struct TabnineProtocol;

impl Protocol for TabnineProtocol {
    fn name(&self) -> &'static str {
        "tabnine"
    }

    fn settings_folder(&self) -> Option<&'static str> {
        Some(".tabnine/agent")
    }

    fn interpret(&self, result: &mut HookResult, _event: Event<'_>) {
        result.output.replace_arguments();
    }
}

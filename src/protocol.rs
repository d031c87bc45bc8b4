//! Hook protocols: encoding of events for hooks, and interpretation of their
//! output. Pure.
//!
//! Several agents have hooks that differ in details; each source of hooks names
//! its protocol. [`Protocol`] has default methods for what most protocols share.
//! Dialects, in contrast, are about model APIs.
//! To add a protocol, write one file here and add one line to [`ALL`].

mod agent_report;
mod claude;
mod claude_form;
mod codex;
mod exit_code;
mod gemini;
mod hook_protocol;
mod input;
mod llxprt;
mod output_parser;
mod process_output;
mod tabnine;
mod terminai;
mod tool_arguments;
mod tool_names;
mod tool_result;

pub use self::{
    agent_report::{AgentReport, ReportError, ReportingAgent},
    hook_protocol::Protocol,
    process_output::{ProcessExit, ProcessOutput},
    tool_arguments::ShownArguments,
    tool_names::{ArgumentNames, ToolAliases, ToolFamily, ToolKind, ToolNameOverride, ToolNames},
};
use crate::event::EventName;

/// All protocols; the first is the default.
pub const ALL: &[&dyn Protocol] = &[
    &gemini::GeminiProtocol,
    &terminai::TerminaiProtocol,
    &tabnine::TabnineProtocol,
    &llxprt::LlxprtProtocol,
    &claude::ClaudeProtocol,
    &codex::CodexProtocol,
];

/// Variables with the directory of the hooks, by the names that hooks of several
/// agents read. It is the operator's directory, never one of a request: commands
/// such as `$GEMINI_PROJECT_DIR/guard.sh` rely on it.
pub const DIRECTORY_VARIABLES: &[&str] = &[
    "GEMINI_PROJECT_DIR",
    "TERMINAI_PROJECT_DIR",
    "TABNINE_PROJECT_DIR",
    "LLXPRT_PROJECT_DIR",
    "CLAUDE_PROJECT_DIR",
    "GEMINI_CWD",
];

/// Returns the protocols whose agents have an event of this name, each with the event of hookgate.
pub fn events_named(name: &str) -> impl Iterator<Item = (&'static str, EventName)> {
    ALL.iter().filter_map(move |protocol| {
        let mut aliases = protocol.settings_format()?.events.iter();
        Some((
            protocol.name(),
            aliases.find(|alias| alias.name == name)?.event,
        ))
    })
}

/// Returns the protocol named `name`.
pub fn find(name: &str) -> Option<&'static dyn Protocol> {
    let mut all = ALL.iter().copied();
    all.find(|protocol| protocol.name() == name)
}

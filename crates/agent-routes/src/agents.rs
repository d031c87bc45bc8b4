//! The agents whose settings are read, one file each.

mod aider;
mod claude_code;
mod codex;
mod gemini_cli;
mod llxprt;
mod opencode;
mod sdks;

use crate::{address::Address, route::Route, settings::SettingsReader};

/// An agent, and how its routes are found.
pub(crate) struct Agent {
    /// Name of the agent, as people write it.
    pub(crate) name: &'static str,
    /// Returns true if the agent is on this machine.
    pub(crate) is_present: fn(&SettingsReader<'_>) -> bool,
    /// Reads the settings of the agent.
    pub(crate) routes: fn(&mut SettingsReader<'_>) -> Vec<Route>,
}

/// The agents in the order of a report.
pub(crate) const AGENTS: &[Agent] = &[
    gemini_cli::AGENT,
    claude_code::AGENT,
    codex::AGENT,
    opencode::AGENT,
    llxprt::AGENT,
    aider::AGENT,
    sdks::GOOGLE,
    sdks::ANTHROPIC,
    sdks::OPENAI,
];

/// Returns the addresses of all model APIs.
pub(crate) fn addresses() -> impl Iterator<Item = Address> {
    hosts::ALL.into_iter().map(Address::https)
}

/// Hosts of the model APIs. Settings of an agent may choose each of them.
mod hosts {
    pub(super) const ALL: [&str; 6] = [GEMINI, VERTEX, CODE_ASSIST, ANTHROPIC, OPENAI, CHATGPT];

    pub(super) const GEMINI: &str = "generativelanguage.googleapis.com";
    pub(super) const VERTEX: &str = "aiplatform.googleapis.com";
    pub(super) const CODE_ASSIST: &str = "cloudcode-pa.googleapis.com";
    pub(super) const ANTHROPIC: &str = "api.anthropic.com";
    pub(super) const OPENAI: &str = "api.openai.com";
    pub(super) const CHATGPT: &str = "chatgpt.com";
}

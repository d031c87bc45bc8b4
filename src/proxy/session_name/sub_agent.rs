//! Sub-agents that a call comes from, by headers of their agents. Pure.

use http::{HeaderMap, HeaderName};
use serde_json::Value;

/// Session of Claude Code.
pub const CLAUDE_SESSION: HeaderName = HeaderName::from_static("x-claude-code-session-id");

/// Sub-agent of Claude Code.
const CLAUDE_AGENT: HeaderName = HeaderName::from_static("x-claude-code-agent-id");

/// Session of Codex; may be anything without [`CODEX_THREAD`].
pub const CODEX_SESSION: HeaderName = HeaderName::from_static("session-id");

/// Main agent or sub-agent of Codex. That of the main agent equals the session's id.
pub const CODEX_THREAD: HeaderName = HeaderName::from_static("thread-id");

/// Metadata of a turn of Codex, as JSON.
const CODEX_METADATA: HeaderName = HeaderName::from_static("x-codex-turn-metadata");

/// Returns the id of the sub-agent, which is unique in its session.
pub fn id(headers: &HeaderMap) -> Option<&str> {
    let of_codex = || {
        let session = text(headers, &CODEX_SESSION)?;
        text(headers, &CODEX_THREAD).filter(|thread| *thread != session)
    };
    claude_id(headers).or_else(of_codex)
}

/// Returns the name of the sub-agent for hooks. Codex has it in the metadata of the turn, in which
/// the agent of the user is `/root`; Claude Code has only an id.
pub fn name(headers: &HeaderMap) -> Option<String> {
    if let Some(id) = claude_id(headers) {
        return Some(id.to_owned());
    }
    let metadata: Value = serde_json::from_str(text(headers, &CODEX_METADATA)?).ok()?;
    let agent = metadata.get("agent_name")?.as_str()?;
    (agent != "/root").then(|| agent.to_owned())
}

fn claude_id(headers: &HeaderMap) -> Option<&str> {
    let session = text(headers, &CLAUDE_SESSION);
    text(headers, &CLAUDE_AGENT).filter(|id| Some(*id) != session)
}

/// Returns the value of a header, unless it is empty.
pub fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let value = headers.get(name)?.to_str().ok()?;
    (!value.is_empty()).then_some(value)
}

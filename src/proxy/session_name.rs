//! Session names given by agents. Pure.
//!
//! An agent names its session by the path prefix `/s/{session}` or the header
//! `x-hookgate-session`. Claude Code, Codex and opencode have headers of their own; gemini-cli
//! on Code Assist, Claude Code and `LLxprt` have fields in the body. A request without a name
//! is matched to a session by its history (see [`crate::session`]).
//!
//! A sub-agent has a session of its own, whose name ends with the id of the sub-agent.

pub(super) mod sub_agent;

use http::{HeaderMap, HeaderName};
use uuid::Uuid;

use crate::{
    dialect::{Api, Dialect, DialectError, Document},
    error::ApiError,
    event::Context,
    middleware::{check_session_name, is_session_name, split_session, sub_agent_session},
    session::SessionSource,
};

const SESSION_HEADER: HeaderName = HeaderName::from_static("x-hookgate-session");

/// Headers with which agents name their session.
const AGENT_HEADERS: [HeaderName; 3] = [
    sub_agent::CLAUDE_SESSION,
    sub_agent::CODEX_SESSION,
    HeaderName::from_static("x-session-id"),
];

/// A session's name, and where the agent gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionName {
    pub(super) id: String,
    pub(super) source: SessionSource,
}

impl SessionName {
    /// Writes the name into the context of a call's hook events.
    pub(super) fn write_to(&self, context: &mut Context) {
        context.session_named = true;
        context.session_id.clone_from(&self.id);
    }

    /// Returns the name in the body of a call, or `None` if there is none, or it is malformed.
    ///
    /// # Errors
    ///
    /// If the name is no text.
    pub(super) fn in_body(
        dialect: &dyn Dialect,
        body: &Document,
    ) -> Result<Option<Self>, DialectError> {
        let id = dialect.session_in(body)?;
        Ok(id.and_then(|id| Self::from_body(dialect.api(), id)))
    }

    /// Returns the name in a field of the body, or `None` if it is malformed.
    fn from_body(api: Api, id: String) -> Option<Self> {
        let source = match api {
            Api::CodeAssist => SessionSource::CodeAssist,
            _ => SessionSource::Body,
        };
        // Applications set one `prompt_cache_key` for all of their users; agents set a UUID.
        let is_weak = matches!(api, Api::OpenAiResponses | Api::OpenAiChat);
        let is_name = is_session_name(&id) && (!is_weak || Uuid::parse_str(&id).is_ok());
        is_name.then_some(Self { id, source })
    }

    /// Returns the name in headers of the agent, or `None` if there is none, or it is
    /// malformed.
    fn from_agent_headers(headers: &HeaderMap) -> Option<Self> {
        let has_thread = headers.contains_key(sub_agent::CODEX_THREAD);
        let headers_of_agents = AGENT_HEADERS;
        let mut named = headers_of_agents.iter().filter_map(|name| {
            let is_agents = *name != sub_agent::CODEX_SESSION || has_thread;
            sub_agent::text(headers, name).filter(|_| is_agents)
        });
        let id = named.next()?.to_owned();
        let source = SessionSource::AgentHeader;
        is_session_name(&id).then_some(Self { id, source })
    }

    /// Returns the name of the sub-agent's session, if the headers name a sub-agent.
    fn of_sub_agent(self, headers: &HeaderMap) -> Self {
        let id = sub_agent::id(headers).and_then(|id| sub_agent_session(&self.id, id));
        match id {
            Some(id) => Self { id, ..self },
            None => self,
        }
    }
}

/// Splits the session prefix off `path`. Returns the rest and the session's name; the prefix
/// outranks the header.
///
/// # Errors
///
/// If the name is malformed.
pub(super) fn split<'a>(
    path: &'a str,
    headers: &HeaderMap,
) -> Result<(&'a str, Option<SessionName>), ApiError> {
    let (prefixed, path) = split_session(path)?;
    let header = headers
        .get(SESSION_HEADER)
        .map(|value| value.to_str().unwrap_or_default());
    let (id, source) = match (prefixed, header) {
        (Some(id), _) => (id, SessionSource::Path),
        (None, Some(id)) => {
            check_session_name(id)?;
            (id, SessionSource::Header)
        }
        (None, None) => {
            let named = SessionName::from_agent_headers(headers);
            return Ok((path, named.map(|name| name.of_sub_agent(headers))));
        }
    };
    let id = id.to_owned();
    let name = SessionName { id, source }.of_sub_agent(headers);
    Ok((path, Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_and_sub_agents_name_their_sessions() {
        let named = |path: &str, pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            let (_, name) = split(path, &headers).unwrap();
            name.map(|name| (name.id, name.source.as_str()))
        };
        let claude = ("x-claude-code-session-id", "c-1");
        let sub_agent = ("x-claude-code-agent-id", "a");
        for (path, pairs, expected) in [
            ("/v1/messages", &[claude][..], Some(("c-1", "agent_header"))),
            (
                "/s/mine/v1/messages",
                &[claude, sub_agent],
                Some(("mine:a", "path")),
            ),
            (
                "/s/mine/v1/messages",
                &[sub_agent],
                Some(("mine:a", "path")),
            ),
            ("/v1/responses", &[("session-id", "x-1")], None),
            ("/v1/responses", &[("x-session-id", "")], None),
            ("/v1/responses", &[("x-session-id", "a b")], None),
        ] {
            let expected = expected.map(|(id, source): (&str, &str)| (id.to_owned(), source));
            assert_eq!(named(path, pairs), expected, "{path} {pairs:?}");
        }
    }

    #[test]
    fn a_malformed_id_in_the_body_names_no_session() {
        assert_eq!(
            SessionName::from_body(Api::Anthropic, "a b".to_owned()),
            None
        );
    }
}

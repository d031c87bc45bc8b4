//! Session names given by agents. Pure.
//!
//! An agent names its session by the path prefix `/s/{session}` or the header
//! `x-hookgate-session`; gemini-cli on Code Assist by `session_id` in the body. A request
//! without a name is matched to a session by its history (see [`crate::session`]).

use http::HeaderMap;

use crate::{
    error::{ApiError, ErrorReason},
    session::SessionSource,
};

const SESSION_HEADER: &str = "x-hookgate-session";
const MAX_SESSION_NAME_CHARS: usize = 128;

/// A session's name, and where the agent gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionName {
    pub(super) id: String,
    pub(super) source: SessionSource,
}

impl SessionName {
    /// Returns the name in a Code Assist body, or `None` if it is malformed.
    pub(super) fn from_body(id: String) -> Option<Self> {
        let source = SessionSource::CodeAssist;
        is_valid(&id).then_some(Self { id, source })
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
    let prefixed = path
        .strip_prefix("/s/")
        .and_then(|rest| rest.split_at_checked(rest.find('/')?));
    let header = headers
        .get(SESSION_HEADER)
        .map(|value| value.to_str().unwrap_or_default());
    let (id, source, path) = match (prefixed, header) {
        (Some((id, rest)), _) => (id, SessionSource::Path, rest),
        (None, Some(id)) => (id, SessionSource::Header, path),
        (None, None) => return Ok((path, None)),
    };
    if !is_valid(id) {
        let message = "invalid session name: expected 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`, and not only dots";
        return Err(ApiError::new(ErrorReason::BadSession, message));
    }
    let id = id.to_owned();
    Ok((path, Some(SessionName { id, source })))
}

fn is_valid(text: &str) -> bool {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "._:-".contains(char);
    // Intermediaries resolve `.` and `..` as path segments.
    let is_dots = text.chars().all(|char| char == '.');
    (1..=MAX_SESSION_NAME_CHARS).contains(&text.len()) && text.chars().all(is_allowed) && !is_dots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_prefix_outranks_the_header() {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION_HEADER, "from-header".parse().unwrap());
        let name = |id: &str, source| {
            let id = id.to_owned();
            Some(SessionName { id, source })
        };

        let prefixed = split("/s/a-1/v1beta/models", &headers).unwrap();
        let plain = split("/v1beta/models", &headers).unwrap();

        assert_eq!(
            prefixed,
            ("/v1beta/models", name("a-1", SessionSource::Path))
        );
        assert_eq!(
            plain,
            ("/v1beta/models", name("from-header", SessionSource::Header))
        );
    }

    #[test]
    fn a_malformed_session_name_is_refused() {
        for path in [
            "/s//v1beta/models",
            "/s/a%20b/v1beta/models",
            "/s/../v1beta/models",
            "/s/./v1beta/models",
        ] {
            assert!(split(path, &HeaderMap::new()).is_err(), "{path}");
        }
    }
}

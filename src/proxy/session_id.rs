//! Which session a request belongs to, and whose it is. Pure.
//!
//! An agent names it by the prefix `/s/{session}` or by `x-hookgate-session`, and
//! gemini-cli on Code Assist by the `session_id` of its requests; else it is known by its history (see [`crate::session`]).

use http::HeaderMap;

use crate::{
    session::SessionSource,
    state::{ApiError, ErrorReason},
};

const HEADER: &str = "x-hookgate-session";
const LONGEST: usize = 128;

/// A path without its session prefix, and the session if one is named.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) path: &'a str,
    pub(super) session: Option<Name>,
}

/// How an agent names its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) id: String,
    pub(super) source: SessionSource,
}

impl Name {
    /// The session that a body names, if that is a name.
    pub(super) fn of_body(id: String) -> Option<Self> {
        let source = SessionSource::CodeAssist;
        is_name(&id).then_some(Self { id, source })
    }
}

/// Takes the session's name off the path, or out of the header.
pub(super) fn named<'a>(path: &'a str, headers: &'a HeaderMap) -> Result<Named<'a>, ApiError> {
    let prefixed = path.strip_prefix("/s/").and_then(|it| {
        let at = it.find('/')?;
        it.split_at_checked(at)
    });
    let header = headers
        .get(HEADER)
        .map(|it| it.to_str().unwrap_or_default());
    let (session, path) = match (prefixed, header) {
        (Some((session, rest)), _) => (Some((session, SessionSource::Path)), rest),
        (None, header) => (header.map(|it| (it, SessionSource::Header)), path),
    };
    if session.is_some_and(|it| !is_name(it.0)) {
        let message =
            "a session is named by 1 to 128 characters of A-Z a-z 0-9 . _ : -, not of dots alone";
        return Err(ApiError::new(ErrorReason::BadSession, message));
    }
    let session = session.map(|(id, source)| Name {
        id: id.to_owned(),
        source,
    });
    Ok(Named { path, session })
}

fn is_name(text: &str) -> bool {
    let allowed = |it: char| it.is_ascii_alphanumeric() || "._:-".contains(it);
    // What others on the way take for a step in a path is none.
    let steps = text.chars().all(|it| it == '.');
    (1..=LONGEST).contains(&text.len()) && text.chars().all(allowed) && !steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_outranks_the_header() {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, "from-header".parse().unwrap());
        let found = named("/s/a-1/v1beta/models", &headers).unwrap();
        let name = |id: &str, source| {
            let id = id.to_owned();
            Some(Name { id, source })
        };
        let prefixed = name("a-1", SessionSource::Path);
        assert_eq!((found.path, found.session), ("/v1beta/models", prefixed));
        let found = named("/v1beta/models", &headers).unwrap();
        assert_eq!(found.session, name("from-header", SessionSource::Header));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for path in [
            "/s//v1beta/models",
            "/s/a%20b/v1beta/models",
            "/s/../v1beta/models",
            "/s/./v1beta/models",
        ] {
            assert!(named(path, &HeaderMap::new()).is_err(), "{path}");
        }
    }
}

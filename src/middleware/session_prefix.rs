//! The session that an agent names in the path of a request.

use crate::{
    dialect,
    error::{ApiError, ErrorReason},
};

const MAX_SESSION_NAME_CHARS: usize = 128;

/// Splits the prefix `/s/{session}` off a path. Returns the session and the rest.
///
/// # Errors
///
/// If the name is malformed.
pub fn split_session(path: &str) -> Result<(Option<&str>, &str), ApiError> {
    let (session, rest) = dialect::split_session(path);
    session.map(check_session_name).transpose()?;
    Ok((session, rest))
}

/// Checks the name of a session in a path or header.
///
/// # Errors
///
/// If the name is malformed.
pub fn check_session_name(name: &str) -> Result<(), ApiError> {
    if is_session_name(name) {
        return Ok(());
    }
    let message = "invalid session name: expected 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`, and not only dots";
    Err(ApiError::new(ErrorReason::BadSession, message))
}

/// Returns the name of the session of a sub-agent: that of its main agent, and its own id. `None`
/// if that is no name.
pub fn sub_agent_session(session: &str, sub_agent: &str) -> Option<String> {
    let name = format!("{session}:{sub_agent}");
    is_session_name(&name).then_some(name)
}

/// Returns whether a text can be the name of a session.
pub fn is_session_name(text: &str) -> bool {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "._:-".contains(char);
    // Intermediaries resolve `.` and `..` as path segments.
    let is_dots = text.chars().all(|char| char == '.');
    (1..=MAX_SESSION_NAME_CHARS).contains(&text.len()) && text.chars().all(is_allowed) && !is_dots
}

//! Lookup of a request line in the method tables of all APIs.
//!
//! Requests that match no row are refused. `hookgate coverage`, `/coverage` and
//! `docs/coverage.md` show the same tables.
//!
//! Paths are matched as sent, without decoding percent-escapes or dropping segments,
//! and path parameters are checked for their characters. So the path that was matched
//! is the path that upstream reads.

use http::Method;

use crate::{
    dialect::{
        api_dialect::Dialect,
        call::{Call, PathParameter},
        error::RequestLineError,
        method::{Api, MethodSpec},
    },
    model::ModelName,
};

/// Maximum length of a path parameter, in bytes.
const MAX_PARAMETER_BYTES: usize = 256;

/// HTTP method of a row that matches every method.
const ANY: &str = "ANY";

/// End of a path that matches one or more segments.
const REST: &str = "{path*}";

/// Method, path and query of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    /// HTTP method as sent.
    pub method: &'a Method,
    /// Path as sent, without a session prefix.
    pub path: &'a str,
    /// Query as sent, without `?`; empty if there is none.
    pub query: &'a str,
    /// The API that the headers point to. It decides between paths that several APIs have.
    pub api: Option<Api>,
}

/// A request line that matches a row.
#[derive(Debug)]
pub struct RecognizedCall {
    /// Row of the method table.
    pub method: &'static MethodSpec,
    /// The call, or the error in its query.
    pub call: Result<Call, RequestLineError>,
}

/// Finds the row of a request line. Returns `None` for an unknown path.
///
/// # Errors
///
/// Fails if the path exists with other HTTP methods only.
pub fn find(
    dialects: &[&dyn Dialect],
    line: RequestLine<'_>,
) -> Option<Result<RecognizedCall, RequestLineError>> {
    let mut allowed: Vec<&str> = Vec::new();
    let mut parameters = Vec::new();
    let is_named = |dialect: &&&dyn Dialect| line.api == Some(dialect.api());
    let named = dialects.iter().filter(is_named);
    let others = dialects.iter().filter(|dialect| !is_named(dialect));
    for dialect in named.chain(others) {
        for method in dialect.methods() {
            parameters.clear();
            if match_path(*dialect, method.path, line.path, &mut parameters).is_none() {
                continue;
            }
            if [line.method.as_str(), ANY].contains(&method.method) {
                let call = Call::new(method, &parameters, line.query);
                return Some(Ok(RecognizedCall { method, call }));
            }
            // Several APIs may have the path.
            if !allowed.contains(&method.method) {
                allowed.push(method.method);
            }
        }
    }
    let is_known = !allowed.is_empty();
    let allowed = allowed.join(", ");
    is_known.then_some(Err(RequestLineError::Method { allowed }))
}

/// Collects the path parameters if `path` matches `template`.
fn match_path<'a>(
    dialect: &dyn Dialect,
    template: &'static str,
    path: &'a str,
    parameters: &mut Vec<PathParameter<'a>>,
) -> Option<()> {
    // Cheap first check: most templates differ in their last literal.
    let last = template.as_bytes().rsplit(|byte| *byte == b'}').next()?;
    if !path.as_bytes().ends_with(last) {
        return None;
    }
    let versions = dialect.versions();
    let mut patterns = template.split('/').skip(1).peekable();
    let mut segments = path.strip_prefix('/')?.split('/').peekable();
    let first = segments.peek();
    let has_version = first.is_some_and(|segment| versions.contains(segment));
    if let Some(version) = dialect.default_version()
        && !has_version
        && patterns.peek() == Some(&"{version}")
    {
        patterns.next();
        parameters.push(("version", version));
    }
    loop {
        match (patterns.next(), segments.next()) {
            (None, None) => return Some(()),
            (Some(REST), Some(segment)) => {
                let others = segments.clone();
                let length = others.map(|other| other.len() + 1).sum::<usize>() + segment.len();
                let rest = path.get(path.len() - length..)?;
                let mut each = rest.split('/');
                let is_valid = each.all(|segment| is_allowed(REST, segment, versions));
                parameters.push(("path*", rest));
                return is_valid.then_some(());
            }
            (Some(pattern), Some(segment)) => match parameter(pattern, segment) {
                Some((name, value)) if is_allowed(name, value, versions) => {
                    parameters.push((name, value));
                }
                None if pattern == segment => (),
                Some(_) | None => return None,
            },
            (Some(_), None) | (None, Some(_)) => return None,
        }
    }
}

/// Returns the parameter in a segment that matches `pattern`.
fn parameter<'a>(pattern: &'static str, segment: &'a str) -> Option<PathParameter<'a>> {
    let (head, rest) = pattern.split_once('{')?;
    let (name, tail) = rest.split_once('}')?;
    let value = segment.strip_prefix(head)?.strip_suffix(tail)?;
    Some((name, value))
}

/// Checks the characters of a path parameter.
fn is_allowed(name: &str, value: &str, versions: &[&str]) -> bool {
    let consists_of = |others: &'static [u8]| {
        let only_dots = value.bytes().all(|byte| byte == b'.');
        let is_common = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        (1..=MAX_PARAMETER_BYTES).contains(&value.len())
            && !only_dots
            && value
                .bytes()
                .all(|byte| is_common(byte) || others.contains(&byte))
    };
    match name {
        "version" => versions.contains(&value),
        "model" => ModelName::is_path_segment(value),
        "project" => consists_of(b".:-"),
        "location" => consists_of(b"-"),
        _ => consists_of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ._~=-"),
    }
}

#[cfg(test)]
mod tests;

//! Every method of the model APIs, and what runs on it: one table. The router
//! reads it, `hookgate coverage` and `/coverage` print it, and `docs/coverage.md`
//! is made of it. What is not in it is refused. Pure.
//!
//! Paths are matched as they were sent: no percent-encoding is undone, no
//! segment is left out, and what stands in a place of a path is checked for its
//! characters, so that what was matched is what upstream reads.

use serde::Serialize;

use super::{ALL, Api, Call, DialectError, Framing, Operation, RequestLine};
use crate::model::ModelName;

/// One method of a model API.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose it is.
    pub api: Api,
    /// The HTTP method.
    pub method: &'static str,
    /// The path; `{…}` stands for one segment, or for what stands before the `:`
    /// in one.
    pub path: &'static str,
    /// What it is called; two paths may have one name.
    pub name: &'static str,
    /// What it asks for, in each framing.
    pub operation: Operation,
    /// Whether agents may call it.
    pub access: Access,
}

/// Whether agents may call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// They may.
    Open,
    /// They may if the operator allows it by name: it carries content that
    /// hookgate does not see.
    ByName,
    /// They may not, and here is why: the rest of a sentence that begins with
    /// its name.
    Never(&'static str),
}

/// What runs on a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Runs {
    /// Hooks and policies on request and answer.
    Hooked,
    /// Hooks and policies on the request; the answer has no words of a model.
    RequestOnly,
    /// Nothing: it goes on as it is.
    Passed,
    /// Nothing: it does not go on.
    Refused,
}

impl Runs {
    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hooked => "hooked",
            Self::RequestOnly => "request only",
            Self::Passed => "passed",
            Self::Refused => "refused",
        }
    }
}

impl Row {
    /// What runs on it, for an operator who allows it by name or does not.
    pub const fn runs(&self, allowed: bool) -> Runs {
        match (self.access, self.operation) {
            (Access::Never(_), _) => Runs::Refused,
            (Access::ByName, _) if !allowed => Runs::Refused,
            (_, Operation::Generate | Operation::Stream(_)) => Runs::Hooked,
            (_, Operation::UseCache | Operation::Other) => Runs::Passed,
            (
                _,
                Operation::CountTokens
                | Operation::Embed
                | Operation::BatchEmbed
                | Operation::CreateCache,
            ) => Runs::RequestOnly,
        }
    }

    /// Whether it carries content that nobody here sees, even if it is allowed.
    pub const fn is_unseen(&self) -> bool {
        matches!(
            (self.access, self.operation),
            (Access::ByName, Operation::Other)
        )
    }

    /// What it is called in logs and metrics.
    pub const fn label(&self) -> &'static str {
        match self.operation {
            Operation::UseCache | Operation::CreateCache | Operation::Other => self.name,
            operation => operation.as_str(),
        }
    }
}

/// The table.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    ALL.iter().flat_map(|it| it.rows())
}

/// A request line that is in the table.
#[derive(Debug)]
pub struct Recognised {
    /// Its line there.
    pub row: &'static Row,
    /// The call, or what is wrong with its query.
    pub call: Result<Call, DialectError>,
}

/// Finds a request line in the table: none if its path is not there, an error if
/// it is there with other HTTP methods only.
pub fn recognise(line: RequestLine<'_>) -> Option<Result<Recognised, DialectError>> {
    let mut others: Vec<&str> = Vec::new();
    let mut parts = Vec::new();
    for row in rows() {
        parts.clear();
        if places(row, line.path, &mut parts).is_none() {
            continue;
        }
        if line.method.as_str() == row.method {
            let call = Call::read(row, &parts, line.query);
            return Some(Ok(Recognised { row, call }));
        }
        others.push(row.method);
    }
    let allowed = others.join(", ");
    (!others.is_empty()).then_some(Err(DialectError::Method { allowed }))
}

/// What a path without a version means (litellm sends such).
const DEFAULT_VERSION: &str = "v1beta";

/// What stands in a place of a path, and the place's name.
pub(super) type PathPart<'a> = (&'static str, &'a str);

/// Collects what stands in the places of a row's path, if `path` is one.
fn places<'a>(row: &Row, path: &'a str, found: &mut Vec<PathPart<'a>>) -> Option<()> {
    // Most rows differ in what is called.
    let last = row.path.as_bytes().rsplit(|it| *it == b'}').next()?;
    if !path.as_bytes().ends_with(last) {
        return None;
    }
    let versions = versions(row.api);
    let mut template = row.path.split('/').skip(1).peekable();
    let mut segments = path.strip_prefix('/')?.split('/').peekable();
    let versioned = segments.peek().is_some_and(|it| versions.contains(it));
    if row.api == Api::Gemini && !versioned && template.peek() == Some(&"{version}") {
        template.next();
        found.push(("version", DEFAULT_VERSION));
    }
    loop {
        match (template.next(), segments.next()) {
            (None, None) => return Some(()),
            (Some(pattern), Some(segment)) => {
                if let Some((name, value)) = place(pattern, segment) {
                    fits(name, value, versions).then(|| found.push((name, value)))?;
                } else if pattern != segment {
                    return None;
                }
            }
            (Some(_), None) | (None, Some(_)) => return None,
        }
    }
}

/// The name of a segment's place and what stands there.
fn place<'a>(pattern: &'static str, segment: &'a str) -> Option<(&'static str, &'a str)> {
    let (head, rest) = pattern.split_once('{')?;
    let (name, tail) = rest.split_once('}')?;
    let value = segment.strip_prefix(head)?.strip_suffix(tail)?;
    Some((name, value))
}

/// Whether a text may stand in a place.
fn fits(name: &str, text: &str, versions: &[&str]) -> bool {
    let all = |others: &'static [u8]| {
        let only_dots = text.bytes().all(|it| it == b'.');
        let known = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
        (1..=256).contains(&text.len())
            && !only_dots
            && text.bytes().all(|it| known(it) || others.contains(&it))
    };
    match name {
        "version" => versions.contains(&text),
        // Its `models/` is a segment of its own.
        "model" => ModelName::is_valid(text),
        "project" => all(b".:-"),
        "location" => all(b"-"),
        _ => all(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ._~=-"),
    }
}

const fn versions(api: Api) -> &'static [&'static str] {
    match api {
        Api::Gemini => &["v1beta", "v1", "v1alpha"],
        Api::Vertex => &["v1", "v1beta1"],
        Api::CodeAssist => &["v1internal"],
    }
}

/// A stream, framed as its query says.
pub(super) const STREAM: Operation = Operation::Stream(Framing::Array);

/// Why a live session cannot be let through.
pub(super) const LIVE: Access =
    Access::Never("is a session over a websocket, which hookgate does not carry");

/// Why caches are not listed.
pub(super) const LIST_OF_CACHES: Access =
    Access::Never("would show every caller what the others have cached");

/// Writes a part of the table, one line for each method.
macro_rules! table {
    ($api:ident: $($method:ident $path:literal $name:literal $operation:expr, $access:expr;)*) => {
        pub(super) const ROWS: &[Row] = &[$(Row {
            api: Api::$api,
            method: stringify!($method),
            path: $path,
            name: $name,
            operation: $operation,
            access: $access,
        }),*];
    };
}
pub(super) use table;

#[cfg(test)]
mod tests;

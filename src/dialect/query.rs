//! The query of a call, which says how its answer is framed. Pure.
//!
//! Names and values are taken as they stand: what is spelled with `%` is none of
//! those that are known, and what is not known is refused.

use super::{DialectError, Framing, Operation};

/// Parameters that upstream understands and that change no meaning.
const PASSED: [&str; 4] = ["pageSize", "pageToken", "prettyPrint", "quotaUser"];

/// Parameters of calls that nobody looks into.
const PASSED_UNSEEN: [&str; 12] = [
    "filter",
    "force",
    "include_input",
    "last_event_id",
    "orderBy",
    "returnPartialSuccess",
    "stream",
    "updateMask",
    "uploadType",
    "upload_id",
    "upload_protocol",
    "view",
];

/// What a query says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    /// How a stream is framed.
    pub(super) framing: Framing,
    /// Parameters for upstream, as sent: no credential among them.
    pub(super) passed: Vec<String>,
}

/// What becomes of a parameter.
enum Fate {
    /// It is for us: how a stream is framed.
    Framed(Framing),
    /// It goes no further.
    Dropped,
    /// It goes upstream as it is.
    Passed,
    /// Nobody may send it.
    Refused,
}

/// Reads the query of a call that asks for `operation`, without its `?`.
pub(super) fn read(text: &str, operation: Operation) -> Result<Query, DialectError> {
    let mut framing = Framing::Array;
    let mut passed = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for pair in text.split('&').filter(|it| !it.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if seen.contains(&name) {
            return Err(DialectError::Ambiguous(name.to_owned()));
        }
        seen.push(name);
        match fate(name, value, operation) {
            Fate::Framed(as_said) => framing = as_said,
            Fate::Dropped => (),
            Fate::Passed if is_plain(value) => passed.push(pair.to_owned()),
            Fate::Passed | Fate::Refused => return Err(DialectError::Query(name.to_owned())),
        }
    }
    Ok(Query { framing, passed })
}

fn fate(name: &str, value: &str, operation: Operation) -> Fate {
    let unseen = operation == Operation::Other;
    match (name, value) {
        // A credential; it travels in a header.
        ("key", _) | ("alt", "json" | "") => Fate::Dropped,
        ("alt", "sse" | "media") if unseen => Fate::Passed,
        ("alt", "sse") => Fate::Framed(Framing::Sse),
        (name, _) if PASSED.contains(&name) => Fate::Passed,
        (name, _) if unseen && PASSED_UNSEEN.contains(&name) => Fate::Passed,
        // Only how long it is kept can be changed; what a mask names and a body lacks
        // would be taken away.
        ("updateMask", "ttl" | "expireTime" | "expire_time")
            if operation == Operation::UseCache =>
        {
            Fate::Passed
        }
        _ => Fate::Refused,
    }
}

/// Whether a value can stand in a URL and end nothing there.
fn is_plain(value: &str) -> bool {
    let plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~%+=/:@".contains(&it);
    value.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Query, DialectError> {
        super::read(text, Operation::Stream(Framing::Array))
    }

    #[test]
    fn what_is_known_is_read_and_what_is_passed_on_stays_as_it_is() {
        let query = read("key=S%26&&alt=sse&pageToken=a%2Bb%3D%3D&prettyPrint=").unwrap();
        assert_eq!(query.framing, Framing::Sse);
        assert_eq!(query.passed, ["pageToken=a%2Bb%3D%3D", "prettyPrint="]);
        assert_eq!(read("alt=json").unwrap().framing, Framing::Array);
        assert_eq!(read("").unwrap().passed, [""; 0]);
    }

    #[test]
    fn what_could_be_read_otherwise_is_refused() {
        for text in [
            "alt=sse&alt=json",
            "key=a&key=b",
            "key=a&alt=sse&key=a",
            "pageSize=1&pageSize=2",
            "alt=proto",
            "alt=SSE",
            "alt=sse%00",
            "a%6ct=sse",
            "Alt=sse",
            "alt",
            "$alt=sse",
            "$httpMethod=GET",
            "%24httpMethod=GET",
            "$.xgafv=1",
            "$ct=x",
            "$req=x",
            "fields=candidates",
            "$fields=x",
            "callback=f",
            "access_token=t",
            "oauth_token=t",
            "uploadType=media",
            "upload_protocol=raw",
            "x",
            "=",
            "pageToken=a;alt=proto",
            "pageToken=a#b",
            "quotaUser=a?b",
        ] {
            let refused = read(text).is_err();
            // `alt` without a value means what its absence means.
            assert!(refused || text == "alt", "{text}");
        }
    }
}

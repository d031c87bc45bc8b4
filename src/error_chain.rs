//! Errors with their sources.

use std::{error::Error, iter};

/// Returns an error, its source, the source of that, and so on.
pub fn error_chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |&error| error.source())
}

/// Returns the messages of an error and its sources, joined by colons.
pub fn with_sources(error: &(dyn Error + 'static)) -> String {
    let messages: Vec<String> = error_chain(error).map(message).collect();
    messages.join(": ")
}

/// Returns the message of an error, with the remedy for those of TLS whose text names none.
pub fn message(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    match text.as_str() {
        "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))" => {
            "the certificate is that of an authority: issue one for the server, with `CA:FALSE`"
                .to_owned()
        }
        "received corrupt message of type InvalidContentType" => {
            format!("{text}: the port does not speak TLS; use http://")
        }
        "invalid HTTP version parsed" => {
            format!("{text}: if the port speaks TLS, use https://")
        }
        _ => text,
    }
}

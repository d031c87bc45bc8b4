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
    let messages: Vec<String> = error_chain(error).map(ToString::to_string).collect();
    messages.join(": ")
}

//! Output of commands: text on stdout and stderr, and numbers with their noun.

use std::{
    borrow::Cow,
    io::{self, Write},
    ops::ControlFlow::{self, Break, Continue},
};

use crate::invisible_char::escape_invisible;

/// Prints text and a line feed to stdout. A closed pipe is not an error.
pub(super) fn print(text: &str) -> io::Result<()> {
    print_record(text).map(|_flow| ())
}

/// Prints one of many records, as [`print`] does. Breaks if the pipe is closed.
pub(super) fn print_record(text: &str) -> io::Result<ControlFlow<()>> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Break(())),
        result => result.map(Continue),
    }
}

/// Prints text and a line feed to stderr, with escapes for invisible characters. Errors
/// are ignored: there is no other output.
pub(super) fn print_error(text: &str) {
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(escape_invisible).collect();
    let _ignored = writeln!(io::stderr().lock(), "{}", lines.join("\n"));
}

/// Returns `1 hook` or `2 hooks`.
pub(super) fn count(number: usize, singular: &str, plural: &str) -> String {
    let noun = if number == 1 { singular } else { plural };
    format!("{number} {noun}")
}

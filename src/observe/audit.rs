//! The decision log cannot be written, or can again.

use std::io;

/// It cannot be written. Said once, until it can.
#[derive(Debug)]
pub struct AuditAway<'a> {
    /// What the system said.
    pub cause: &'a io::Error,
}

/// It can be written again, and all that waited is.
#[derive(Debug)]
pub struct AuditBack;

/// It did not end with a whole line when it was opened.
#[derive(Debug)]
pub struct AuditRepaired {
    /// How many bytes were set aside.
    pub bytes: u64,
}

/// It could not be written to its end.
#[derive(Debug)]
pub struct AuditEnded {
    /// How many lines are lost.
    pub lines: u64,
}

impl AuditAway<'_> {
    /// Logs it.
    pub fn emit(&self) {
        tracing::error!(cause = %self.cause, "the decision log cannot be written");
    }
}

impl AuditBack {
    /// Logs it.
    pub fn emit(&self) {
        tracing::info!("the decision log is written again");
    }
}

impl AuditRepaired {
    /// Logs it.
    pub fn emit(&self) {
        let bytes = self.bytes;
        tracing::warn!(
            bytes,
            "the decision log had a torn end, which was set aside"
        );
    }
}

impl AuditEnded {
    /// Logs it.
    pub fn emit(&self) {
        let lines = self.lines;
        tracing::error!(lines, "the end of the decision log is lost");
    }
}

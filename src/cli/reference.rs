//! Commands that print the reference of all commands.

pub(super) mod completions;
pub(super) mod man;

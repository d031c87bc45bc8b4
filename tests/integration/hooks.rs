//! Hooks on model calls: edits, denials, selection of tools, order and failure modes.

mod answers;
mod denials;
mod metadata;
mod requests;
mod running;
mod tools;
mod unusable_output;

const MODEL: &str = "gemini-2.5-pro";

//! What hooks can do to a model call.

mod answers;
mod denials;
mod requests;
mod running;
mod telling;
mod tools;

const MODEL: &str = "gemini-2.5-pro";

//! Policies, seen from outside.

mod costs;
mod limits;
mod models;
mod places;
mod prompts;
mod redact;
mod tools;

const MODEL: &str = "gemini-2.5-pro";

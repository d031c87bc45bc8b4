//! Policies, seen from outside.

mod costs;
mod limits;
mod models;
mod places;
mod prompts;
mod redact;
mod tools;
mod words;

const MODEL: &str = "gemini-2.5-pro";

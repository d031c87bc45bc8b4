//! Built-in policies: limits, models, prompts, redaction and tools, tested through the gateway.

mod configuration;
mod limits;
mod models;
mod prompts;
mod redact;
mod text_chunks;
mod time_complexity;
mod tools;

const MODEL: &str = "gemini-2.5-pro";

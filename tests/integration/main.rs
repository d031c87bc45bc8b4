//! Behaviour of the gateway from outside: one module per area. All modules are one binary,
//! because each further binary would link the whole gateway again.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test may panic and may spawn"
)]

mod harness;

mod admin;
mod ambiguous_input;
mod audit;
mod bounds;
mod bundles;
mod callers;
mod circuit;
mod claude_codex;
mod clock;
mod command_line;
mod conditions;
mod config_check;
mod console;
mod container;
mod coverage;
mod credentials;
mod deploy;
mod derived_events;
mod dialects;
mod documents;
mod errors;
mod events;
mod explain_and_test;
mod failure_modes;
mod families;
mod fleet;
mod forward;
mod fuzz_corpora;
mod guard_proof;
mod hook_scenarios;
mod hooks;
mod http2;
mod openai_chat;
mod openai_responses;
mod openapi;
mod otlp;
mod policies;
mod process_cleanup;
mod processes;
mod properties;
mod protocols;
mod recorded;
mod recording;
mod reload;
mod replay;
mod request_smuggling;
mod revisions;
mod robustness;
mod secret_leaks;
mod session_stores;
mod sessions;
mod shadow;
mod shutdown;
mod streaming;
mod systems;
mod tls;
mod trace;
mod transcripts;
mod transports;
mod vectors;

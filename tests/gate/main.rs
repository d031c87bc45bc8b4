//! The gateway's behaviour, seen from outside. One module per area; one binary
//! for all of them, because each further binary links the whole house again.

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
mod audit;
mod bounds;
mod callers;
mod canaries;
mod checks;
mod circuit;
mod clock;
mod conditions;
mod container;
mod coverage;
mod credentials;
mod derived;
mod dialects;
mod documents;
mod errors;
mod events;
mod faults;
mod forward;
mod hook_scenarios;
mod hooks;
mod laws;
mod meaning;
mod orphans;
mod otlp;
mod policies;
mod processes;
mod protocols;
mod recorded;
mod rehearsals;
mod reload;
mod robustness;
mod sessions;
mod shutdown;
mod smuggling;
mod stores;
mod streaming;
mod systems;
mod tls;
mod transcripts;
mod transports;
mod vectors;

//! hookgate: hooks between an AI agent and a Gemini-style model API.
//!
//! Read the rooms in this order; each may import only from rooms above it
//! (`tests/architecture.rs` holds the rule).
//!
//! 0. [`model`]: a model call in neutral words; [`json`]: whether a document
//!    means one thing; [`resettable_timer`]: a timer whose end moves.
//! 1. [`event`]: what happens, what hooks may answer, how answers combine.
//! 2. [`condition`], [`config`], [`dialect`], [`mask`], [`protocol`],
//!    [`telemetry`]: facts and rules.
//! 3. [`transport`], [`upstream`]: the rooms that reach outside; [`audit`]: the
//!    decision log; [`caller`]: who calls;
//!    [`session`]: what is remembered of conversations; [`policy`]: hooks
//!    without a process.
//! 4. [`hook`]: plan, run, judge.
//! 5. [`app`]: the snapshot every request holds, and the one error type.
//! 6. [`gateway`], [`api`], [`admin`], [`mock`]: the doors.
//! 7. [`server`]: listeners, layers, shutdown.
//! 8. [`cli`]: the commands.

pub mod model;
pub mod resettable_timer;

pub mod event;
pub mod http_client;

pub mod condition;
pub mod config;
pub mod dialect;
pub mod observe;
pub mod protocol;

pub mod audit_log;
pub mod auth;
pub mod policy;
pub mod session;
pub mod transport;
pub mod upstream;

pub mod error;
pub mod hook;

pub mod state;

pub mod middleware;

pub mod api;
pub mod proxy;

pub mod server;

pub mod cli;

//! hookgate: hooks between an AI agent and its model API.
//!
//! Modules from the lowest layer up; each imports only from lower layers
//! (`tests/architecture/`). `ARCHITECTURE.md` describes them, and [`proxy`] is where a
//! model call begins.

pub use model_calls::{dialect, model};

pub mod authorization;
pub mod backoff;
pub mod error_chain;
pub mod file_replacement;
pub mod invisible_char;
pub mod media_type;
pub mod mutex;
#[macro_use]
pub mod named_enum;
pub mod regular_file;
pub mod resettable_timer;
pub mod sha256;
pub mod timestamp;

pub mod event;
pub mod http_client;
pub mod service_client;

pub mod condition;
pub mod config;
pub mod fleet;
pub mod observe;
pub mod protocol;

pub mod audit_log;
pub mod auth;
pub mod policy;
pub mod recording;
pub mod session;
pub mod test_case;
pub mod transport;
pub mod upstream;

pub mod error;
pub mod hook;

pub mod proof;

pub mod state;

pub mod trial;

pub mod bundle;
pub mod middleware;
pub mod view;

pub mod api;
pub mod console;
pub mod proxy;

pub mod replay;

pub mod shadow;

pub mod server;

pub mod cli;

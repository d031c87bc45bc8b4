//! The settings: types that are deserialized from a config, and the source of its
//! JSON Schema, whose descriptions are the comments here.
//!
//! `errorMessage` in a schema completes a sentence that begins with the name of the
//! setting. The validation uses it, and so do editors.

pub(super) mod admin_users;
pub(super) mod audit;
pub(super) mod auth;
pub(super) mod config_file;
pub(super) mod coverage;
pub(super) mod decisions;
pub(super) mod hooks;
pub(super) mod limits;
pub(super) mod listeners;
pub(super) mod policies;
pub(super) mod proofs;
pub(super) mod record;
pub(super) mod revisions;
pub(super) mod rollout;
pub(super) mod sessions;
pub(super) mod system_messages;
pub(super) mod telemetry;
pub(super) mod tool_names;
pub(super) mod trace;
pub(super) mod upstreams;

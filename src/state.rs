//! Live state of the gateway: the snapshot that each request holds, and the resources
//! that survive config reloads.

mod app;
mod config_source;
mod content_owners;
mod live_trace;
mod method_policy;
mod proof_schedule;
mod recorders;
mod recordings;
mod replay_input;
mod resources;
mod revision_store;
mod revisions;
mod rollout;
mod rollout_progress;
mod rollout_sink;
mod session_expiry;
mod snapshot;
mod traffic;
mod upstreams;

pub use self::{
    app::App,
    config_source::{ConfigInput, ConfigSource, ReadConfig, ReadFiles, SourceError, StoreLayers},
    content_owners::{ContentOwners, MAX_TTL, content_name},
    live_trace::LiveTrace,
    method_policy::MethodPolicy,
    proof_schedule::prove_guards,
    recordings::{ShadowAction, ShadowError, ShadowRequest, ShadowSlot, ShadowStatus},
    replay_input::ReplayInput,
    resources::{AppResources, end_tasks},
    revision_store::{ActiveRevision, RevisionError, RevisionList, StoredRevision},
    revisions::{ConfigRevision, RefusedReload, ReloadCause, ReloadError},
    rollout_progress::{Proportion, RolloutStatus},
    session_expiry::expire_sessions,
    snapshot::{BuildError, SharedState, Snapshot},
    traffic::{Traffic, UnknownPath},
    upstreams::Upstreams,
};

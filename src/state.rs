//! Live state of the gateway: the snapshot that each request holds, and the resources
//! that survive config reloads.

mod app;
mod cached_content_owners;
mod clock;
mod live_trace;
mod method_policy;
mod recorders;
mod resources;
mod session_expiry;
mod snapshot;
mod upstreams;

pub use self::{
    app::{App, ReadConfig, ReloadError},
    cached_content_owners::CachedContentOwners,
    clock::utc_timestamp,
    live_trace::LiveTrace,
    method_policy::MethodPolicy,
    resources::AppResources,
    session_expiry::expire_sessions,
    snapshot::{BuildError, Snapshot},
    upstreams::Upstreams,
};

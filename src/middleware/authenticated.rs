//! Caller and snapshot of an authenticated request.

use std::sync::Arc;

use crate::{auth::Identity, state::Snapshot};

/// Caller and snapshot of an authenticated request. Handlers fail without it, so that no
/// request is served unauthenticated.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// Identity of the caller.
    pub identity: Arc<Identity>,
    /// Snapshot by which the caller was authenticated.
    pub snapshot: Arc<Snapshot>,
}

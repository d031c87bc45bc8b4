//! A caller that was let in.

use std::sync::Arc;

use super::Snapshot;
use crate::auth::Identity;

/// A caller that was let in: every room behind the doors is given one.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// Who it is.
    pub identity: Arc<Identity>,
    /// The snapshot by which it was let in.
    pub snapshot: Arc<Snapshot>,
}

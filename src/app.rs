//! What every door holds: one snapshot per request, one error type.

mod error;
mod snapshot;

pub use self::{
    error::{ApiError, ErrorReason},
    snapshot::{App, BuildError, Shared, Snapshot},
};

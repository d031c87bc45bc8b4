//! What every door holds: one snapshot per request, one error type.

mod admitted;
mod asking;
mod body_error;
mod caches;
mod coverage;
mod endings;
mod error;
mod head;
mod observed;
mod peer;
mod refusals;
mod reload;
mod request_id;
mod snapshot;
mod under_way;
mod upstreams;

pub use self::{
    admitted::Admitted,
    asking::{Asking, Door, Recorded, refused, trace},
    body_error::BodyTooSlow,
    caches::Caches,
    coverage::Covered,
    error::{ApiError, ErrorReason},
    head::check_head,
    observed::Observed,
    peer::{Peer, PeerCertificate},
    refusals::{AdminRefusals, GoogleError, Refusals},
    reload::{ReadConfig, Reload, Reloading, fingerprint},
    request_id::RequestId,
    snapshot::{App, BuildError, Shared, Snapshot},
    under_way::{UnderWay, hold},
    upstreams::Upstreams,
};

/// The time in UTC with milliseconds, as hooks are told it.
pub fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

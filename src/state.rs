//! What every door holds: one snapshot per request, one error type.

mod authenticated;
mod body_error;
mod cached_content_owners;
mod error;
mod header_validation;
mod in_flight;
mod method_policy;
mod on_body_end;
mod openapi_errors;
mod peer_info;
mod rejected_request;
mod reload;
mod request_id;
mod session_expiry;
mod snapshot;
mod upstreams;

pub use self::{
    authenticated::Authenticated,
    body_error::BodyTooSlow,
    cached_content_owners::Caches,
    error::{ApiError, ErrorReason},
    header_validation::check_head,
    in_flight::{UnderWay, hold},
    method_policy::Covered,
    on_body_end::OnBodyEnd,
    openapi_errors::{AdminRefusals, GoogleError, Refusals},
    peer_info::{Peer, PeerCertificate},
    rejected_request::{Asking, Door, Recorded, refused, trace},
    reload::{ReadConfig, Reload, Reloading, fingerprint},
    request_id::RequestId,
    snapshot::{App, BuildError, Shared, Snapshot},
    upstreams::Upstreams,
};

/// The time in UTC with milliseconds, as hooks are told it.
pub fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

//! Steps that every request passes before a handler, and the data they attach to it.

mod authenticate;
mod authenticated;
mod catch_panic;
mod error_response;
mod header_validation;
mod in_flight;
mod on_body_end;
mod origin_check;
mod peer_info;
mod rejected_request;
mod request_id;
mod trace_context;

pub use self::{
    authenticate::authenticate,
    authenticated::Authenticated,
    catch_panic::panic_response,
    error_response::render_error,
    in_flight::{InFlightGuard, reserve_memory},
    on_body_end::OnBodyEnd,
    origin_check::check_origin,
    peer_info::PeerInfo,
    rejected_request::{AuditRecorded, ListenerKind, RejectedRequest},
    request_id::RequestId,
    trace_context::trace_context,
};

//! Steps that every request passes before a handler, and the data they attach to it.

mod admin_user;
mod authenticate;
mod error_response;
mod header_validation;
mod in_flight;
mod on_body_end;
mod origin_check;
mod rejected_request;
mod request_extensions;
mod request_timeout;
mod session_prefix;
mod trace_context;

pub use self::{
    admin_user::{
        check_csrf_token, client_address, identify_admin_user, require_admin_user,
        require_operator, session_cookie_name, session_id,
    },
    authenticate::{RequestKind, authenticate, limit_error},
    error_response::{panic_response, render_error},
    in_flight::{InFlightGuard, reserve_memory},
    on_body_end::OnBodyEnd,
    origin_check::{check_origin, is_foreign_link},
    rejected_request::{AuditRecorded, ListenerKind, RejectedRequest, RenderedError},
    request_extensions::{Authenticated, PeerInfo, RequestId},
    request_timeout::{MAX_REQUEST_SECONDS, limit_time},
    session_prefix::{check_session_name, is_session_name, split_session, sub_agent_session},
    trace_context::trace_context,
};

//! Response to a request whose handler panicked.

use std::any::Any;

use axum::response::{IntoResponse, Response};

use crate::error::{ApiError, ErrorReason};

/// Logs a panic and returns the response for its request, which does not contain the
/// panic message.
pub fn panic_response(panic: &(dyn Any + Send)) -> Response {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(
        panic = message.unwrap_or_default(),
        "request handler panicked"
    );
    ApiError::new(ErrorReason::Internal, "internal error").into_response()
}

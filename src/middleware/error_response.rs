//! Responses for errors, with the request id, and for panics.

use std::any::Any;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

use super::request_extensions::RequestId;
use crate::{
    dialect::Dialect,
    error::{ApiError, ErrorReason},
};

/// Renders the error in a response's extensions, if any, in the form of a dialect, and sets
/// the request id header.
pub fn render_error(
    response: Response,
    id: &RequestId,
    dialect: impl FnOnce() -> &'static dyn Dialect,
) -> Response {
    let mut response = match response.extensions().get::<ApiError>() {
        None => response,
        Some(error) => {
            let mut rendered = error.render(&id.0, dialect());
            for (name, value) in response.headers() {
                // The length is that of the empty body that stood for the error.
                if name != header::CONTENT_LENGTH && !rendered.headers().contains_key(name) {
                    rendered.headers_mut().insert(name, value.clone());
                }
            }
            rendered
        }
    };
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(RequestId::HEADER, value);
    }
    response
}

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

//! Rendering of errors with the request id.

use axum::response::Response;
use http::{HeaderValue, header};

use super::request_id::RequestId;
use crate::error::ApiError;

/// Renders the error in a response's extensions, if any, and sets the request id header.
pub fn render_error(response: Response, id: &RequestId) -> Response {
    let mut response = match response.extensions().get::<ApiError>() {
        None => response,
        Some(error) => {
            let mut rendered = error.render(&id.0);
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

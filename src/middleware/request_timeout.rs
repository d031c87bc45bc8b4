//! The longest time of a request at the admin listener.

use std::time::Duration;

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::error::{ApiError, ErrorReason};

/// Seconds after which the admin listener ends a request, which includes a session store, a config
/// reload and a trial.
pub const MAX_REQUEST_SECONDS: u64 = 60;

/// Ends a request that takes too long.
pub async fn limit_time(request: Request, next: Next) -> Response {
    let is_trial = matches!(request.uri().path(), "/try" | "/console/try");
    let limit = Duration::from_secs(MAX_REQUEST_SECONDS);
    let response = tokio::time::timeout(limit, next.run(request)).await;
    response.unwrap_or_else(|_elapsed| {
        let message = if is_trial {
            format!("the trial was ended after {MAX_REQUEST_SECONDS} s")
        } else {
            format!(
                "request timed out after {MAX_REQUEST_SECONDS} s; a reload, promotion or rollback \
                 goes on: look at the config in use before you send it again"
            )
        };
        ApiError::new(ErrorReason::Overloaded, message).into_response()
    })
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use axum::{Router, body::Body, middleware::from_fn, routing::post};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_takes_too_long_ends_with_an_error_on_its_path() {
        for (path, expected) in [
            ("/try", "the trial was ended"),
            ("/console/try", "the trial was ended"),
            ("/reload", "a reload, promotion or rollback goes on"),
        ] {
            let router = Router::new().route(path, post(pending::<()>));
            let router = router.route_layer(from_fn(limit_time));
            let request = Request::post(path).body(Body::empty()).unwrap();

            let response = router.oneshot(request).await.unwrap();

            let error = response.extensions().get::<ApiError>().unwrap();
            assert_eq!(error.reason(), ErrorReason::Overloaded);
            assert!(error.message().contains(expected), "{}", error.message());
        }
    }
}

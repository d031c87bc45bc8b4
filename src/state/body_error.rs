//! Why a request's body cannot be read to its end.

use std::error::Error;

use thiserror::Error;

use super::{ApiError, ErrorReason};

/// The body comes too slowly. It breaks off with this.
#[derive(Debug, Clone, Copy, Error)]
#[error("the body comes too slowly")]
pub struct BodyTooSlow;

impl ApiError {
    /// The error for a body that broke off with `error`.
    pub fn broken_body(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if error.is::<BodyTooSlow>() {
                let message = "the request's body did not come in time";
                return Self::new(ErrorReason::BodyTimeout, message);
            }
            next = error.source();
        }
        let message = "the request's body broke off";
        Self::new(ErrorReason::BodyBroken, message)
    }
}

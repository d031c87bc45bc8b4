//! The door for agents that report events themselves (contract, section 5).

pub mod openapi;
mod report;

use axum::{Router, routing::post};

use self::report::report_event;
use crate::app::App;

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new().route("/hookgate/v1/events", post(report_event))
}

//! The door for agents that report events themselves (contract, section 5).

pub mod report;
mod shapes;

use axum::{Router, routing::post};

pub use self::{report::Explanation, shapes::EventInput};
use crate::app::App;

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new().route("/hookgate/v1/events", post(report::report_event))
}

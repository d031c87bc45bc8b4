//! The door for agents that report events themselves (contract, section 5).

pub mod report;
mod shapes;

use axum::{Router, routing::post};

pub use self::{report::Explanation, shapes::EventInput};
use crate::app::App;

/// Where events are reported.
pub const EVENTS: &str = "/hookgate/v1/events";

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new().route(EVENTS, post(report::report_event))
}

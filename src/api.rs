//! The door for agents that report events themselves (contract, section 5).

pub mod events;
mod openapi_schemas;

use axum::{Router, routing::post};

pub use self::{events::Explanation, openapi_schemas::EventInput};
use crate::state::App;

/// Where events are reported.
pub const EVENTS: &str = "/hookgate/v1/events";

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new().route(EVENTS, post(events::report_event))
}

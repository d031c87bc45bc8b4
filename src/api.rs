//! HTTP API of hookgate itself: reported events on the agents' port, and the admin API.

pub mod admin;
mod calls;
pub mod config;
pub mod events;
mod fleet;
pub mod openapi;
mod openapi_errors;
mod openapi_schemas;
mod request;
pub mod sessions;
pub mod shadow;
pub mod trial;

//! Commands for a running gateway, over its admin port.

mod client;
pub(super) mod config;
pub(super) mod fleet;
pub(super) mod shadow;

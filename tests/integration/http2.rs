//! HTTP/2 connections from agents and to model APIs.
//!
//! The modules that `.ci/run` lists are also run over HTTP/2, with `HOOKGATE_HTTP2=1`.

mod agents;
mod upstreams;

pub use agents::connect;

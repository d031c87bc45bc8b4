//! HTTP/2 towards agents and model APIs, and what hostile clients make of it.
//!
//! Other modules run over HTTP/2, too, with `HOOKGATE_HTTP2=1`.

mod agents;
mod upstreams;

pub use agents::connect;

//! Fuzz targets: one module with a function `run` for each.

pub mod answer_body;
pub mod canonical_json;
pub mod config;
pub mod event_stream;
pub mod gunzip;
pub mod hook_output;
pub mod matcher;
pub mod path_query;
pub mod recording;
pub mod request_body;
pub mod sse_reader;
pub mod unzstd;

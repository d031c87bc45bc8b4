//! hookgate: hooks between an AI agent and a Gemini-style model API.

pub mod model;

pub mod event;

pub mod dialect;
pub mod telemetry;

pub mod upstream;

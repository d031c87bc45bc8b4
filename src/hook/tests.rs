//! Tests of the whole engine.

mod properties;

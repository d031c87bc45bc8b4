//! Laws that hold for every dialect.

mod malformed_streams;

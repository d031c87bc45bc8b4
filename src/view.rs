//! Data for operators: what the admin API returns as JSON and the console shows as pages.
//!
//! One file for each page. Values are computed when they are asked for.

mod bounded_text;
pub mod config;
pub mod config_change;
pub mod content;
pub mod coverage;
pub mod fleet;
pub mod live_tail;
pub mod overview;
pub mod recorded_call;
pub mod rules;
pub mod sessions;
pub mod test_case;
pub mod trial;

pub use self::bounded_text::{MAX_TEXT_BYTES, bounded_text};

//! The JSON Schema of what operators write: made from the settings, and used for
//! validation.

pub(super) mod did_you_mean;
mod errors;
pub(super) mod formats;
mod generate;
pub(super) mod scalars;
mod validate;

pub(super) use self::generate::schema;
pub use self::validate::{UnknownKeys, validate};

//! A JSON object and edits of its top-level fields.
//!
//! Fields are parsed when they are requested. Edits are spliced into the original bytes,
//! so everything else keeps its bytes.

mod edit;
mod object;

pub use self::{edit::write_array, object::Document};

//! A JSON object and edits of its top-level fields.
//!
//! Fields are parsed when they are requested. Edits are spliced into the original bytes,
//! so everything else keeps its bytes.

mod edit;
mod field;
mod key;
mod object;
mod serialize;
mod span;

pub use self::{object::Document, serialize::write_array};

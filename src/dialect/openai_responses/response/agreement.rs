//! Comparison of two copies of an item.

use crate::dialect::{
    document::Document, error::DialectError, openai_responses::response::item::item_parts,
};

/// Returns whether two copies of an item hold the same texts and calls.
pub fn agree(one: &Document, other: &Document) -> Result<bool, DialectError> {
    if one.to_bytes() == other.to_bytes() {
        return Ok(true);
    }
    Ok(item_parts(one)? == item_parts(other)?)
}

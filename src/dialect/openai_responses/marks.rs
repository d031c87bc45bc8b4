//! Marks beside a text: annotations and tokens.

use serde_json::json;

use crate::dialect::{
    document::{Document, first_byte},
    error::Result,
};

/// Removes what repeats or refers to a text that was changed: annotations and tokens.
pub fn clear_marks(block: &mut Document) -> Result<()> {
    for field in ["annotations", "logprobs"] {
        if first_byte(block, &[field])? == Some(b'[') {
            block.set(&[field], &json!([]))?;
        }
    }
    Ok(())
}

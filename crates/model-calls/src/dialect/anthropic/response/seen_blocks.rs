//! The blocks in front of a part, as far as policies saw them.

use crate::dialect::{
    anthropic::{
        fields::{TEXT, THINKING, type_of},
        response::message_labels::visit_block,
    },
    content_form::{PRECEDING, remove_labels},
    document::Document,
    error::Result,
    google::is_thought,
};

/// Keeps of the blocks in front of parts what policies saw. A thinking block whose thought the
/// response does not show goes, because the thought was masked or removed.
pub fn keep_seen(parts: &mut [Document]) -> Result<()> {
    let mut thoughts = String::new();
    for part in parts {
        if is_thought(part)? {
            thoughts.push_str(&part.string(TEXT)?.unwrap_or_default());
        }
        let Some(blocks) = part.children(&[PRECEDING])? else {
            continue;
        };
        let mut seen = Vec::with_capacity(blocks.len());
        for mut block in blocks {
            let text = block.string(THINKING)?.unwrap_or_default();
            if !thoughts.contains(&text) {
                continue;
            }
            if type_of(&block)? == "tool_use" {
                remove_labels(&mut block, &["type"])?;
            } else {
                visit_block(&mut block, &mut remove_labels)?;
            }
            seen.push(block);
        }
        part.set_children(&[PRECEDING], &seen)?;
    }
    Ok(())
}

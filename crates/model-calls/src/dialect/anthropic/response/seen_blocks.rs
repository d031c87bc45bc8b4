//! The blocks in front of a part, as far as policies saw them.

use crate::dialect::{
    anthropic::{
        block_edit::THINKING,
        fields::{TEXT, type_of},
        response::message_labels::visit_block,
    },
    content_form::{PRECEDING, remove_labels},
    document::Document,
    error::Result,
    google::is_thought,
};

/// Keeps of the blocks in front of parts what policies saw. None stay if the response does not
/// show the same thoughts, because they were masked or removed.
pub fn keep_seen(parts: &mut [Document]) -> Result<()> {
    let mut thoughts = String::new();
    for part in parts {
        if is_thought(part)? {
            thoughts.push_str(&part.string(TEXT)?.unwrap_or_default());
        }
        let Some(mut blocks) = part.children(&[PRECEDING])? else {
            continue;
        };
        let mut is_shown = true;
        for block in &mut blocks {
            let text = block.string(THINKING)?.unwrap_or_default();
            is_shown = is_shown && thoughts.contains(&text);
            if type_of(block)? == "tool_use" {
                remove_labels(block, &["type"])?;
            } else {
                visit_block(block, &mut |object, known| remove_labels(object, known))?;
            }
        }
        if is_shown {
            part.set_children(&[PRECEDING], &blocks)?;
        } else {
            part.remove(&[PRECEDING])?;
        }
    }
    Ok(())
}

//! System prompts: the field `system`, and messages of that role.

use bytes::Bytes;

use crate::dialect::{
    anthropic::{
        block_content::{BlockContent, write_blocks},
        block_edit::edit_blocks,
        fields::{PARTS, SYSTEM_INSTRUCTION, field_part, type_of, with_source},
        request::{
            billing_header::is_billing_header,
            block_part::read_block,
            input_messages::{CalledTools, InputMessage, InputRole},
        },
    },
    content_form::{parts_in, source_of},
    document::{Document, same_bytes, write_array},
    error::Result,
};

pub const SYSTEM: &[&str] = &["system"];

/// The system prompts of a request. Their blocks are numbered in order: those of the field
/// first, then those of the messages.
#[derive(Debug)]
pub struct SystemPrompts {
    /// True if the field is one text.
    is_text: bool,
    top: Vec<Document>,
    /// Number of the first block of each message; only of system messages.
    messages: Vec<(usize, usize)>,
    /// The part of each block, in order; `None` for hidden blocks.
    parts: Vec<Option<Document>>,
}

impl SystemPrompts {
    pub fn read(body: &Document, messages: &[InputMessage]) -> Result<Self> {
        let field = BlockContent::read(body, "system")?;
        let is_text = field.as_ref().is_none_or(BlockContent::is_text);
        let top = field.map(BlockContent::into_blocks).transpose()?;
        let top = top.unwrap_or_default();
        let mut parts = Vec::new();
        for (index, block) in top.iter().enumerate() {
            let is_hidden = index == 0 && is_billing_header(block)?;
            parts.push(if is_hidden { None } else { read_part(block)? });
        }
        let mut numbers = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            if message.role == InputRole::System {
                numbers.push((index, parts.len()));
                for block in &message.blocks {
                    parts.push(read_part(block)?);
                }
            }
        }
        Ok(Self {
            is_text,
            top,
            messages: numbers,
            parts,
        })
    }

    /// Returns the system instruction of the content form; `None` if there is none.
    pub fn instruction(&self) -> Result<Option<Document>> {
        let parts = self.numbered(0, self.parts.len())?;
        if parts.is_empty() {
            return Ok(None);
        }
        let parts = write_array(parts.iter().map(Document::to_bytes));
        field_part(PARTS, parts).map(Some)
    }

    /// Returns the parts of `count` blocks from `first` on, numbered from zero.
    fn numbered(&self, first: usize, count: usize) -> Result<Vec<Document>> {
        let blocks = self.parts.iter().skip(first).take(count).enumerate();
        let parts = blocks.filter_map(|(number, part)| Some((number, part.clone()?)));
        let parts = parts.map(|(number, part)| Document::from_checked(with_source(part, number)?));
        parts.collect()
    }

    /// Writes an edited instruction: new parts and those of the field go there, others to their
    /// messages. Sets the edited messages in `originals`; an empty one is removed.
    pub fn write(
        &self,
        body: &mut Document,
        form: &Document,
        messages: &[InputMessage],
        originals: &mut [Bytes],
    ) -> Result<()> {
        let after = parts_in(form, SYSTEM_INSTRUCTION)?;
        self.write_field(body, &after)?;
        let kept = self.parts_of_messages(&after)?;
        for ((index, first), kept) in self.messages.iter().zip(kept) {
            let Some(message) = messages.get(*index) else {
                continue;
            };
            let own = self.numbered(*first, message.blocks.len())?;
            let own_blocks: Vec<Bytes> = message.blocks.iter().map(Document::to_bytes).collect();
            if let Some(original) = originals.get_mut(*index)
                && let Some(blocks) = edited(&own_blocks, &own, &kept)?
            {
                // Removed declarations of tools are empty.
                let blocks = blocks.into_iter().filter(|block| **block != *b"{}");
                *original = message.with_blocks(&blocks.collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    fn write_field(&self, body: &mut Document, after: &[Document]) -> Result<()> {
        let own = self.numbered(0, self.top.len())?;
        let is_kept =
            |part: &&Document| source_of(part).is_none_or(|number| number < self.top.len());
        let kept: Vec<Document> = after.iter().filter(is_kept).cloned().collect();
        let originals: Vec<Bytes> = self.top.iter().map(Document::to_bytes).collect();
        match edited(&originals, &own, &kept)?.as_deref() {
            None => Ok(()),
            Some([]) => body.remove(SYSTEM),
            Some(blocks) => body.set_bytes(SYSTEM, write_blocks(blocks, self.is_text)?),
        }
    }

    /// Returns those of `parts` that belong to each system message, numbered from zero.
    fn parts_of_messages(&self, parts: &[Document]) -> Result<Vec<Vec<Document>>> {
        let firsts = self.messages.iter().map(|(_, first)| *first);
        let mut divided: Vec<_> = firsts.map(|first| (first, Vec::new())).collect();
        for part in parts {
            let number = source_of(part).filter(|number| *number < self.parts.len());
            let Some(number) = number else {
                continue;
            };
            // Of several messages with the same first block, only the last one has blocks.
            let end = divided.partition_point(|(first, _)| *first <= number);
            let message = end.checked_sub(1);
            if let Some((first, own)) = message.and_then(|index| divided.get_mut(index)) {
                let numbered = with_source(part.clone(), number - *first)?;
                own.push(Document::from_checked(numbered)?);
            }
        }
        Ok(divided.into_iter().map(|(_, own)| own).collect())
    }
}

/// Returns the edited blocks; `None` if nothing differs.
fn edited(
    originals: &[Bytes],
    before: &[Document],
    after: &[Document],
) -> Result<Option<Vec<Bytes>>> {
    if same_bytes(before, after) {
        return Ok(None);
    }
    edit_blocks(originals, before, after).map(Some)
}

/// Returns the part of a system block; `None` for changes of the declared tools.
fn read_part(block: &Document) -> Result<Option<Document>> {
    match type_of(block)?.as_str() {
        "tool_addition" | "tool_removal" => Ok(None),
        _ => read_block(block, InputRole::System, &CalledTools::default()),
    }
}

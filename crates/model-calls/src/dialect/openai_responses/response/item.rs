//! Items of a response: their texts and calls as parts of the content form.

use serde_json::{Value, json};

use crate::dialect::{
    content_form::IS_REFUSAL,
    document::{Document, first_byte, insert},
    error::Result,
    google::fields::PHASE,
    openai_responses::{
        calls::ToolCallKind,
        fields::{CALL_ID, CONTENT, ENCRYPTED_CONTENT, ID, SUMMARY, TYPE},
        preceding::add_items,
        visible_fields::{item_part, visible_fields},
    },
};

/// Kind of an item in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputKind {
    /// Text of the model.
    Message,
    /// Reasoning of the model.
    Reasoning,
    /// Call of a tool that the agent runs.
    Call(ToolCallKind),
    /// Every other item, such as a call that ran upstream.
    Other,
}

impl OutputKind {
    /// Returns the kind of an item.
    pub fn of(item: &Document) -> Result<Self> {
        Ok(match item.string(TYPE)?.as_deref() {
            Some("message") => Self::Message,
            Some("reasoning") => Self::Reasoning,
            Some(_) | None => match ToolCallKind::of_call(item)? {
                Some(kind) => Self::Call(kind),
                None => Self::Other,
            },
        })
    }

    /// Returns the kind of the call, if the item is one.
    pub const fn call(self) -> Option<ToolCallKind> {
        match self {
            Self::Call(kind) => Some(kind),
            Self::Message | Self::Reasoning | Self::Other => None,
        }
    }

    /// Returns whether texts of the item arrive in pieces that hooks see one by one.
    pub const fn is_streamed(self) -> bool {
        matches!(self, Self::Message | Self::Reasoning)
    }
}

/// Position of a text within its item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemSlot {
    /// Element of the list `summary`.
    Summary(u64),
    /// Element of the list `content`.
    Content(u64),
}

type BlockList = (&'static [&'static str], fn(u64) -> ItemSlot);

/// The lists of an item that hold texts, and the slots of their elements.
pub const BLOCK_LISTS: [BlockList; 2] =
    [(SUMMARY, ItemSlot::Summary), (CONTENT, ItemSlot::Content)];

/// Fields of a block that may hold its text. LiteLLM has thoughts in `reasoning`.
pub const TEXT_FIELDS: [&str; 4] = ["text", "refusal", "transcript", "reasoning"];

/// Returns the field of a block that holds its text; `None` if the block is no text.
pub fn text_field(block: &Document) -> Result<Option<&'static str>> {
    for field in TEXT_FIELDS {
        if first_byte(block, &[field])? == Some(b'"') {
            return Ok(Some(field));
        }
    }
    Ok(None)
}

/// Returns the id of an item. That of a call without an own id is the id of the call.
pub fn id_of(item: &Document) -> Result<Option<String>> {
    let id = item.string(ID)?.or(item.string(CALL_ID)?);
    Ok(id.filter(|id| !id.is_empty()))
}

/// Returns the parts of an item, without sources.
pub fn item_parts(item: &Document) -> Result<Vec<Value>> {
    Ok(match OutputKind::of(item)? {
        kind @ (OutputKind::Message | OutputKind::Reasoning) => {
            let mut parts = block_parts(item, SUMMARY)?;
            let thoughts = parts.len();
            parts.extend(block_parts(item, CONTENT)?);
            for (index, part) in parts.iter_mut().enumerate() {
                if kind == OutputKind::Reasoning || index < thoughts {
                    insert(part, "thought", true);
                }
            }
            parts
        }
        kind @ (OutputKind::Call(_) | OutputKind::Other) => vec![item_part(kind.call(), item)?],
    })
}

/// Returns whether two copies of an item hold the same texts and calls.
pub fn agree(one: &Document, other: &Document) -> Result<bool> {
    if one.to_bytes() == other.to_bytes() {
        return Ok(true);
    }
    Ok(item_texts(one)? == item_texts(other)? && item_parts(one)? == item_parts(other)?)
}

/// Returns the parts of an item as [`item_parts`] does. Texts of a message carry its phase; that of
/// a call, of the agent or upstream, carries the reasoning in front of it.
pub fn item_parts_with(reasoning: &[Document], item: &Document) -> Result<Vec<Value>> {
    let mut parts = item_parts(item)?;
    let kind = OutputKind::of(item)?;
    if let (OutputKind::Message, Some(Value::String(phase))) = (kind, item.get(&["phase"])?) {
        let texts = parts.iter_mut().filter(|part| part.get("text").is_some());
        texts.for_each(|part| insert(part, PHASE, phase.as_str()));
    }
    if let (OutputKind::Call(_) | OutputKind::Other, Some(part)) = (kind, parts.first_mut()) {
        add_items(part, reasoning, item)?;
    }
    Ok(parts)
}

fn block_parts(item: &Document, field: &[&str]) -> Result<Vec<Value>> {
    let blocks = item.children(field)?.unwrap_or_default();
    let parts = blocks.iter().map(|block| {
        Ok(match text_field(block)? {
            Some("refusal") => json!({ "text": block.string(&["refusal"])?, IS_REFUSAL: true }),
            Some(field) => json!({ "text": block.string(&[field])? }),
            None => json!({ "block": visible_fields(block)? }),
        })
    });
    parts.collect()
}

/// A complete text of an item, or the beginning of one.
#[derive(Debug, PartialEq, Eq)]
pub struct CompleteText {
    pub slot: ItemSlot,
    pub text: String,
    /// True if it is a refusal of the model.
    pub is_refusal: bool,
}

impl CompleteText {
    /// Reads the text in a field of a block or an event.
    pub fn read(slot: ItemSlot, field: &str, holder: &Document) -> Result<Self> {
        Ok(Self {
            slot,
            text: holder.string(&[field])?.unwrap_or_default(),
            is_refusal: field == "refusal",
        })
    }
}

/// Returns the texts of an item.
pub fn item_texts(item: &Document) -> Result<Vec<CompleteText>> {
    let mut texts = Vec::new();
    for (field, slot) in BLOCK_LISTS {
        for (index, block) in (0..).zip(item.children(field)?.unwrap_or_default()) {
            if let Some(field) = text_field(&block)? {
                texts.push(CompleteText::read(slot(index), field, &block)?);
            }
        }
    }
    Ok(texts)
}

/// Writes the texts of reasoning into its `encrypted_content`, if that was a copy of the texts
/// before their edits: Ollama encrypts nothing.
pub fn write_plain_thoughts(item: &mut Document, before: &Document) -> Result<()> {
    let thoughts = |item| -> Result<String> {
        let texts = item_texts(item)?.into_iter();
        Ok(texts.map(|complete| complete.text).collect())
    };
    let copy = item.string(ENCRYPTED_CONTENT)?.unwrap_or_default();
    if !copy.is_empty() && copy == thoughts(before)? {
        let edited = thoughts(item)?;
        if edited != copy {
            item.set(ENCRYPTED_CONTENT, &edited.into())?;
        }
    }
    Ok(())
}

//! The input of a request: its items, and edits of them.

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    document::{Document, first_byte, is_set, to_document, write_array},
    error::{DialectError, Result, field_error},
    openai_responses::{
        calls::ToolCallKind,
        fields::{CONTENT, ID, INPUT, ROLE, TYPE},
    },
};

/// Kind of an input item, as mapped to the content form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// Message of the user.
    User,
    /// Message of the model.
    Assistant,
    /// Message of the system or the developer.
    System,
    /// Call of a tool that the agent runs.
    Call(ToolCallKind),
    /// Result of a tool that the agent ran.
    Result(ToolCallKind),
    /// Reasoning of the model, which belongs to the next item.
    Reasoning,
    /// An item without text that hooks see.
    Hidden,
    /// Every other item of the model: calls that ran upstream, with their results.
    Hosted,
    /// Every other item, which a server may read as one of the user.
    Unknown,
}

impl InputKind {
    /// Returns the kind of an item.
    ///
    /// # Errors
    ///
    /// Fails for items that refer to content which hooks cannot see.
    pub fn of(item: &Document) -> Result<Self> {
        let named = item.string(TYPE)?;
        if let Some(kind) = ToolCallKind::of_call(item)? {
            return Ok(Self::Call(kind));
        }
        Ok(match named.as_deref() {
            None if !item.has(ROLE) && item.has(ID) => return Err(unseen_reference()),
            None if !item.has(ROLE) => {
                return Err(field_error("type", "the type of an item without a role"));
            }
            None | Some("message") => return Self::of_message(item),
            Some("item_reference") => return Err(unseen_reference()),
            Some("function_call_output") => Self::Result(ToolCallKind::Function),
            Some("custom_tool_call_output") => Self::Result(ToolCallKind::Custom),
            Some("local_shell_call_output") => Self::Result(ToolCallKind::LocalShell),
            Some("shell_call_output") => Self::Result(ToolCallKind::Shell),
            Some("apply_patch_call_output") => Self::Result(ToolCallKind::ApplyPatch),
            Some("computer_call_output") => Self::Result(ToolCallKind::Computer),
            Some("reasoning") => Self::Reasoning,
            Some(
                "additional_tools"
                | "compaction"
                | "compaction_summary"
                | "compaction_trigger"
                | "configuration_update"
                | "context_compaction"
                | "mcp_list_tools"
                | "tool_search_call"
                | "tool_search_output",
            ) => Self::Hidden,
            Some(named) if is_by_model(item, named)? => Self::Hosted,
            Some(_) => Self::Unknown,
        })
    }

    /// Returns whether the item is of a step of the model, behind its reasoning.
    pub const fn is_of_step(self) -> bool {
        matches!(self, Self::Assistant | Self::Call(_) | Self::Hosted)
    }

    fn of_message(item: &Document) -> Result<Self> {
        match item.string(ROLE)?.as_deref() {
            Some("user") => Ok(Self::User),
            Some("assistant") => Ok(Self::Assistant),
            Some("system" | "developer") => Ok(Self::System),
            Some(_) | None => Err(field_error(
                "role",
                "`user`, `assistant`, `system` or `developer`",
            )),
        }
    }
}

/// Returns whether an item of another type is of the model. The API names those by an id, which
/// some agents leave out.
fn is_by_model(item: &Document, named: &str) -> Result<bool> {
    Ok(match item.string(ROLE)?.as_deref() {
        Some(role) => role == "assistant",
        None => named.ends_with("_call") || named.ends_with("_output") || is_set(item, ID)?,
    })
}

fn unseen_reference() -> DialectError {
    let expected = "absent, because hooks cannot see the item that it names";
    field_error("item_reference", expected)
}

/// An item, and what becomes of it.
#[derive(Debug)]
pub struct InputItem {
    pub document: Document,
    pub kind: InputKind,
    /// Items that replace it, if it is edited; none if it is removed.
    pub edit: Option<Vec<Bytes>>,
}

impl InputItem {
    /// Returns the item as it is written, without or with edits.
    pub fn written(&self) -> Vec<Bytes> {
        let unedited = || vec![self.document.to_bytes()];
        self.edit.clone().unwrap_or_else(unedited)
    }
}

/// The items of a request. A text counts as one message of the user.
#[derive(Debug)]
pub struct Input {
    pub items: Vec<InputItem>,
    /// True if the input is a text.
    is_text: bool,
    /// The new list, if items were inserted or moved.
    pub list: Option<Vec<Bytes>>,
}

impl Input {
    /// Reads the input of a request.
    pub fn read(body: &Document) -> Result<Self> {
        let is_text = first_byte(body, INPUT)? == Some(b'"');
        let documents = if is_text {
            let text = body.string(INPUT)?.unwrap_or_default();
            vec![to_document(&json!({ "role": "user", "content": text }))?]
        } else {
            body.children(INPUT)?.unwrap_or_default()
        };
        let items = documents.into_iter().map(|document| {
            Ok(InputItem {
                kind: InputKind::of(&document)?,
                document,
                edit: None,
            })
        });
        Ok(Self {
            items: items.collect::<Result<_>>()?,
            is_text,
            list: None,
        })
    }

    /// Writes the edited items into a request. A text stays a text where that is possible.
    pub fn write(self, body: &mut Document) -> Result<()> {
        let is_edited = self.items.iter().any(|item| item.edit.is_some());
        if !is_edited && self.list.is_none() {
            return Ok(());
        }
        let written = self.items.iter().flat_map(InputItem::written);
        let list = self.list.unwrap_or_else(|| written.collect());
        if let (true, [only]) = (self.is_text, list.as_slice()) {
            let only = Document::from_checked(only.clone())?;
            if first_byte(&only, CONTENT)? == Some(b'"') {
                let text = only.bytes_of(CONTENT)?.unwrap_or_default();
                return body.set_bytes(INPUT, text);
            }
        }
        body.set_bytes(INPUT, write_array(list))
    }
}

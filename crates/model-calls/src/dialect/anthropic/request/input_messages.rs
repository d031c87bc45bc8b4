//! The messages of a request.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::dialect::{
    anthropic::{
        block_content::{BlockContent, write_blocks},
        fields::{CONTENT, ID, NAME, TOOLSET, TYPE},
    },
    document::Document,
    error::{Result, field_error},
};

pub const MESSAGES: &[&str] = &["messages"];

/// Role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputRole {
    User,
    Assistant,
    /// A system prompt within the conversation.
    System,
}

impl InputRole {
    /// Reads the role of a message.
    ///
    /// # Errors
    ///
    /// Fails if it is unknown.
    pub fn read(message: &Document) -> Result<Self> {
        match message.string(&["role"])?.as_deref() {
            Some("user") => Ok(Self::User),
            Some("assistant") => Ok(Self::Assistant),
            Some("system") => Ok(Self::System),
            Some(_) | None => Err(field_error("role", "`user`, `assistant` or `system`")),
        }
    }

    /// Returns the role in the content form; `None` for system prompts.
    pub const fn of_content(self) -> Option<&'static str> {
        match self {
            Self::User => Some("user"),
            Self::Assistant => Some("model"),
            Self::System => None,
        }
    }
}

/// One message of a request.
#[derive(Debug)]
pub struct InputMessage {
    pub document: Document,
    pub role: InputRole,
    /// True if the content is one text.
    pub is_text: bool,
    /// Blocks of the content, in order.
    pub blocks: Vec<Document>,
}

impl InputMessage {
    pub fn read(document: Document) -> Result<Self> {
        let role = InputRole::read(&document)?;
        let content = match BlockContent::read(&document, "content")? {
            Some(content) => content,
            // It may change the settings of the output only.
            None if role == InputRole::System => BlockContent::Blocks(Vec::new()),
            None => return Err(field_error("content", "a string or a list of blocks")),
        };
        Ok(Self {
            role,
            is_text: content.is_text(),
            blocks: content.into_blocks()?,
            document,
        })
    }

    /// Returns the message with other blocks; empty if there are none.
    pub fn with_blocks(&self, blocks: &[Bytes]) -> Result<Bytes> {
        if blocks.is_empty() {
            return Ok(Bytes::new());
        }
        let mut document = self.document.clone();
        document.set_bytes(CONTENT, write_blocks(blocks, self.is_text)?)?;
        Ok(document.to_bytes())
    }
}

/// Reads all messages of a body.
///
/// # Errors
///
/// Fails for an unknown role, and for content that is neither text nor blocks.
pub fn read_messages(body: &Document) -> Result<Vec<InputMessage>> {
    let messages = body.children(MESSAGES)?.unwrap_or_default();
    messages.into_iter().map(InputMessage::read).collect()
}

/// The tools that were called in a conversation.
#[derive(Debug, Default)]
pub struct CalledTools {
    /// Names by the ids of the calls.
    names: HashMap<String, String>,
    /// Names of all called tools and of their toolsets.
    called: HashSet<String>,
}

impl CalledTools {
    pub fn read(messages: &[InputMessage]) -> Result<Self> {
        let mut tools = Self::default();
        for block in messages.iter().flat_map(|message| &message.blocks) {
            let is_call = block.string(TYPE)?.as_deref() == Some("tool_use");
            if is_call && let Some(id) = block.string(ID)? {
                let name = block.string(NAME)?.unwrap_or_default();
                tools.called.insert(name.clone());
                tools.called.extend(block.string(TOOLSET)?);
                tools.names.insert(id, name);
            }
        }
        Ok(tools)
    }

    /// Returns the name of a called tool; empty if the call is unknown.
    pub fn name(&self, id: &str) -> &str {
        self.names.get(id).map_or("", String::as_str)
    }

    /// Returns whether a tool, or one of a toolset, was called.
    pub fn contains(&self, tool: &str) -> bool {
        self.called.contains(tool)
    }
}

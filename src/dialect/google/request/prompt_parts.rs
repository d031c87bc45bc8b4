//! The parts of a request that model APIs cache as a prefix.

use bytes::Bytes;

use crate::dialect::{
    document::Document,
    error::DialectError,
    google::fields::{CONTENTS, SYSTEM_INSTRUCTION, TOOLS},
};

/// The parts of a request that model APIs cache as a prefix, as JSON.
#[derive(Debug, Clone, Default)]
pub struct PromptPrefix {
    /// Instruction for the whole conversation.
    pub system_instruction: Bytes,
    /// Declarations of the agent's tools.
    pub tools: Bytes,
    /// Conversation as an array.
    pub contents: Bytes,
}

/// Returns the parts of a request that model APIs cache as a prefix.
///
/// # Errors
///
/// Fails if a field is ambiguous.
pub fn prompt_parts(document: &Document) -> Result<PromptPrefix, DialectError> {
    let bytes = |field| document.bytes_of(field).map(Option::unwrap_or_default);
    Ok(PromptPrefix {
        system_instruction: bytes(SYSTEM_INSTRUCTION)?,
        tools: bytes(TOOLS)?,
        contents: bytes(CONTENTS)?,
    })
}

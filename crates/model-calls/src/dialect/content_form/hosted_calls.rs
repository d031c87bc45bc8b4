//! Calls of tools that run upstream, and their results, in answers of all APIs.

use crate::dialect::{
    content_form::PRECEDING,
    document::{Document, first_byte},
    error::Result,
    google::fields::FUNCTION_CALL,
};

const BLOCK: &[&str] = &["block"];
const CALLER: &[&str] = &["caller"];
const ID: &[&str] = &["id"];
const TOOL_CALL: &[&str] = &["toolCall", "tool_call"];
const TOOL_RESPONSE: &[&str] = &["toolResponse", "tool_response"];

/// Part of a hosted call, with the id of that call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostedPart {
    /// The call, without its result.
    Call(String),
    /// The result that the model has read.
    Result(String),
    /// A call that it makes of a tool of the agent.
    AgentCall(String),
}

impl HostedPart {
    /// Reads a part of an answer. Returns `None` for parts that belong to no hosted call.
    ///
    /// # Errors
    ///
    /// Fails for fields of the wrong type.
    pub fn of(part: &Document) -> Result<Option<Self>> {
        if let Some(call) = part.child(TOOL_CALL)? {
            return Ok(call.string(ID)?.map(Self::Call));
        }
        if let Some(result) = part.child(TOOL_RESPONSE)? {
            return Ok(result.string(ID)?.map(Self::Result));
        }
        let mut originals = Vec::new();
        originals.extend(part.child(BLOCK)?);
        originals.extend(part.child(FUNCTION_CALL)?);
        if first_byte(part, &[PRECEDING])? == Some(b'[') {
            originals.extend(part.children(&[PRECEDING])?.unwrap_or_default().pop());
        }
        for original in &originals {
            if let Some(hosted) = Self::of_original(original)? {
                return Ok(Some(hosted));
            }
        }
        Ok(None)
    }

    /// Returns the id of the call.
    pub fn id(&self) -> &str {
        let (Self::Call(id) | Self::Result(id) | Self::AgentCall(id)) = self;
        id
    }

    /// Reads a block of the Anthropic API, or an item of the Responses API.
    fn of_original(original: &Document) -> Result<Option<Self>> {
        Ok(match original.string(&["type"])?.as_deref() {
            Some(kind) if kind.ends_with("_tool_use") => original.string(ID)?.map(Self::Call),
            Some("program") => original.string(&["call_id"])?.map(Self::Call),
            Some("program_output") => original.string(&["call_id"])?.map(Self::Result),
            _ if original.has(CALLER) => {
                let caller = original.child(CALLER)?.unwrap_or_default();
                caller
                    .string(&["tool_id", "caller_id"])?
                    .map(Self::AgentCall)
            }
            _ => original.string(&["tool_use_id"])?.map(Self::Result),
        })
    }
}

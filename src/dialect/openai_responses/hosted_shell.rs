//! Shells in containers of the model API.

use crate::dialect::{
    call::Call,
    document::{Document, try_any},
    error::{Result, field_error},
    google::{
        fields::{CANDIDATES, CONTENT, PARTS, TOOLS},
        response::document::ResponseDocument,
    },
    method::Api,
    request_field::RequestField,
};

const BLOCK: &[&str] = &["block"];

/// Name of the tool in a request, unless the agent runs its commands.
const SHELL: &[&str] = &["shell"];

/// Returns whether a response may have calls of a hosted shell: if the request declares one, or
/// may name a stored prompt that does.
///
/// # Errors
///
/// Fails if the tools are ambiguous.
pub fn may_have_hosted_shell(call: &Call, request: &Document) -> Result<bool> {
    if call.method.api != Api::OpenAiResponses
        || call.allowed_fields.contains(RequestField::StoredPrompt)
    {
        return Ok(true);
    }
    let tools = request.children(TOOLS)?.unwrap_or_default();
    Ok(tools.iter().any(|tool| tool.has(SHELL)))
}

/// Refuses calls of a hosted shell. An agent that declared a shell of its own may run them,
/// whatever the response names as their place.
///
/// # Errors
///
/// Fails if the response has such a call.
pub fn refuse_hosted_shell(response: &ResponseDocument) -> Result<()> {
    if response.is_text() {
        return Ok(());
    }
    let candidates = response.document().children(CANDIDATES)?;
    let is_called = try_any(candidates.unwrap_or_default(), |candidate| {
        let content = candidate.child(CONTENT)?.unwrap_or_default();
        try_any(content.children(PARTS)?.unwrap_or_default(), |part| {
            is_hosted_call(&part.child(BLOCK)?.unwrap_or_default())
        })
    })?;
    if is_called {
        let expected = "a call of a shell that the request declares";
        return Err(field_error("shell_call", expected));
    }
    Ok(())
}

/// Returns whether a block without its type is a call of a shell in a container.
fn is_hosted_call(block: &Document) -> Result<bool> {
    let action = block.child(&["action"])?.unwrap_or_default();
    let environment = block.child(&["environment"])?.unwrap_or_default();
    let place = environment.string(&["type"])?.unwrap_or_default();
    Ok(action.has(&["commands"]) && place.starts_with("container"))
}

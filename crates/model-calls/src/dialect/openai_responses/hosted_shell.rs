//! Shells in containers of the model API.

use crate::dialect::{
    call::Call,
    document::{Document, is_set, try_any},
    error::{Result, field_error},
    google::{
        fields::{CANDIDATES, CONTENT, PARTS, TOOLS},
        response::document::ResponseDocument,
    },
    method::Api,
    openai_responses::calls::runs_in_container,
    request_field::STORED_PROMPTS,
};

const BLOCK: &[&str] = &["block"];

/// Field of a body with the id of a stored prompt.
const PROMPT: &str = "prompt";

/// Name of the tool in a request, unless the agent runs its commands.
const SHELL: &[&str] = &["shell"];

/// Returns whether a response may have calls of a hosted shell: if the request declares one, or
/// `body` names a stored prompt that may.
///
/// # Errors
///
/// Fails if the tools or the prompt are ambiguous.
pub fn may_have_hosted_shell(
    call: &Call,
    body: Option<&Document>,
    request: &Document,
) -> Result<bool> {
    if call.method.api != Api::OpenAiResponses {
        return Ok(true);
    }
    let mut prompts = [PROMPT].iter().chain(STORED_PROMPTS);
    if let Some(body) = body
        && try_any(&mut prompts, |field| is_set(body, &[field]))?
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
    Ok(action.has(&["commands"]) && runs_in_container(block)?)
}

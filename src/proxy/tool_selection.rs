//! `BeforeToolSelection`: hooks restrict the functions that the model may call.

use super::{
    model_request::ModelRequest, outcome::Did, request_context::RequestContext,
    turn_state::TurnState,
};
use crate::{
    dialect::Selected,
    error::ApiError,
    event::{BeforeToolSelection, EventName},
};

/// Fires `BeforeToolSelection` and writes the selection into the request. The response is held
/// to it, too.
pub(super) async fn run(
    context: &RequestContext,
    turn: &mut TurnState,
    request: &mut ModelRequest,
) -> Result<(), ApiError> {
    if !request.call.operation.generates() {
        return Ok(());
    }
    let engine = &context.snapshot.engine;
    let subject = request.subject(context);
    let plan = engine.plan(EventName::BeforeToolSelection, &turn.hook_context, subject);
    if plan.is_empty() {
        return Ok(());
    }
    let llm_request = request.stable_form(context, plan.detail())?;
    let document = request.document_for(&plan);
    let mut event = BeforeToolSelection { llm_request };
    let runs = engine.run_hooks(&plan, &turn.hook_context, &mut event, document.as_deref());
    let outcome = engine.conclude::<BeforeToolSelection>(&turn.hook_context, runs.await);
    context.recorder.note(&outcome);
    if let Some(selection) = &outcome.verdict {
        let selected = context
            .dialect
            .write_selection(&mut request.document, selection)?;
        if selected != Selected::Untouched {
            context.recorder.did(Did::Edit);
            turn.selected = selected;
        }
    }
    Ok(())
}

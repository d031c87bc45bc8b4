//! `BeforeToolSelection`: hooks restrict the functions that the model may call.

use super::{model_request::ModelRequest, request_context::RequestContext, turn_state::TurnState};
use crate::{
    dialect::{self, AppliedSelection},
    error::ApiError,
    event::{BeforeToolSelection, EventName},
    observe::recorder::{ExchangeAction, ExchangeEvent},
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
    let subject = request.subject();
    let plan = engine.plan(EventName::BeforeToolSelection, turn.scope(context), subject);
    if plan.is_empty() {
        return Ok(());
    }
    let llm_request = request.stable_form(plan.detail())?;
    let document = request.document_for(&plan);
    let mut event = BeforeToolSelection { llm_request };
    let runs = engine.run_hooks(&plan, turn.scope(context), &mut event, document.as_deref());
    let outcome = engine.conclude::<BeforeToolSelection>(&context.recorder, runs.await);
    if let Some(selection) = &outcome.verdict {
        let selected = dialect::write_tool_selection(&mut request.document, selection)?;
        if selected != AppliedSelection::None {
            context
                .recorder
                .record(&ExchangeEvent::ActionTaken(ExchangeAction::Edit));
            turn.selected = selected;
        }
    }
    Ok(())
}

//! `BeforeToolSelection`: hooks restrict the functions that the model may call.

use super::{model_request::ModelRequest, turn_state::TurnState};
use crate::{
    dialect,
    error::ApiError,
    event::{BeforeToolSelection, EventName},
    hook::conclude,
    observe::recorder::ExchangeAction,
};

/// Fires `BeforeToolSelection` and writes the selection into the request. The response is held
/// to it, too.
pub(super) async fn run(
    turn: &mut TurnState<'_>,
    request: &mut ModelRequest,
) -> Result<(), ApiError> {
    if !request.call.operation.generates() || request.call.retrieves() {
        return Ok(());
    }
    let plan = turn.plan(EventName::BeforeToolSelection, request);
    if plan.is_empty() {
        return Ok(());
    }
    let runs = turn.run_hooks(&plan, request, BeforeToolSelection::new);
    let runs = runs.await?;
    let recorder = &turn.context.recorder;
    if let Some(selection) = conclude::<BeforeToolSelection>(recorder, plan.summary(), runs) {
        let allowed = dialect::write_tool_selection(&mut request.document, &selection)?;
        if let Some(allowed) = allowed {
            turn.context.record_action(ExchangeAction::Edit);
            turn.allowed = allowed;
        }
    }
    Ok(())
}

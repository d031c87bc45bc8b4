//! `BeforeToolSelection`: hooks restrict the functions that the model may call.

use super::{model_request::ModelRequest, turn_state::TurnState};
use crate::{
    dialect,
    error::ApiError,
    event::{BeforeToolSelection, EventDefinition, EventName},
    hook::{conclude, merge_runs},
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
    let mut plan = turn.plan(EventName::BeforeToolSelection, request);
    if plan.is_empty() {
        return Ok(());
    }
    let runs = turn.run_hooks(&plan, request, BeforeToolSelection::new);
    let mut runs = runs.await?;
    let engine = &turn.context.snapshot.engine;
    let (event, subject) = (EventName::BeforeToolSelection, request.subject());
    if let Some(upper) = engine.plan_upper_hooks(&mut plan, event, turn.scope(), subject) {
        let (below, _) = merge_runs::<BeforeToolSelection>(&runs);
        let upper_runs = turn.run_hooks(&upper, request, |llm_request| {
            let mut event = BeforeToolSelection::new(llm_request);
            event.apply(&below);
            event
        });
        runs.extend(upper_runs.await?);
    }
    let recorder = &turn.context.recorder;
    if let Some(selection) = conclude::<BeforeToolSelection>(recorder, plan.summary(), runs) {
        // Hooks on BeforeModel may have restricted the functions before.
        let (document, earlier) = (&mut request.document, &turn.allowed);
        let allowed = dialect::write_tool_selection(document, &selection, earlier)?;
        if let Some(allowed) = allowed {
            turn.context.record_action(ExchangeAction::Edit);
            turn.allowed = allowed;
        }
    }
    Ok(())
}

//! `BeforeToolSelection`: hooks restrict the functions that the model may call.

use super::{model_request::ModelRequest, turn_state::TurnState};
use crate::{
    dialect,
    error::ApiError,
    event::{BeforeToolSelection, EventDefinition, EventName},
    hook::{conclude, evaluate, merge_runs},
    model::ToolConfig,
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
    let mut selection = evaluate::<BeforeToolSelection>(&runs);
    let engine = &turn.context.snapshot.engine;
    let (event, subject) = (EventName::BeforeToolSelection, request.subject());
    if let Some(locked) = engine.plan_locked_hooks(&mut plan, event, turn.scope(), subject) {
        let (unlocked, _) = merge_runs::<BeforeToolSelection>(&runs);
        let locked_runs = turn.run_hooks(&locked, request, |llm_request| {
            let mut event = BeforeToolSelection::new(llm_request);
            event.apply(&unlocked);
            event
        });
        let locked_runs = locked_runs.await?;
        let mode = selection.as_ref().and_then(|unlocked| unlocked.mode);
        write_selection(turn, request, selection)?;
        selection = evaluate::<BeforeToolSelection>(&locked_runs);
        if let Some(locked) = &mut selection {
            locked.mode = locked.mode.max(mode);
        }
        runs.extend(locked_runs);
    }
    conclude::<BeforeToolSelection>(&turn.context.recorder, plan.summary(), runs);
    write_selection(turn, request, selection)
}

/// Writes a selection into the request, within what earlier hooks allowed.
fn write_selection(
    turn: &mut TurnState<'_>,
    request: &mut ModelRequest,
    selection: Option<ToolConfig>,
) -> Result<(), ApiError> {
    let Some(selection) = selection else {
        return Ok(());
    };
    let document = &mut request.document;
    turn.allowed = dialect::write_tool_selection(document, &selection, &turn.allowed)?;
    if document.is_edited() {
        turn.context.record_action(ExchangeAction::Edit);
    }
    Ok(())
}

//! Execution of a plan's hooks, in parallel or in sequence (hook protocol,
//! section 4).

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::{event_scope::EventScope, outcome::hook_run, plan::Plan, table::Hook};
use crate::{
    config::{FailureMode, HookView, SystemMessages},
    event::{DiagnosticCode, EventKind, HookResult, HookRun, HookStatus, InputExtras},
    observe::recorder::ExchangeEvent,
    transport::HookCall,
};

/// Data shared by all hooks of one event.
#[derive(Debug)]
pub(super) struct HookContext<'a> {
    pub(super) scope: EventScope<'a>,
    /// The document that the event was read from.
    pub(super) document: Option<&'a RawValue>,
}

/// Runs the hooks of a plan. In a sequential plan each hook sees the edits of
/// successful hooks before it.
pub(super) async fn run<E: EventKind>(
    plan: &Plan,
    hook_context: &HookContext<'_>,
    event: &mut E,
) -> Vec<HookRun> {
    if !plan.sequential {
        let event = &*event;
        let inputs = encode_inputs(plan, hook_context, event);
        let calls = plan.hooks.iter().zip(inputs);
        return join_all(calls.map(|(hook, input)| call(hook, hook_context, event, input))).await;
    }
    let mut runs = Vec::new();
    for hook in &plan.hooks {
        let input = encode(hook, hook_context, event);
        let run = call(hook, hook_context, event, input).await;
        if run.status() == HookStatus::Ok && run.would.is_none() {
            event.apply(&run.answer.output);
        }
        runs.push(run);
    }
    runs
}

/// Encodes the inputs of all hooks of a plan. Equal ones are encoded once and
/// shared.
fn encode_inputs<E: EventKind>(
    plan: &Plan,
    hook_context: &HookContext<'_>,
    event: &E,
) -> Vec<Bytes> {
    let mut inputs: Vec<(&Hook, Bytes)> = Vec::new();
    for hook in &plan.hooks {
        let equal = inputs.iter().find(|(other, _)| {
            other.protocol.name() == hook.protocol.name()
                && (other.sees, other.system_messages, other.context)
                    == (hook.sees, hook.system_messages, hook.context)
        });
        let input = match equal {
            Some((_, input)) => input.clone(),
            None => encode(hook, hook_context, event),
        };
        inputs.push((hook, input));
    }
    inputs.into_iter().map(|(_, input)| input).collect()
}

fn encode<E: EventKind>(hook: &Hook, hook_context: &HookContext<'_>, event: &E) -> Bytes {
    let context = hook_context.scope.context;
    let extras = InputExtras {
        document: match hook.sees {
            HookView::Document => hook_context.document,
            HookView::StableForm => None,
        },
        hookgate: hook.context.then(|| context.gateway_context()),
    };
    let with_system = with_system_message(hook, event);
    let event = with_system.as_ref().unwrap_or(event);
    hook.protocol.write(context, event.as_event(), extras)
}

/// The event with the system instruction as a message, if the hook is configured to
/// see it.
fn with_system_message<E: EventKind>(hook: &Hook, event: &E) -> Option<E> {
    match hook.system_messages {
        SystemMessages::Shown => event.with_system_message(),
        SystemMessages::Hidden => None,
    }
}

async fn call<E: EventKind>(
    hook: &Hook,
    hook_context: &HookContext<'_>,
    event: &E,
    input: Bytes,
) -> HookRun {
    let started = Instant::now();
    let call = HookCall {
        context: hook_context.scope.context,
        event: E::NAME,
        input,
        protocol: hook.protocol,
        deadline: started + hook.timeout,
    };
    let mut answer = match timeout(hook.timeout, hook.transport.call(call)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => HookResult::failed(DiagnosticCode::Failed, error.to_string()),
        Err(_elapsed) => HookResult::failed(DiagnosticCode::Timeout, "timed out"),
    };
    if hook.on_failure == FailureMode::Closed {
        answer.fail_closed(&hook.name);
    }
    let with_system = with_system_message(hook, event);
    let event = with_system.as_ref().unwrap_or(event);
    hook.protocol.interpret(&mut answer, event.as_event());
    if hook.system_messages == SystemMessages::Shown {
        answer.output.extract_system_message();
    }
    let elapsed = started.elapsed();
    let run = hook_run::<E>(&hook.name, hook.mode, answer, elapsed);
    let event = E::NAME;
    let recorder = hook_context.scope.recorder;
    recorder.record(&ExchangeEvent::HookFinished { event, run: &run });
    run
}

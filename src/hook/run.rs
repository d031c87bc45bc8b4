//! Runs a plan: in parallel, or one after the other (hook protocol, section 4).

use std::time::SystemTime;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::{Plan, Run, table::Hook, would};
use crate::{
    config::{FailureMode, HookView, SystemMessages},
    event::{Answer, Context, DiagnosticCode, EventKind, HookOutput, HookStatus},
    observe::{HookFinished, Metrics},
    transport::HookCall,
};

/// What all hooks of one event share.
#[derive(Debug)]
pub(super) struct Occasion<'a> {
    pub(super) context: &'a Context,
    /// What the event was read from.
    pub(super) document: Option<&'a RawValue>,
    pub(super) metrics: &'a Metrics,
}

pub(super) async fn run<E: EventKind>(
    plan: &Plan,
    occasion: &Occasion<'_>,
    event: &mut E,
) -> Vec<Run> {
    if !plan.sequential {
        let event = &*event;
        let inputs = encode_once(plan, occasion, event);
        let calls = plan.hooks.iter().zip(inputs);
        return join_all(calls.map(|(hook, input)| call(hook, occasion, event, input))).await;
    }
    let mut runs = Vec::new();
    for hook in &plan.hooks {
        let input = encode(hook, occasion, event);
        let run = call(hook, occasion, event, input).await;
        if run.status() == HookStatus::Ok && run.would.is_none() {
            event.absorb(&run.answer.output);
        }
        runs.push(run);
    }
    runs
}

/// The inputs of all hooks of a plan: equal ones are encoded once and shared.
fn encode_once<E: EventKind>(plan: &Plan, occasion: &Occasion<'_>, event: &E) -> Vec<Bytes> {
    let mut known: Vec<(&Hook, Bytes)> = Vec::new();
    for hook in &plan.hooks {
        let same = known.iter().find(|(it, _)| {
            it.protocol.name() == hook.protocol.name()
                && (it.sees, it.system_messages) == (hook.sees, hook.system_messages)
        });
        let input = match same {
            Some((_, input)) => input.clone(),
            None => encode(hook, occasion, event),
        };
        known.push((hook, input));
    }
    known.into_iter().map(|(_, input)| input).collect()
}

fn encode<E: EventKind>(hook: &Hook, occasion: &Occasion<'_>, event: &E) -> Bytes {
    let document = match hook.sees {
        HookView::Document => occasion.document,
        HookView::StableForm => None,
    };
    let with_system = with_system(hook, event);
    let event = with_system.as_ref().unwrap_or(event);
    let context = occasion.context;
    hook.protocol.write(context, event.as_event(), document)
}

/// The event with the system instruction, if the hook is shown that.
fn with_system<E: EventKind>(hook: &Hook, event: &E) -> Option<E> {
    match hook.system_messages {
        SystemMessages::Shown => event.with_system_message(),
        SystemMessages::Hidden => None,
    }
}

async fn call<E: EventKind>(hook: &Hook, occasion: &Occasion<'_>, event: &E, input: Bytes) -> Run {
    let started = Instant::now();
    let call = HookCall {
        context: occasion.context,
        event: E::NAME,
        document: input,
        protocol: hook.protocol,
        deadline: started + hook.timeout,
    };
    let mut answer = match timeout(hook.timeout, hook.transport.call(call)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => failed(DiagnosticCode::Failed, &error),
        Err(_elapsed) => failed(DiagnosticCode::Timeout, "no answer in time"),
    };
    if hook.on_failure == FailureMode::Closed {
        answer.fail_closed(&hook.name);
    }
    let with_system = with_system(hook, event);
    let event = with_system.as_ref().unwrap_or(event);
    hook.protocol.interpret(&mut answer, event.as_event());
    if hook.system_messages == SystemMessages::Shown {
        answer.output.take_system_message();
    }
    let elapsed = started.elapsed();
    HookFinished {
        request_id: &occasion.context.request_id,
        hook: &hook.name,
        event: E::NAME,
        elapsed,
        answer: &answer,
    }
    .emit(occasion.metrics);
    Run {
        name: hook.name.clone(),
        would: would::<E>(hook.mode, &answer.output),
        answer,
        elapsed,
        ended: SystemTime::now(),
        edited: false,
        refused: Vec::new(),
    }
}

fn failed(code: DiagnosticCode, cause: &(impl ToString + ?Sized)) -> Answer {
    Answer {
        status: HookStatus::Failed,
        output: HookOutput::default(),
        diagnostics: vec![code.with(cause.to_string())],
    }
}

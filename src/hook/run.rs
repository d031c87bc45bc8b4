//! Execution of a plan's hooks, in parallel or in sequence (hook protocol,
//! section 4).

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, value::RawValue};
use tokio::time::{Instant, timeout};

use super::{outcome::hook_run, plan::Plan, table::Hook};
use crate::{
    config::{FailureMode, SystemMessages},
    dialect::{self, DialectError, ResponseDocument},
    event::{
        AfterModel, Context, DiagnosticCode, Event, EventKind, EventName, HookOutput, HookResult,
        HookRun, HookStatus, InputExtras,
    },
    model::CachedRequest,
    observe::recorder::{ExchangeEvent, Recorder},
    protocol::ShownArguments,
    transport::HookCall,
};

/// Context and recorder of one hook event.
#[derive(Debug, Clone, Copy)]
pub struct EventScope<'a> {
    /// Fields of hook inputs.
    pub context: &'a Context,
    /// Recorder of the request that the event belongs to.
    pub recorder: &'a Recorder,
}

impl<'a> EventScope<'a> {
    /// The scope of an event with this context, which is recorded there.
    pub const fn new(context: &'a Context, recorder: &'a Recorder) -> Self {
        Self { context, recorder }
    }
}

/// Runs the hooks of a plan on one event. `document` is included in the input of hooks that ask
/// for it. In a sequential plan each hook sees the edits of successful hooks before it.
pub async fn run_hooks<E: EventKind>(
    plan: &Plan,
    scope: EventScope<'_>,
    event: &mut E,
    document: Option<&RawValue>,
) -> Vec<HookRun> {
    let mut runs = Vec::new();
    if plan.sequential {
        for hook in &plan.hooks {
            let shown = ShownEvent::new(hook, event);
            let input = encode(hook, scope, shown.event(), document);
            let mut run = call(plan, hook, scope, &shown, input).await;
            run.result.output.mark_following();
            if run.status() == HookStatus::Ok && run.is_enforced() {
                event.apply(&run.result.output);
            }
            runs.push(run);
        }
    } else {
        let event = &*event;
        let shown = plan.hooks.iter().map(|hook| ShownEvent::new(hook, event));
        let shown: Vec<_> = shown.collect();
        let inputs = encode_inputs(plan, scope, &shown, document);
        let calls = plan.hooks.iter().zip(&shown).zip(inputs);
        let calls = calls.map(|((hook, shown), input)| call(plan, hook, scope, shown, input));
        runs = join_all(calls).await;
        let mut edits = plan.hooks.iter().zip(&mut runs).filter(|(hook, run)| {
            let output = &run.result.output;
            let edit = output.specific("llm_request");
            hook.is_locked && run.is_enforced() && edit.is_some_and(Value::is_object)
        });
        // The others have not seen the edits of the first.
        if let Some((_, first)) = edits.next() {
            first.result.output.mark_following();
        }
    }
    runs
}

/// Runs the hooks of a plan on a response to the request, or one chunk of it.
///
/// # Errors
///
/// Fails if the response is ambiguous.
pub async fn run_response_hooks(
    plan: &Plan,
    scope: EventScope<'_>,
    llm_request: &Arc<CachedRequest>,
    chunk: &ResponseDocument,
) -> Result<Vec<HookRun>, DialectError> {
    let document = plan.shows_document().then(|| chunk.to_raw()).flatten();
    let document = document.and_then(dialect::shown_to_hooks);
    let mut event = AfterModel {
        llm_request: Arc::clone(llm_request),
        llm_response: chunk.read_for_hooks()?,
    };
    Ok(run_hooks(plan, scope, &mut event, document.as_deref()).await)
}

/// Encodes the inputs of all hooks of a plan. Equal ones are encoded once and
/// shared.
fn encode_inputs<E: EventKind>(
    plan: &Plan,
    scope: EventScope<'_>,
    shown: &[ShownEvent<'_, E>],
    document: Option<&RawValue>,
) -> Vec<Bytes> {
    let mut inputs: Vec<(_, Bytes)> = Vec::new();
    for (hook, shown) in plan.hooks.iter().zip(shown) {
        let spec = &hook.spec;
        let form = (
            hook.protocol.name(),
            spec.document,
            spec.system_messages,
            spec.context,
            shown.event().subject(),
            shown.arguments.as_ref(),
        );
        let mut earlier = inputs.iter();
        let equal = earlier.find(|(other, _)| *other == form);
        let input = match equal {
            Some((_, input)) => input.clone(),
            None => encode(hook, scope, shown.event(), document),
        };
        inputs.push((form, input));
    }
    inputs.into_iter().map(|(_, input)| input).collect()
}

fn encode<E: EventKind>(
    hook: &Hook,
    scope: EventScope<'_>,
    event: &E,
    document: Option<&RawValue>,
) -> Bytes {
    let extras = InputExtras {
        document: document.filter(|_| hook.spec.document),
        hookgate: hook.spec.context.then(|| scope.context.gateway_context()),
    };
    hook.protocol.write(scope.context, event.as_event(), extras)
}

/// An event as one hook sees it.
struct ShownEvent<'a, E> {
    original: &'a E,
    /// `None` if the hook sees the original.
    changed: Option<E>,
    /// Arguments of its tool call with the names of the hook's family.
    arguments: Option<ShownArguments>,
}

impl<'a, E: EventKind> ShownEvent<'a, E> {
    fn new(hook: &Hook, original: &'a E) -> Self {
        let with_system = match hook.spec.system_messages {
            SystemMessages::Shown => original.with_system_message(),
            SystemMessages::Hidden => None,
        };
        let (tool, arguments) = hook.matcher.view(original).unzip();
        Self {
            original,
            changed: with_system.or(tool),
            arguments,
        }
    }

    fn event(&self) -> &E {
        self.changed.as_ref().unwrap_or(self.original)
    }
}

async fn call<E: EventKind>(
    plan: &Plan,
    hook: &Hook,
    scope: EventScope<'_>,
    shown: &ShownEvent<'_, E>,
    input: Bytes,
) -> HookRun {
    let started = Instant::now();
    let call = HookCall {
        context: scope.context,
        event: E::NAME,
        input: input.clone(),
        protocol: hook.protocol,
        deadline: started + hook.spec.timeout,
        is_proof: plan.is_proof,
    };
    let is_live = !hook.transport.is_recorded();
    let arguments = shown.arguments.as_ref().filter(|_| is_live);
    let contradiction = arguments.and_then(ShownArguments::contradiction);
    // INVARIANT: what a hook inspects is what the agent runs.
    let fails_closed = hook.spec.on_failure == FailureMode::Closed || contradiction.is_some();
    let mut result = if let Some(cause) = contradiction {
        HookResult::failed(DiagnosticCode::Failed, cause)
    } else if plan.refuses(hook) {
        HookResult::failed(DiagnosticCode::Unproven, "its last proof failed")
    } else {
        call_transport(hook, call).await
    };
    hook.protocol
        .interpret(&mut result, shown.event().as_event());
    if let Event::AfterModel(event) = shown.event().as_event()
        && result.output.ignores_edited_text(&event.llm_response)
    {
        let ignored = DiagnosticCode::WrongType.with("llm_response.text");
        result.diagnostics.push(ignored);
    }
    if is_live {
        if fails_closed {
            result.fail_closed(&hook.name, E::NAME);
        }
        log_ignored_part(hook, scope.context, &result);
    }
    if let Some(arguments) = arguments {
        restore_arguments::<E>(hook, arguments, &mut result);
    }
    read_edits(hook, shown.original, &mut result.output);
    if hook.is_locked {
        result.output.mark_locked();
    }
    let elapsed = started.elapsed();
    let mut run = HookRun {
        input,
        ..hook_run::<E>(hook.rule, &hook.name, hook.spec.mode, result, elapsed)
    };
    finish_run(plan, scope, E::NAME, &mut run);
    run
}

/// Logs, once for each hook, that a part of its output has no effect: it may be a misspelled
/// denial.
fn log_ignored_part(hook: &Hook, context: &Context, result: &HookResult) {
    if let Some(code) = result.ignored_part()
        && !hook.is_ignored_part_logged.swap(true, Ordering::Relaxed)
    {
        tracing::warn!(
            request.id = context.request_id,
            hook.name = hook.name,
            event = hook.event.as_str(),
            code = code.as_str(),
            "part of the hook output ignored"
        );
    }
}

/// Moves edited arguments to the names of the call. An edit that has no place there is a failure
/// that denies the call: the agent would run the original.
fn restore_arguments<E: EventKind>(
    hook: &Hook,
    arguments: &ShownArguments,
    result: &mut HookResult,
) {
    let specific = &mut result.output.hook_specific_output;
    let Some(Value::Object(edit)) = specific.get_mut("tool_input") else {
        return;
    };
    if let Err(name) = arguments.restore(edit)
        && E::NAME == EventName::BeforeTool
    {
        let cause = format!("the argument `{name}` of the call cannot be changed");
        result.status = HookStatus::Failed;
        result.diagnostics.push(DiagnosticCode::Failed.with(cause));
        result.fail_closed(&hook.name, E::NAME);
    }
}

/// Reads what the edits of a hook change about the event.
fn read_edits<E: EventKind>(hook: &Hook, event: &E, output: &mut HookOutput) {
    if let Some(request) = event.llm_request()
        && let Some(mut edit) = output.written_request_edit()
    {
        if hook.spec.system_messages == SystemMessages::Shown && !request.lists_system_texts() {
            edit.extract_system_message();
        }
        output.interpret_request_edit(edit, request);
    }
    if let Event::AfterModel(event) = event.as_event() {
        output.compare_with_response(&event.llm_response);
    }
    if let Some(arguments) = event.tool_input() {
        output.compare_with_arguments(arguments);
    }
}

/// Completes the diagnostics of a run, and records it.
pub(super) fn finish_run(plan: &Plan, scope: EventScope<'_>, event: EventName, run: &mut HookRun) {
    plan.annotate(run);
    let finished = ExchangeEvent::HookFinished { event, run };
    scope.recorder.record(&finished);
}

async fn call_transport(hook: &Hook, call: HookCall<'_>) -> HookResult {
    match timeout(hook.spec.timeout, hook.transport.call(call)).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => HookResult::failed(DiagnosticCode::Failed, error.to_string()),
        Err(_elapsed) => HookResult::failed(DiagnosticCode::Timeout, "timed out"),
    }
}

//! Log lines of requests.

use super::{event::ExchangeEvent, exchange_summary::ExchangeSummary, sink::Sink};
use crate::{
    event::{Diagnostic, DiagnosticCode, EventName, HookRun, HookStatus},
    observe::{MAX_NAME_BYTES, truncated},
    timestamp::whole_milliseconds,
};

/// Writes a log line for each event that operators look for.
#[derive(Debug, Clone, Copy)]
pub struct LogSink;

impl Sink for LogSink {
    fn record(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        let request_id = &*exchange.request_id;
        match event {
            ExchangeEvent::HookFinished { event, run } => {
                log_hook(request_id, *event, run);
                if run.is_enforced() {
                    let diagnostics = run.result.diagnostics.iter();
                    let is_dropped =
                        |diagnostic: &&Diagnostic| diagnostic.code == DiagnosticCode::EditDropped;
                    log_ignored(request_id, diagnostics.filter(is_dropped));
                }
            }
            ExchangeEvent::EventDecided(decision) | ExchangeEvent::ChunkDecided(decision) => {
                log_ignored(request_id, decision.diagnostics);
            }
            ExchangeEvent::EditsIgnored(ignored) => {
                let diagnostics: Vec<Diagnostic> =
                    ignored.iter().cloned().map(Into::into).collect();
                log_ignored(request_id, &diagnostics);
            }
            ExchangeEvent::ToolCallDenied { tool } => {
                tracing::info!(
                    request.id = request_id,
                    tool.name = truncated(tool, MAX_NAME_BYTES),
                    "tool call denied"
                );
            }
            ExchangeEvent::RetriesExhausted => tracing::warn!(
                request.id = request_id,
                "answer retries exhausted, accepting a denied answer"
            ),
            ExchangeEvent::UpstreamFailed {
                error,
                has_response: true,
            } => {
                tracing::warn!(
                    request.id = request_id,
                    error,
                    "upstream response unreadable"
                );
            }
            ExchangeEvent::UpstreamFailed {
                error,
                has_response: false,
            } => {
                tracing::warn!(request.id = request_id, error, "upstream request failed");
            }
            ExchangeEvent::StreamAborted { reason } => {
                tracing::warn!(request.id = request_id, reason, "stream aborted");
            }
            ExchangeEvent::Finished => log_exchange(exchange),
            _ => (),
        }
    }
}

fn log_exchange(exchange: &ExchangeSummary) {
    tracing::info!(
        request.id = &*exchange.request_id,
        session.id = exchange.session_id,
        caller.name = exchange.caller.name,
        operation = exchange.operation,
        model = exchange.model,
        upstream = exchange.upstream,
        status = exchange.status,
        action = exchange.action.as_str(),
        error = exchange.error.unwrap_or_default(),
        chunks = exchange.chunks,
        ended = exchange.end.as_str(),
        duration_ms = whole_milliseconds(exchange.elapsed),
        "exchange finished"
    );
}

fn log_hook(request_id: &str, event: EventName, run: &HookRun) {
    let diagnostics = &run.result.diagnostics;
    let failure = run.result.failure();
    let error = failure.map_or("", |failure| failure.detail.as_str());
    let codes = || {
        let codes = diagnostics
            .iter()
            .map(|diagnostic| diagnostic.code.as_str());
        codes.collect::<Vec<_>>().join(",")
    };
    let duration_ms = whole_milliseconds(run.elapsed);
    let (hook, event, status) = (run.name.as_str(), event.as_str(), run.status().as_str());
    if run.status() == HookStatus::Failed {
        tracing::warn!(
            request.id = request_id,
            hook.name = hook,
            event,
            status,
            diagnostics = codes(),
            error,
            duration_ms,
            "hook failed"
        );
    } else {
        tracing::debug!(
            request.id = request_id,
            hook.name = hook,
            event,
            status,
            diagnostics = codes(),
            duration_ms,
            "hook finished"
        );
    }
}

fn log_ignored<'a>(request_id: &str, diagnostics: impl IntoIterator<Item = &'a Diagnostic>) {
    for diagnostic in diagnostics {
        let code = diagnostic.code.as_str();
        tracing::warn!(
            request.id = request_id,
            code,
            "part of the hook output ignored"
        );
    }
}

//! Meaning of a hook process's exit code and output (hook protocol, section 3),
//! common to all protocols.

use serde_json::{Map, Value};

use super::{
    output_parser::{ParsedOutput, parse, trim},
    process_output::{ProcessExit, ProcessOutput},
};
use crate::event::{
    Decision, Diagnostic, DiagnosticCode, EventName, HookOutput, HookResult, HookStatus, OutputPart,
};

/// Exit code of a refusal.
const EXIT_BLOCK: i32 = 2;

/// Objects among lines of text that are searched for an output, the last ones: each is parsed to
/// its end.
const MAX_SEARCHED_OBJECTS: usize = 16;

/// Reason of a refusal without any output.
const NO_BLOCK_REASON: &str = "Hook exited with code 2 without an error message";

/// Cause of a failure with an object that parsers read differently.
const AMBIGUOUS_OUTPUT: &str = "output is ambiguous JSON: duplicate key, or nested too deeply";

/// The event of an output, and how a protocol differs from `gemini`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputReader {
    pub(super) event: EventName,
    /// Writes the protocol's fields as those of `gemini`.
    pub(super) translate: fn(&mut Map<String, Value>, EventName),
    /// True if a number, `true`, `false` and `null` are text.
    pub(super) scalars_are_text: bool,
}

impl OutputReader {
    fn read(self, mut fields: Map<String, Value>) -> (HookOutput, Vec<Diagnostic>) {
        (self.translate)(&mut fields, self.event);
        HookOutput::read(fields, self.event)
    }
}

/// Interprets an exited hook process of a protocol that cannot replace the result of a tool.
pub(super) fn read(process: &ProcessOutput, event: EventName) -> HookResult {
    let reader = OutputReader {
        event,
        translate: |_, _| (),
        scalars_are_text: false,
    };
    let mut result = read_translated(process, reader);
    if event == EventName::AfterTool {
        for field in OutputPart::ToolResult.specific_fields() {
            let replacement = result.output.specific(field);
            if replacement.is_some_and(|value| !value.is_null()) {
                let ignored = format!("no effect in this protocol: `hookSpecificOutput.{field}`");
                let ignored = DiagnosticCode::UnknownKey.with(ignored);
                result.diagnostics.push(ignored);
            }
        }
    }
    result
}

/// Interprets an exited hook process whose JSON output is translated first.
pub(super) fn read_translated(process: &ProcessOutput, reader: OutputReader) -> HookResult {
    let stdout = String::from_utf8_lossy(&process.stdout);
    let stderr = String::from_utf8_lossy(&process.stderr);
    let (stdout, stderr) = (trim(&stdout), trim(&stderr));
    match process.exit {
        ProcessExit::Code(0) if std::str::from_utf8(&process.stdout).is_err() => {
            malformed(readings(parse(stdout)), reader, "output is not valid UTF-8")
        }
        ProcessExit::Code(0) => succeeded(stdout, reader),
        ProcessExit::Code(EXIT_BLOCK) => blocked(stdout, stderr, reader),
        exit => failed(exit, stderr),
    }
}

fn succeeded(stdout: &str, reader: OutputReader) -> HookResult {
    let parsed = match parse(stdout) {
        ParsedOutput::NonObject if reader.scalars_are_text && !stdout.starts_with(['[', '"']) => {
            ParsedOutput::PlainText
        }
        parsed => parsed,
    };
    let (output, diagnostics) = match parsed {
        ParsedOutput::Empty => (HookOutput::default(), vec![]),
        ParsedOutput::Object(fields) => reader.read(fields),
        ParsedOutput::NonObject => {
            let ignored = DiagnosticCode::NonObjectJson.with("output is not a JSON object");
            (HookOutput::default(), vec![ignored])
        }
        ParsedOutput::PlainText => (HookOutput::message(stdout), text_diagnostics(stdout)),
        ambiguous @ ParsedOutput::Ambiguous(_) => {
            return malformed(readings(ambiguous), reader, AMBIGUOUS_OUTPUT);
        }
        ParsedOutput::Malformed => {
            return malformed(vec![], reader, "output is malformed JSON");
        }
    };
    HookResult {
        status: HookStatus::Ok,
        output,
        diagnostics,
    }
}

/// Returns the diagnostics of text in place of an output.
fn text_diagnostics(text: &str) -> Vec<Diagnostic> {
    let is_text = "stdout is text and so no decision; write logs to stderr";
    let mut diagnostics = vec![DiagnosticCode::PlainText.with(is_text)];
    let mut objects = text
        .rmatch_indices("\n{")
        .take(MAX_SEARCHED_OBJECTS)
        .filter_map(|(index, _)| {
            let documents = serde_json::Deserializer::from_str(text.get(index..)?);
            documents.into_iter::<Map<String, Value>>().next()?.ok()
        });
    let is_output = |fields: Map<String, Value>| {
        let mut names = HookOutput::FIELDS.iter();
        names.any(|name| fields.contains_key(*name))
    };
    if objects.any(is_output) {
        let ignored = "the text has a line with an output, which has no effect";
        diagnostics.push(DiagnosticCode::ObjectInText.with(ignored));
    }
    diagnostics
}

/// A refusal by exit code is final: a decision on standard output cannot revoke
/// it, but the other fields count.
fn blocked(stdout: &str, stderr: &str, reader: OutputReader) -> HookResult {
    let (mut output, text, mut diagnostics) = match parse(stdout) {
        ParsedOutput::Object(fields) => {
            let (output, diagnostics) = reader.read(fields);
            (output, "", diagnostics)
        }
        ambiguous @ ParsedOutput::Ambiguous(_) => {
            let refusal = malformed(readings(ambiguous), reader, AMBIGUOUS_OUTPUT);
            (refusal.output, "", refusal.diagnostics)
        }
        _ => (HookOutput::default(), stdout, vec![]),
    };
    let from_stderr = reason_on_stderr(stderr);
    let reasons = [
        from_stderr.as_str(),
        output.reason.as_deref().unwrap_or(""),
        text,
    ];
    let reason = reasons.into_iter().find(|reason| !trim(reason).is_empty());
    output.reason = Some(reason.unwrap_or(NO_BLOCK_REASON).to_owned());
    output.decision = Some(Decision::Deny);
    if !reader.event.honours(OutputPart::Flow) {
        let ignored = format!("no effect on {}: exit code {EXIT_BLOCK}", reader.event);
        diagnostics.push(DiagnosticCode::UnknownKey.with(ignored));
    }
    HookResult {
        status: HookStatus::Block,
        output,
        diagnostics,
    }
}

/// The objects that a parser could read from `parsed`.
fn readings(parsed: ParsedOutput) -> Vec<Map<String, Value>> {
    match parsed {
        ParsedOutput::Object(fields) => vec![fields],
        ParsedOutput::Ambiguous(readings) => readings.into(),
        _ => vec![],
    }
}

/// Malformed output is a failure, but a refusal in any reading of it counts:
/// an author of prompts who can break a hook's output must not be able to revoke
/// its refusal.
fn malformed(readings: Vec<Map<String, Value>>, reader: OutputReader, cause: &str) -> HookResult {
    let mut outputs = readings.into_iter().map(|fields| reader.read(fields).0);
    let refuses = |output: &HookOutput| output.deny().is_some() || output.stop().is_some();
    let refusal = outputs.find(refuses).unwrap_or_default();
    HookResult {
        status: HookStatus::Failed,
        output: HookOutput {
            decision: refusal.decision,
            reason: refusal.reason,
            r#continue: refusal.r#continue,
            stop_reason: refusal.stop_reason,
            ..HookOutput::default()
        },
        diagnostics: vec![DiagnosticCode::MalformedOutput.with(cause)],
    }
}

fn failed(exit: ProcessExit, stderr: &str) -> HookResult {
    let output = if stderr.is_empty() {
        HookOutput::default()
    } else {
        HookOutput::message(format!("Warning: {stderr}"))
    };
    HookResult {
        status: HookStatus::Failed,
        output,
        diagnostics: vec![DiagnosticCode::Failed.with(exit.to_string())],
    }
}

/// Returns the `reason` of a JSON object, otherwise the text.
fn reason_on_stderr(stderr: &str) -> String {
    if let ParsedOutput::Object(mut fields) = parse(stderr)
        && let Some(Value::String(reason)) = fields.remove("reason")
    {
        return reason;
    }
    stderr.to_owned()
}

#[cfg(test)]
mod tests;

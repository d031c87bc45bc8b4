//! What the end of a hook process means (hook protocol, section 3): the table
//! that all protocols start from.

use serde_json::{Map, Value};

use super::{
    Ended, Exit,
    output_parser::{Decoded, decode, trim},
};
use crate::event::{Answer, Decision, DiagnosticCode, EventName, HookOutput, HookStatus};

/// The exit code by which a hook says no without writing JSON.
const REFUSED: i32 = 2;

/// The reason of a hook that refuses and says nothing.
const SILENT_REFUSAL: &str = "Hook exited with code 2 without an error message";

/// Reads an ended process by the table.
pub(super) fn read(ended: &Ended, event: EventName) -> Answer {
    let stdout = String::from_utf8_lossy(&ended.stdout);
    let stderr = String::from_utf8_lossy(&ended.stderr);
    let (stdout, stderr) = (trim(&stdout), trim(&stderr));
    match ended.exit {
        Exit::Code(0) => answered(stdout, event),
        Exit::Code(REFUSED) => refused(stdout, stderr, event),
        exit => failed(exit, stderr),
    }
}

fn answered(stdout: &str, event: EventName) -> Answer {
    let (output, diagnostics) = match decode(stdout) {
        Decoded::Unclear(readings) => return unclear(readings, event),
        Decoded::Nothing => (HookOutput::default(), vec![]),
        Decoded::Object(fields) => HookOutput::read(fields, event),
        Decoded::OtherJson => {
            let ignored = DiagnosticCode::NonObjectJson.with("");
            (HookOutput::default(), vec![ignored])
        }
        Decoded::Plain => {
            let text = DiagnosticCode::PlainText.with("");
            (HookOutput::message(stdout), vec![text])
        }
    };
    Answer {
        status: HookStatus::Ok,
        output,
        diagnostics,
    }
}

/// A refusal by exit code is final: a decision on standard output cannot take
/// it back, but the other fields count.
fn refused(stdout: &str, stderr: &str, event: EventName) -> Answer {
    let (mut output, text, diagnostics) = match decode(stdout) {
        Decoded::Object(fields) => {
            let (output, diagnostics) = HookOutput::read(fields, event);
            (output, "", diagnostics)
        }
        Decoded::Nothing | Decoded::OtherJson | Decoded::Plain | Decoded::Unclear(_) => {
            (HookOutput::default(), stdout, vec![])
        }
    };
    let said = reason_on_stderr(stderr);
    let reasons = [said.as_str(), output.reason.as_deref().unwrap_or(""), text];
    let reason = reasons.into_iter().find(|it| !trim(it).is_empty());
    output.reason = Some(reason.unwrap_or(SILENT_REFUSAL).to_owned());
    output.decision = Some(Decision::Deny);
    Answer {
        status: HookStatus::Block,
        output,
        diagnostics,
    }
}

/// An output that means two things counts for nothing, but if any reader would
/// take it for a refusal, it is one: who can make a hook say something twice must
/// not be able to take its no back.
fn unclear(readings: [Map<String, Value>; 2], event: EventName) -> Answer {
    let mut outputs = readings.map(|it| HookOutput::read(it, event).0).into_iter();
    let refuses = |it: &HookOutput| it.deny().is_some() || it.stop().is_some();
    let refusal = outputs.find(refuses).unwrap_or_default();
    Answer {
        status: HookStatus::Failed,
        output: HookOutput {
            decision: refusal.decision,
            reason: refusal.reason,
            r#continue: refusal.r#continue,
            stop_reason: refusal.stop_reason,
            ..HookOutput::default()
        },
        diagnostics: vec![DiagnosticCode::Failed.with("the output means two things")],
    }
}

fn failed(exit: Exit, stderr: &str) -> Answer {
    let output = if stderr.is_empty() {
        HookOutput::default()
    } else {
        HookOutput::message(format!("Warning: {stderr}"))
    };
    Answer {
        status: HookStatus::Failed,
        output,
        diagnostics: vec![DiagnosticCode::Failed.with(exit.to_string())],
    }
}

/// The `reason` of a JSON object, otherwise the text as it is.
fn reason_on_stderr(stderr: &str) -> String {
    if let Decoded::Object(mut fields) = decode(stderr)
        && let Some(Value::String(reason)) = fields.remove("reason")
    {
        return reason;
    }
    stderr.to_owned()
}

#[cfg(test)]
mod tests;

//! What the end of a hook process means (hook protocol, section 3): the table
//! that all protocols start from.

use serde_json::{Map, Value};

use super::{Ended, Exit};
use crate::event::{
    Answer, Decision, Diagnostic, DiagnosticCode, EventName, HookOutput, HookStatus,
};

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
        Text::Nothing => (HookOutput::default(), Vec::new()),
        Text::Object(fields) => HookOutput::read(fields, event),
        Text::OtherJson => (HookOutput::default(), code(DiagnosticCode::NonObjectJson)),
        Text::Plain => (HookOutput::message(stdout), code(DiagnosticCode::PlainText)),
    };
    Answer {
        status: HookStatus::Ok,
        output,
        diagnostics,
    }
}

/// A refusal by exit code is final: a decision on standard output cannot take
/// it back, but its other fields count.
fn refused(stdout: &str, stderr: &str, event: EventName) -> Answer {
    let (mut output, text, diagnostics) = match decode(stdout) {
        Text::Object(fields) => {
            let (output, diagnostics) = HookOutput::read(fields, event);
            (output, "", diagnostics)
        }
        Text::Nothing | Text::OtherJson | Text::Plain => {
            (HookOutput::default(), stdout, Vec::new())
        }
    };
    let said = reason_on_stderr(stderr);
    let reasons = [Some(&*said), output.reason.as_deref(), Some(text)];
    let reason = reasons
        .into_iter()
        .flatten()
        .find(|it| !trim(it).is_empty());
    output.reason = Some(reason.unwrap_or(SILENT_REFUSAL).to_owned());
    output.decision = Some(Decision::Deny);
    Answer {
        status: HookStatus::Block,
        output,
        diagnostics,
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
    let fields = match decode(stderr) {
        Text::Object(fields) => fields,
        Text::Nothing | Text::OtherJson | Text::Plain => Map::new(),
    };
    let reason = fields.get("reason").and_then(Value::as_str);
    reason.unwrap_or(stderr).to_owned()
}

/// What a trimmed output turns out to be.
enum Text {
    Nothing,
    Object(Map<String, Value>),
    OtherJson,
    Plain,
}

/// Parses JSON; a JSON string is parsed once more, because some hooks encode
/// their answer twice.
fn decode(text: &str) -> Text {
    if text.is_empty() {
        return Text::Nothing;
    }
    let decoded = match serde_json::from_str(text) {
        Ok(Value::String(inner)) => serde_json::from_str(trim(&inner)),
        outer => outer,
    };
    match decoded {
        Ok(Value::Object(fields)) => Text::Object(fields),
        Ok(_) => Text::OtherJson,
        Err(_) => Text::Plain,
    }
}

/// As JavaScript trims: white space and the byte order mark.
fn trim(text: &str) -> &str {
    text.trim_matches(|it: char| it.is_whitespace() || it == '\u{feff}')
}

fn code(code: DiagnosticCode) -> Vec<Diagnostic> {
    vec![code.with("")]
}

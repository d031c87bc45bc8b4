//! The JSON document a hook writes (hook protocol, sections 1 and 3).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Added, EventName, Reason, render};
use crate::model::RequestMutation;

/// What one hook said, or what all hooks together said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookOutput {
    /// Yes, no, or ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `Some(false)` ends the agent's loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#continue: Option<bool>,
    /// Why the loop ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// A message for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    /// Whether the run is hidden from the agent's display.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_output: Option<bool>,
    /// Fields only some events understand.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Option<Object>)]
    pub hook_specific_output: Map<String, Value>,
    /// What its words mean, where families of hooks differ.
    #[serde(skip)]
    pub meaning: Meaning,
}

/// What a hook's words mean where its family has a small print of its own; the
/// default is what most families share.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Meaning {
    /// What `tool_input` does to the arguments.
    pub arguments: ArgumentsMean,
    /// `llm_request` in the stable form, if it is written in another.
    pub llm_request: Option<Map<String, Value>>,
    /// What it adds to the conversation; if empty, its `additionalContext`.
    pub added: Vec<Added>,
}

/// What a hook's `tool_input` does to the arguments of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArgumentsMean {
    /// It is laid over them, key by key.
    #[default]
    Over,
    /// It replaces them.
    Instead,
}

/// A hook's yes or no; `Ord` is the precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Go on.
    #[serde(alias = "approve")]
    Allow,
    /// Ask the human.
    Ask,
    /// Do not go on.
    #[serde(alias = "block")]
    Deny,
}

/// How a hook's run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookStatus {
    /// It answered, or had nothing to say.
    Ok,
    /// It refused by its exit code.
    Block,
    /// It failed.
    Failed,
}

impl HookStatus {
    /// The word in metrics and explanations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Block => "block",
            Self::Failed => "failed",
        }
    }
}

/// One hook's run, understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// How it ended.
    pub status: HookStatus,
    /// What it said.
    pub output: HookOutput,
    /// What was left out of what it said, and why.
    pub diagnostics: Vec<Diagnostic>,
}

/// Something about a hook's output that its author should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind of thing.
    pub code: DiagnosticCode,
    /// In words; empty if the code says it all.
    pub detail: String,
}

/// The kinds of [`Diagnostic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiagnosticCode {
    /// Standard output was text, not JSON; it became a `systemMessage`.
    PlainText,
    /// Standard output was JSON, but not an object.
    NonObjectJson,
    /// Output that begins as JSON and is not one valid, unambiguous document, or
    /// is not UTF-8.
    MalformedOutput,
    /// A `decision` or `permissionDecision` that is not one of the known values.
    UnknownDecision,
    /// A field has the wrong type and was left out.
    WrongType,
    /// An `llm_response` that nothing can be made of.
    MalformedResponse,
    /// An edit that could not be applied.
    EditDropped,
    /// A key nobody understands.
    UnknownKey,
    /// A tail tool call, which a gateway cannot run.
    TailToolCall,
    /// No answer in time.
    Timeout,
    /// It could not be started or ended in failure.
    Failed,
    /// Nobody can say whether its condition holds, so it ran.
    Condition,
}

impl DiagnosticCode {
    /// The word in logs and explanations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlainText => "plain_text",
            Self::NonObjectJson => "non_object_json",
            Self::MalformedOutput => "malformed_output",
            Self::UnknownDecision => "unknown_decision",
            Self::WrongType => "wrong_type",
            Self::MalformedResponse => "malformed_response",
            Self::EditDropped => "edit_dropped",
            Self::UnknownKey => "unknown_key",
            Self::TailToolCall => "tail_tool_call",
            Self::Timeout => "timeout",
            Self::Failed => "failed",
            Self::Condition => "condition",
        }
    }

    /// Whether a decision may be lost in the output, so that a hook that fails
    /// closed must refuse.
    const fn is_unreliable_output(self) -> bool {
        matches!(self, Self::NonObjectJson | Self::UnknownDecision)
    }

    /// A diagnostic of this kind.
    pub fn with(self, detail: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code: self,
            detail: detail.into(),
        }
    }
}

impl Answer {
    /// Turns a failure of `hook`, or output that may hide a decision, into a denial
    /// (`on_failure: closed`). A stop and a message for the user are kept.
    pub fn fail_closed(&mut self, hook: &str) {
        let failure = match self.status {
            HookStatus::Block => None,
            HookStatus::Failed => self.diagnostics.last(),
            HookStatus::Ok => {
                let mut diagnostics = self.diagnostics.iter();
                diagnostics.find(|diagnostic| diagnostic.code.is_unreliable_output())
            }
        };
        let Some(failure) = failure else { return };
        let reason = format!("Hook {hook} failed: {}", failure.detail);
        let output = std::mem::take(&mut self.output);
        self.output = HookOutput {
            r#continue: output.r#continue,
            stop_reason: output.stop_reason,
            system_message: output.system_message,
            ..HookOutput::denial(reason)
        };
        self.status = HookStatus::Failed;
    }
}

impl HookOutput {
    /// Reads what a hook wrote about `event`. A wrongly typed field is left out
    /// alone, with a diagnostic; the others count.
    pub fn read(mut fields: Map<String, Value>, event: EventName) -> (Self, Vec<Diagnostic>) {
        let mut reader = Reader::default();
        let specific = fields.shift_remove("hookSpecificOutput");
        let mut output = Self {
            decision: reader.decision(fields.get("decision")),
            reason: reader.text(&fields, "reason"),
            r#continue: reader.flag(&fields, "continue"),
            stop_reason: reader.text(&fields, "stopReason"),
            system_message: reader.text(&fields, "systemMessage"),
            suppress_output: reader.flag(&fields, "suppressOutput"),
            hook_specific_output: match specific {
                Some(Value::Object(specific)) => specific,
                None | Some(Value::Null) => Map::new(),
                Some(_) => reader.wrong("hookSpecificOutput"),
            },
            meaning: Meaning::default(),
        };
        if let Some(clear) = fields.get("clearContext") {
            let specific = &mut output.hook_specific_output;
            specific.entry("clearContext").or_insert(clear.clone());
        }
        if event == EventName::BeforeTool {
            output.take_permission(&mut reader);
        }
        (output, reader.diagnostics)
    }

    /// A refusal.
    pub fn denial(reason: impl Into<String>) -> Self {
        Self {
            decision: Some(Decision::Deny),
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// A message for the user, without a decision.
    pub fn message(text: impl Into<String>) -> Self {
        Self {
            system_message: Some(text.into()),
            ..Self::default()
        }
    }

    /// Why the agent's loop ends, if it does: `stopReason`, else `reason`.
    pub fn stop(&self) -> Option<Reason> {
        let said = self.stop_reason.as_deref().or(self.reason.as_deref());
        (self.r#continue == Some(false)).then(|| Reason::new(said))
    }

    /// Why it is a no, if it is one.
    pub fn deny(&self) -> Option<Reason> {
        let denied = self.decision == Some(Decision::Deny);
        denied.then(|| Reason::new(self.reason.as_deref()))
    }

    /// One of the fields only some events understand.
    pub fn specific(&self, key: &str) -> Option<&Value> {
        self.hook_specific_output.get(key)
    }

    /// `additionalContext`, as the hook wrote it.
    pub fn additional_context(&self) -> Option<&str> {
        self.specific("additionalContext")?.as_str()
    }

    /// What it adds to the conversation.
    pub fn added(&self) -> Vec<Added> {
        if self.meaning.added.is_empty() {
            let context = self.additional_context();
            return context.map(Added::tagged).into_iter().collect();
        }
        self.meaning.added.clone()
    }

    /// What it adds to the conversation, as it stands there.
    pub fn rendered_context(&self) -> Option<String> {
        let added = self.added();
        (!added.is_empty()).then(|| render(&added))
    }

    /// What it adds to the conversation, as hooks wrote it.
    pub fn plain_context(&self) -> Option<String> {
        let added = self.added();
        let texts: Vec<&str> = added.iter().map(Added::text).collect();
        (!added.is_empty()).then(|| texts.join("\n"))
    }

    /// `llm_request` in the stable form.
    pub fn request_edit(&self) -> RequestMutation {
        let written = || self.specific("llm_request").and_then(Value::as_object);
        let fields = self.meaning.llm_request.as_ref().or_else(written);
        RequestMutation {
            fields: fields.cloned().unwrap_or_default(),
            remark: None,
        }
    }

    /// See [`RequestMutation::take_system_message`].
    pub fn take_system_message(&mut self) {
        if self.specific("llm_request").is_some_and(Value::is_object) {
            let mut edit = self.request_edit();
            edit.take_system_message();
            self.meaning.llm_request = Some(edit.fields);
        }
    }

    /// `permissionDecision` and its reason, an older spelling of `BeforeTool`'s
    /// decision (hook protocol, section 11). The stricter of both counts.
    fn take_permission(&mut self, reader: &mut Reader) {
        let specific = &mut self.hook_specific_output;
        let decision = specific.shift_remove("permissionDecision");
        let reason = specific.shift_remove("permissionDecisionReason");
        self.decision = self.decision.max(reader.decision(decision.as_ref()));
        if let (None, Some(Value::String(reason))) = (&self.reason, reason) {
            self.reason = Some(reason);
        }
    }
}

#[derive(Debug, Default)]
struct Reader {
    diagnostics: Vec<Diagnostic>,
}

impl Reader {
    fn decision(&mut self, value: Option<&Value>) -> Option<Decision> {
        let value = value.filter(|it| !it.is_null())?;
        let decision = value.as_str().and_then(Decision::parse);
        if decision.is_none() {
            let unknown = DiagnosticCode::UnknownDecision.with(Decision::EXPECTED);
            self.diagnostics.push(unknown);
        }
        decision
    }

    fn text(&mut self, fields: &Map<String, Value>, key: &str) -> Option<String> {
        match fields.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => self.wrong(key),
        }
    }

    fn flag(&mut self, fields: &Map<String, Value>, key: &str) -> Option<bool> {
        match fields.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::Bool(flag)) => Some(*flag),
            Some(_) => self.wrong(key),
        }
    }

    fn wrong<T: Default>(&mut self, key: &str) -> T {
        self.diagnostics.push(DiagnosticCode::WrongType.with(key));
        T::default()
    }
}

impl Decision {
    const EXPECTED: &str =
        "unknown decision; expected `allow`, `approve`, `deny`, `block` or `ask`";

    /// Exact and case-sensitive.
    fn parse(word: &str) -> Option<Self> {
        match word {
            "allow" | "approve" => Some(Self::Allow),
            "ask" => Some(Self::Ask),
            "deny" | "block" => Some(Self::Deny),
            _ => None,
        }
    }
}

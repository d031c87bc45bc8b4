//! Conditions: CEL expressions over an event's facts that decide whether a hook
//! or policy runs, such as
//! `request.bytes > 100000 || "run_shell_command" in request.tools`.
//!
//! `cel-condition` compiles and evaluates them; this module has the facts. Callers treat
//! an error of an evaluation as true, so that a guard is never skipped. To add a fact:
//! one row in `VARIABLES`, one in [`Facts::fact`]. Pure.

pub use cel_condition::{Condition, EvalError, StaticResult};
use cel_condition::{ConditionError, FactSource, FactValue, ValueType, Variable, VariableField};

use crate::event::{Context, Event, EventName};

/// The variables that conditions may use.
const VARIABLES: &[Variable] = &[
    variable("event", &[]),
    variable("request", REQUEST),
    variable("tool", TOOL),
    variable("prompt", &[]),
    variable("session", SESSION),
    variable("caller", CALLER),
];

const REQUEST: &[VariableField] = &[
    VariableField::new("model", ValueType::String),
    VariableField::new("operation", ValueType::String),
    VariableField::new("stream", ValueType::Bool),
    VariableField::new("bytes", ValueType::Int),
    VariableField::new("contents", ValueType::Int),
    VariableField::new("tools", ValueType::List(&ValueType::String)),
    VariableField::optional("max_output_tokens", ValueType::Int),
];

const TOOL: &[VariableField] = &[
    VariableField::new("name", ValueType::String),
    VariableField::new("input", ValueType::Dyn),
];

const SESSION: &[VariableField] = &[
    VariableField::new("id", ValueType::String),
    VariableField::new("named", ValueType::Bool),
];

const CALLER: &[VariableField] = &[
    VariableField::new("key", ValueType::String),
    VariableField::new("name", ValueType::String),
    VariableField::new("agent", ValueType::String),
];

const fn variable(name: &'static str, fields: &'static [VariableField]) -> Variable {
    Variable { name, fields }
}

/// Returns whether events of this name have a variable.
fn is_present(variable: &str, event: EventName) -> bool {
    match variable {
        "request" => event.is_model_call(),
        "tool" => matches!(event, EventName::BeforeTool | EventName::AfterTool),
        "prompt" => matches!(event, EventName::BeforeAgent | EventName::AfterAgent),
        _ => true,
    }
}

/// Compiles a condition.
///
/// # Errors
///
/// Returns the first syntax or type error, with its position.
pub fn compile(text: &str) -> Result<Condition, ConditionError> {
    Condition::compile(text, VARIABLES)
}

/// Returns the result that a condition has on every event of this name, if there is one.
pub fn analyze(condition: &Condition, event: EventName) -> StaticResult {
    condition.analyze(&[("event", event.as_str())], &|variable| {
        is_present(variable, event)
    })
}

/// Returns the result that a condition has on every event of this name of a caller, if there is
/// one.
pub fn analyze_for_caller(condition: &Condition, event: EventName, caller: &str) -> StaticResult {
    let constants = [("event", event.as_str()), ("caller.name", caller)];
    condition.analyze(&constants, &|variable| is_present(variable, event))
}

/// The facts of one event.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// Name of the event.
    pub event: EventName,
    /// Base fields of the event.
    pub context: &'a Context,
    /// The model call, if the event is about one.
    pub request: Option<RequestFacts>,
    /// The event with its own fields, unless it is a model call.
    pub source: Option<Event<'a>>,
}

/// Facts of a model call.
#[derive(Debug, Clone)]
pub struct RequestFacts {
    /// Name of the requested model.
    pub model: String,
    /// Name of the API method, such as `generateContent`.
    pub operation: &'static str,
    /// True if the response is streamed.
    pub stream: bool,
    /// Length of the body, in bytes.
    pub bytes: usize,
    /// Number of contents in the conversation.
    pub contents: usize,
    /// Names of the declared functions.
    pub tools: Vec<String>,
    /// Requested maximum length of the response, in tokens.
    pub max_output_tokens: Option<i64>,
}

impl FactSource for Facts<'_> {
    fn fact(&self, variable: &str, field: &str) -> Option<FactValue<'_>> {
        let (request, context) = (self.request.as_ref(), self.context);
        let (tool, prompt) = match self.source {
            Some(Event::BeforeTool(event)) => (Some((&event.tool_name, &event.tool_input)), None),
            Some(Event::AfterTool(event)) => (Some((&event.tool_name, &event.tool_input)), None),
            Some(Event::BeforeAgent(event)) => (None, Some(&event.prompt)),
            Some(Event::AfterAgent(event)) => (None, Some(&event.prompt)),
            _ => (None, None),
        };
        Some(match (variable, field) {
            ("event", _) => FactValue::String(self.event.as_str()),
            ("request", "model") => FactValue::String(&request?.model),
            ("request", "operation") => FactValue::String(request?.operation),
            ("request", "stream") => FactValue::Bool(request?.stream),
            ("request", "bytes") => FactValue::Int(int(request?.bytes)),
            ("request", "contents") => FactValue::Int(int(request?.contents)),
            ("request", "tools") => FactValue::Strings(&request?.tools),
            ("request", "max_output_tokens") => FactValue::Int(request?.max_output_tokens?),
            ("tool", "name") => FactValue::String(tool?.0),
            ("tool", "input") => FactValue::Object(tool?.1),
            ("prompt", _) => FactValue::String(prompt?),
            ("session", "id") => FactValue::String(&context.session_id),
            ("session", "named") => FactValue::Bool(context.session_named),
            ("caller", "key") => FactValue::String(&context.caller.key),
            ("caller", "name") => FactValue::String(&context.caller.name),
            ("caller", "agent") => FactValue::String(&context.caller.agent),
            _ => return None,
        })
    }
}

fn int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

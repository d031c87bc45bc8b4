//! Events as Claude Code and Codex give them to their own hooks, translated for the
//! events endpoint, and its answers translated back. Pure.
//!
//! Sources: <https://code.claude.com/docs/en/hooks>,
//! <https://developers.openai.com/codex/hooks>.

use serde_json::{Map, Value, json};
use strict_json::{JsonError, Names};
use thiserror::Error;

use super::{claude_form, codex, tool_result};
use crate::event::{Decision, EventAlias, EventName, HookOutput, Reason, SubjectKind, mcp_context};

/// An agent whose hook inputs are translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportingAgent {
    /// Claude Code by Anthropic.
    Claude,
    /// Codex, which `OpenAI` develops.
    Codex,
}

/// A hook input of an agent, translated to an event.
#[derive(Debug)]
pub struct AgentReport {
    agent: ReportingAgent,
    /// Name of the event in the agent.
    name: String,
    event: EventName,
    input: Map<String, Value>,
}

/// A hook input that cannot be translated.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReportError {
    /// The input is not a JSON object with a `hook_event_name`.
    #[error("the input is not a hook input: a JSON object with `hook_event_name`")]
    NotAnInput,
    /// An object of the input has a key twice.
    #[error("the input is ambiguous: `{0}` is given twice")]
    DuplicateKey(String),
    /// The agent or the gateway has no such event.
    #[error(
        "`{name}` is not an event of {} that a gateway has hooks for; these are {}",
        agent.name(),
        agent.event_names()
    )]
    UnknownEvent {
        /// Agent whose hook input it is.
        agent: ReportingAgent,
        /// Name in the input.
        name: String,
    },
}

impl ReportingAgent {
    const fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
        }
    }

    /// Returns the names of its events that a gateway has hooks for.
    fn event_names(self) -> String {
        let names = self
            .events()
            .iter()
            .map(|alias| format!("`{}`", alias.name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Returns the events of the agent that a gateway has hooks for.
    const fn events(self) -> &'static [EventAlias] {
        match self {
            Self::Claude => claude_form::EVENTS,
            Self::Codex => codex::EVENTS,
        }
    }
}

impl AgentReport {
    /// Reads a hook input of an agent.
    ///
    /// # Errors
    ///
    /// If it is not one, has a key twice, or its event has no counterpart.
    pub fn read(agent: ReportingAgent, input: &[u8]) -> Result<Self, ReportError> {
        // Only keys matter: a result may be nested deeper than the check allows. Keys behind such a
        // value are not checked.
        if let Err(JsonError::DuplicateKey(key)) = strict_json::check(input, Names::Free) {
            return Err(ReportError::DuplicateKey(key));
        }
        let Ok(Value::Object(input)) = serde_json::from_slice(input) else {
            return Err(ReportError::NotAnInput);
        };
        let name = input.get("hook_event_name").and_then(Value::as_str);
        let name = name.ok_or(ReportError::NotAnInput)?.to_owned();
        match agent.events().iter().find(|alias| alias.name == name) {
            Some(alias) => Ok(Self {
                agent,
                event: alias.event,
                name,
                input,
            }),
            None => Err(ReportError::UnknownEvent { agent, name }),
        }
    }

    /// Returns the event for the gateway.
    pub fn event(&self) -> Value {
        let text = |key: &str| self.input.get(key).and_then(Value::as_str);
        let mut event = Map::from_iter([("hook_event_name".to_owned(), json!(self.event))]);
        for key in ["session_id", "transcript_path", "cwd", "agent_id"] {
            if let Some(value) = text(key) {
                event.insert(key.to_owned(), json!(value));
            }
        }
        event.extend(claude_form::object(self.own_fields()));
        Value::Object(event)
    }

    /// Returns the fields that only events of this name have.
    fn own_fields(&self) -> Value {
        let text = |key: &str| self.input.get(key).and_then(Value::as_str);
        match self.event {
            EventName::BeforeTool => json!({
                "tool_name": text("tool_name"),
                "tool_input": self.tool_input(),
                "mcp_context": text("tool_name").and_then(mcp_context),
            }),
            EventName::AfterTool => {
                let result = self.input.get("tool_response").unwrap_or(&Value::Null);
                let texts = tool_result::texts(result);
                let display = texts.join("\n");
                let content = match texts.as_slice() {
                    [] | [_] => json!(display),
                    _ => texts
                        .iter()
                        .map(|text| json!({ "type": "text", "text": text }))
                        .collect(),
                };
                json!({
                    "tool_name": text("tool_name"),
                    "tool_input": self.tool_input(),
                    "tool_response": { "llmContent": content, "returnDisplay": display },
                    "mcp_context": text("tool_name").and_then(mcp_context),
                })
            }
            EventName::BeforeAgent => json!({ "prompt": text("prompt") }),
            EventName::AfterAgent => json!({
                "prompt": "",
                "prompt_response": text("last_assistant_message").unwrap_or_default(),
                "stop_hook_active": self.input.get("stop_hook_active") == Some(&json!(true)),
            }),
            EventName::SessionStart => json!({ "source": self.keyword("startup") }),
            EventName::SessionEnd => json!({ "reason": self.keyword("other") }),
            EventName::PreCompress => json!({ "trigger": self.keyword("auto") }),
            EventName::Notification => json!({
                "notification_type": text("notification_type").unwrap_or_default(),
                "message": text("message").unwrap_or_default(),
                "details": { "title": text("title") },
            }),
            EventName::BeforeModel | EventName::BeforeToolSelection | EventName::AfterModel => {
                json!({})
            }
        }
    }

    /// Returns the keyword that matchers of the event are compared with. One that is unknown
    /// to the gateway, as of a later release of the agent, is reported as `default`.
    fn keyword(&self, default: &'static str) -> &str {
        let SubjectKind::Keywords { field, words } = self.event.subjects() else {
            return default;
        };
        let keyword = self.input.get(field).and_then(Value::as_str);
        let known = keyword.filter(|keyword| words.contains(keyword));
        known.unwrap_or(default)
    }

    /// Returns the hook output for the agent. `answer` is that of the events endpoint, and
    /// `arguments` are those of an edited call.
    pub fn output(&self, answer: Map<String, Value>, arguments: Option<&Value>) -> Value {
        let (answer, _) = HookOutput::read(answer, self.event);
        let mut output = Map::new();
        let mut specific = Map::new();
        match self.event {
            EventName::BeforeTool => self.permission(&answer, arguments, &mut specific),
            EventName::AfterTool => self.result(&answer, &mut output, &mut specific),
            _ => {
                if let Some(reason) = answer.deny() {
                    output.insert("decision".to_owned(), json!("block"));
                    output.insert("reason".to_owned(), json!(reason.as_str()));
                }
            }
        }
        // Codex has no `continue` for a tool that did not run; its denial suffices.
        let can_stop = self.agent == ReportingAgent::Claude || self.event != EventName::BeforeTool;
        if let Some(reason) = answer.stop().filter(|_| can_stop) {
            output.insert("continue".to_owned(), json!(false));
            output.insert("stopReason".to_owned(), json!(reason.as_str()));
        }
        if let Some(context) = answer.specific("additionalContext") {
            specific.insert("additionalContext".to_owned(), context.clone());
        }
        if let Some(message) = &answer.system_message {
            output.insert("systemMessage".to_owned(), json!(message));
        }
        if answer.suppress_output == Some(true) && self.agent == ReportingAgent::Claude {
            output.insert("suppressOutput".to_owned(), json!(true));
        }
        if !specific.is_empty() {
            specific.insert("hookEventName".to_owned(), json!(self.name));
            output.insert("hookSpecificOutput".to_owned(), Value::Object(specific));
        }
        Value::Object(output)
    }

    /// Decides a tool call that has not run.
    fn permission(
        &self,
        answer: &HookOutput,
        arguments: Option<&Value>,
        specific: &mut Map<String, Value>,
    ) {
        if let Some((decision, reason)) = self.permission_decision(answer) {
            specific.insert("permissionDecision".to_owned(), json!(decision));
            specific.insert(
                "permissionDecisionReason".to_owned(),
                json!(reason.as_str()),
            );
            if decision == "deny" {
                return;
            }
        }
        if let Some(arguments) = arguments {
            let arguments = match self.input.get("tool_input") {
                Some(Value::Object(_)) => Some(arguments),
                _ => arguments.get("input"),
            };
            specific.insert("updatedInput".to_owned(), json!(arguments));
            // Codex refuses edited arguments without it.
            if self.agent == ReportingAgent::Codex {
                specific.insert("permissionDecision".to_owned(), json!("allow"));
            }
        }
    }

    /// Returns the decision on a tool call and its reason, unless the call proceeds.
    fn permission_decision(&self, answer: &HookOutput) -> Option<(&'static str, Reason)> {
        let reason = Reason::new(answer.reason.as_deref());
        match (answer.stop(), answer.decision, self.agent) {
            (Some(stop_reason), ..) => Some(("deny", stop_reason)),
            // Codex does not ask.
            (None, Some(Decision::Deny), _)
            | (None, Some(Decision::Ask), ReportingAgent::Codex) => Some(("deny", reason)),
            (None, Some(Decision::Ask), ReportingAgent::Claude) => Some(("ask", reason)),
            (None, Some(Decision::Allow) | None, _) => None,
        }
    }

    /// Hides or replaces a result.
    fn result(
        &self,
        answer: &HookOutput,
        output: &mut Map<String, Value>,
        specific: &mut Map<String, Value>,
    ) {
        let denial = answer.deny();
        // The reason of a masked result has the added context behind the edit.
        let edit = answer.specific("updatedToolOutput").and_then(Value::as_str);
        let Some(text) = edit.or(denial.as_ref().map(Reason::as_str)) else {
            return;
        };
        let original = self.input.get("tool_response").unwrap_or(&Value::Null);
        // Codex replaces a result by the reason of a block, and in no other way.
        let shaped = match self.agent {
            ReportingAgent::Claude => tool_result::in_shape_of(original, text),
            ReportingAgent::Codex => None,
        };
        let shows_text = |shaped| tool_result::text(shaped) == text;
        if denial.is_some() || !shaped.as_ref().is_some_and(shows_text) {
            output.insert("decision".to_owned(), json!("block"));
            output.insert("reason".to_owned(), json!(text));
        }
        if let Some(shaped) = shaped {
            specific.insert("updatedToolOutput".to_owned(), shaped);
        }
    }

    fn tool_input(&self) -> Value {
        match self.input.get("tool_input") {
            Some(Value::Object(input)) => Value::Object(input.clone()),
            Some(Value::Null) | None => json!({}),
            Some(other) => json!({ "input": other }),
        }
    }
}

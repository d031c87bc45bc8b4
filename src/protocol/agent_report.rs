//! Events as Claude Code and Codex give them to their own hooks, translated for the
//! events endpoint, and its answers translated back. Pure.
//!
//! Sources: <https://code.claude.com/docs/en/hooks>,
//! <https://developers.openai.com/codex/hooks>.

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{claude_form, codex, tool_result};
use crate::event::{EventAlias, EventName, Reason, SubjectKind, mcp_context};

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
    /// If it is not one, or its event has no counterpart.
    pub fn read(agent: ReportingAgent, input: &[u8]) -> Result<Self, ReportError> {
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
                let result = tool_result::text(result);
                json!({
                    "tool_name": text("tool_name"),
                    "tool_input": self.tool_input(),
                    "tool_response": { "llmContent": result, "returnDisplay": result },
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

    /// Returns the hook output for the agent. `answer` is that of the events endpoint with
    /// its explanation.
    pub fn output(&self, answer: &Value) -> Value {
        let mut output = Map::new();
        let mut specific = Map::new();
        let answer = Answer(answer);
        match self.event {
            EventName::BeforeTool => self.permission(answer, &mut specific),
            EventName::AfterTool => self.result(answer, &mut output, &mut specific),
            _ if answer.decision() == Some("deny") => {
                output.insert("decision".to_owned(), json!("block"));
                output.insert("reason".to_owned(), json!(answer.reason()));
            }
            _ => (),
        }
        // Codex has no `continue` for a tool that did not run; its denial suffices.
        let can_stop = self.agent == ReportingAgent::Claude || self.event != EventName::BeforeTool;
        if answer.stops() && can_stop {
            output.insert("continue".to_owned(), json!(false));
            output.insert("stopReason".to_owned(), json!(answer.stop_reason()));
        }
        if let Some(context) = answer.specific("additionalContext") {
            specific.insert("additionalContext".to_owned(), context.clone());
        }
        if let Some(message) = answer.field("systemMessage") {
            output.insert("systemMessage".to_owned(), message.clone());
        }
        let suppresses = answer.field("suppressOutput") == Some(&json!(true));
        if suppresses && self.agent == ReportingAgent::Claude {
            output.insert("suppressOutput".to_owned(), json!(true));
        }
        if !specific.is_empty() {
            specific.insert("hookEventName".to_owned(), json!(self.name));
            output.insert("hookSpecificOutput".to_owned(), Value::Object(specific));
        }
        Value::Object(output)
    }

    /// Decides a tool call that has not run.
    fn permission(&self, answer: Answer<'_>, specific: &mut Map<String, Value>) {
        let decision = match (answer.decision(), self.agent) {
            _ if answer.stops() => Some(("deny", answer.stop_reason())),
            // Codex does not ask.
            (Some("deny"), _) | (Some("ask"), ReportingAgent::Codex) => {
                Some(("deny", answer.reason()))
            }
            (Some("ask"), ReportingAgent::Claude) => Some(("ask", answer.reason())),
            _ => None,
        };
        if let Some((decision, reason)) = decision {
            specific.insert("permissionDecision".to_owned(), json!(decision));
            specific.insert("permissionDecisionReason".to_owned(), json!(reason));
            if decision == "deny" {
                return;
            }
        }
        let arguments = answer.0.pointer("/hookgate/arguments");
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

    /// Hides or replaces a result.
    fn result(
        &self,
        answer: Answer<'_>,
        output: &mut Map<String, Value>,
        specific: &mut Map<String, Value>,
    ) {
        let is_denied = answer.decision() == Some("deny");
        // The reason of a masked result has the added context behind the edit.
        let edit = answer.specific("updatedToolOutput").and_then(Value::as_str);
        let denial = || is_denied.then(|| answer.reason());
        let Some(text) = edit.map(str::to_owned).or_else(denial) else {
            return;
        };
        let original = self.input.get("tool_response").unwrap_or(&Value::Null);
        // Codex replaces a result by the reason of a block, and in no other way.
        let shaped = match self.agent {
            ReportingAgent::Claude => tool_result::in_shape_of(original, &text),
            ReportingAgent::Codex => None,
        };
        let shows_text = |shaped| tool_result::text(shaped) == text;
        if is_denied || !shaped.as_ref().is_some_and(shows_text) {
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

/// An answer of the events endpoint.
#[derive(Debug, Clone, Copy)]
struct Answer<'a>(&'a Value);

impl<'a> Answer<'a> {
    fn decision(self) -> Option<&'a str> {
        self.field("decision")?.as_str()
    }

    fn stops(self) -> bool {
        self.field("continue") == Some(&json!(false))
    }

    fn reason(self) -> String {
        Reason::new(self.text("reason")).as_str().to_owned()
    }

    fn stop_reason(self) -> String {
        let reason = self.text("stopReason").or_else(|| self.text("reason"));
        Reason::new(reason).as_str().to_owned()
    }

    fn text(self, key: &str) -> Option<&'a str> {
        let text = self.field(key)?.as_str();
        text.filter(|text| !text.trim().is_empty())
    }

    fn field(self, key: &str) -> Option<&'a Value> {
        self.0.get(key)
    }

    fn specific(self, key: &str) -> Option<&'a Value> {
        self.0.get("hookSpecificOutput")?.get(key)
    }
}

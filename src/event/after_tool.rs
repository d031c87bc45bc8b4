//! `AfterTool`: a tool result, before the model sees it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    definition::{EventDefinition, MatcherSubject, SubjectKind},
    mcp::mcp_context,
    output::{HookOutput, OutputPart},
    verdict::FlowVerdict,
};
use crate::dialect::ToolResult;

/// Fields of a function response that hold all of its content if they are its only field.
const CONTENT_FIELDS: [&str; 4] = ["output", "result", "content", "error"];

/// Tool call and its result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AfterTool {
    /// Tool name as on the wire.
    pub tool_name: String,
    /// Arguments of the call.
    pub tool_input: Map<String, Value>,
    /// Result of the call.
    pub tool_response: ToolResponse,
    /// Set of tools to which the tool belongs, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset_name: Option<String>,
    /// MCP server of the tool, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_context: Option<Map<String, Value>>,
    /// Tool of the original call, if this is a tail call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_request_name: Option<String>,
}

/// The event of a result, before the model sees it.
impl From<ToolResult> for AfterTool {
    fn from(result: ToolResult) -> Self {
        Self {
            mcp_context: mcp_context(&result.name),
            tool_name: result.name,
            toolset_name: result.toolset,
            tool_input: match result.args {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            },
            tool_response: tool_response(result.response, result.media),
            original_request_name: None,
        }
    }
}

/// Edit of a tool result before the model sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultEdit {
    /// Text in place of the result.
    pub replacement: Option<String>,
    /// Rendered context to append to the result.
    pub context: Option<String>,
}

/// Tool result: `{llmContent, returnDisplay, error?}` and further fields of the
/// agent.
pub type ToolResponse = Map<String, Value>;

impl EventDefinition for AfterTool {
    const HONOURS: &'static [OutputPart] = &[
        OutputPart::Flow,
        OutputPart::SystemMessage,
        OutputPart::SuppressOutput,
        OutputPart::AdditionalContext,
        OutputPart::ToolResult,
        OutputPart::TailToolCall,
    ];
    const SUBJECTS: SubjectKind = SubjectKind::Tools;
    /// Edit of the result; a denial's reason replaces it as an error.
    type Verdict = FlowVerdict<ResultEdit>;

    fn subject(&self) -> MatcherSubject<'_> {
        MatcherSubject::Tool(&self.tool_name)
    }

    fn toolset(&self) -> Option<&str> {
        self.toolset_name.as_deref()
    }

    fn tool_input(&self) -> Option<&Map<String, Value>> {
        Some(&self.tool_input)
    }

    fn with_tool(&self, name: &str, input: Map<String, Value>) -> Option<Self> {
        Some(Self {
            tool_name: name.to_owned(),
            tool_input: input,
            ..self.clone()
        })
    }

    fn apply(&mut self, output: &HookOutput) {
        if let Some(text) = &output.interpretation.tool_result {
            let text = Value::String(text.clone());
            // A failed tool has failed, however its result is masked.
            let error = self.tool_response.shift_remove("error");
            let error = error.filter(|_| output.interpretation.is_result_masked);
            self.tool_response = ToolResponse::from_iter([
                ("llmContent".to_owned(), text.clone()),
                ("returnDisplay".to_owned(), text),
            ]);
            let error = error.map(|error| ("error".to_owned(), error));
            self.tool_response.extend(error);
        }
    }

    fn evaluate(merged: &HookOutput) -> Self::Verdict {
        FlowVerdict::evaluate(merged, || ResultEdit {
            replacement: merged.interpretation.tool_result.clone(),
            context: merged.rendered_context(),
        })
    }
}

/// Builds the tool response that hooks receive from what an agent sends to the model.
/// Agents send only what is for the model: a text, or a list of parts if it contains
/// media.
pub fn tool_response(response: Value, media: Vec<Value>) -> ToolResponse {
    let mut shown = ToolResponse::new();
    let content = match response {
        Value::Object(mut fields) => {
            if let Some(error) = fields.get("error").filter(|error| !error.is_null()) {
                shown.insert("error".to_owned(), json!({ "message": text_of(error) }));
            }
            let is_only = |field: &&&str| fields.len() == 1 && fields.contains_key(**field);
            match CONTENT_FIELDS.iter().find(is_only) {
                Some(field) => fields.remove(*field).unwrap_or_default(),
                None => Value::Object(fields),
            }
        }
        other => other,
    };
    let display = text_of(&content);
    let content = match content {
        content if media.is_empty() => content,
        Value::Array(mut parts) => {
            parts.extend(media);
            Value::Array(parts)
        }
        _ => {
            let text = std::iter::once(json!({ "text": display }));
            Value::Array(text.chain(media).collect())
        }
    };
    shown.insert("llmContent".to_owned(), content);
    shown.insert("returnDisplay".to_owned(), Value::String(display));
    shown
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

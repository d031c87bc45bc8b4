//! Parts of a hook's output, of which each event honours some.

/// Part of a hook's output, with its own merge rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputPart {
    /// `decision`, `reason`, `continue`, `stopReason`.
    Flow,
    /// `decision: ask`; a stricter decision wins.
    Ask,
    /// `systemMessage`, joined by line feeds.
    SystemMessage,
    /// `suppressOutput`, if any hook sets it.
    SuppressOutput,
    /// `additionalContext` and other texts added to the conversation, joined.
    AdditionalContext,
    /// Texts that some protocols add to the conversation on events where others
    /// add none.
    AppendedText,
    /// `clearContext`, if any hook sets it.
    ClearContext,
    /// `llm_request`, merged by key.
    LlmRequest,
    /// `llm_response` as a synthetic response; the last one.
    SyntheticResponse,
    /// `llm_response` as an edit, merged by field of each candidate.
    ResponseEdit,
    /// `tool_input`, merged by key.
    ToolInput,
    /// `toolConfig`: the stricter mode, `AUTO` if none is given; all names; of a locked
    /// bundle and the others, only the names that both have.
    ToolSelection,
    /// `updatedToolOutput` of some protocols; the last one.
    ToolResult,
    /// `tailToolCallRequest`, which a gateway refuses.
    TailToolCall,
}

impl OutputPart {
    /// Returns its fields in `hookSpecificOutput`.
    pub const fn specific_fields(self) -> &'static [&'static str] {
        match self {
            Self::Flow | Self::SystemMessage | Self::SuppressOutput | Self::AppendedText => &[],
            Self::Ask => &["permissionDecision", "permissionDecisionReason"],
            Self::AdditionalContext => &["additionalContext"],
            Self::ClearContext => &["clearContext"],
            Self::LlmRequest => &["llm_request"],
            Self::SyntheticResponse | Self::ResponseEdit => &["llm_response"],
            Self::ToolInput => &["tool_input"],
            Self::ToolSelection => &["toolConfig"],
            Self::ToolResult => &["updatedToolOutput", "updatedMCPToolOutput"],
            Self::TailToolCall => &["tailToolCallRequest"],
        }
    }
}

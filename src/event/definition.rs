//! The interface that each event's file implements.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    output::{Decision, HookOutput, OutputPart},
    verdict::Action,
};
use crate::model::LlmRequest;

/// Input, matcher subject, honoured output and verdict of one event.
pub trait EventDefinition: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Parts of a hook's output that count; all others are ignored.
    const HONOURS: &'static [OutputPart];
    /// Possible subjects, for checks of matchers at load.
    const SUBJECTS: SubjectKind = SubjectKind::None;
    /// Meaning of the merged outputs.
    type Verdict: Send;

    /// Returns the text that matchers are compared with.
    fn subject(&self) -> MatcherSubject<'_> {
        MatcherSubject::None
    }

    /// Returns why no agent reports an event with this subject; `None` if one does.
    fn invalid_subject(&self) -> Option<String> {
        match (self.subject(), Self::SUBJECTS) {
            (MatcherSubject::Tool(""), _) => Some("`tool_name` must not be empty".to_owned()),
            (MatcherSubject::Keyword(word), SubjectKind::Keywords { field, words })
                if !words.contains(&word) =>
            {
                Some(format!("`{field}` must be one of {}", words.join(", ")))
            }
            _ => None,
        }
    }

    /// Returns the toolset of the event's tool, which matchers are compared with, too.
    fn toolset(&self) -> Option<&str> {
        None
    }

    /// Returns the model request of the event, if it has one.
    fn llm_request(&self) -> Option<&LlmRequest> {
        None
    }

    /// Returns the event with the system instruction as first message; `None` if
    /// it has no messages.
    fn with_system_message(&self) -> Option<Self> {
        None
    }

    /// Returns the arguments of the event's tool call, if it is about one.
    fn tool_input(&self) -> Option<&Map<String, Value>> {
        None
    }

    /// Returns the event with another name and other arguments of its tool call;
    /// `None` if it is not about one.
    fn with_tool(&self, _name: &str, _input: Map<String, Value>) -> Option<Self> {
        None
    }

    /// Applies the edits of one sequential hook, so that the next hook sees them.
    fn apply(&mut self, _output: &HookOutput) {}

    /// Returns the verdict of the merged outputs. Pure.
    fn evaluate(merged: &HookOutput) -> Self::Verdict;

    /// Returns the outcome of the merged outputs in one word.
    fn action(merged: &HookOutput) -> Action {
        if merged.r#continue == Some(false) {
            return Action::Stop;
        }
        let responds = Self::HONOURS.contains(&OutputPart::SyntheticResponse)
            && merged.specific("llm_response").is_some();
        match merged.decision {
            Some(Decision::Deny) => Action::Deny,
            Some(Decision::Ask) => Action::Ask,
            Some(Decision::Allow) | None if responds => Action::Respond,
            Some(Decision::Allow) | None => Action::Proceed,
        }
    }
}

/// Text of an event that a matcher is compared with (hook protocol, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatcherSubject<'a> {
    /// No subject: matchers are ignored.
    None,
    /// Tool name; matchers are unanchored.
    Tool(&'a str),
    /// Keyword such as a session's source; matchers are anchored at both ends.
    Keyword(&'a str),
}

impl<'a> MatcherSubject<'a> {
    /// Returns the text that matchers compare.
    pub const fn text(self) -> Option<&'a str> {
        match self {
            Self::None => None,
            Self::Tool(text) | Self::Keyword(text) => Some(text),
        }
    }
}

/// Possible [`MatcherSubject`]s of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectKind {
    /// Events without a subject.
    None,
    /// Names of any tools.
    Tools,
    /// One of these keywords.
    Keywords {
        /// Field of the event that has the keyword.
        field: &'static str,
        /// Keywords of all agents.
        words: &'static [&'static str],
    },
}

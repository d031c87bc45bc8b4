//! What happens between agent and model, and what hooks may say about it.
//!
//! One event is one file: its input, how a matcher sees it, which parts of a
//! hook's output count for it, how a sequential hook's output feeds the next
//! hook, and what all outputs together mean. Pure.
//! To add an event, write the file and add one line to `events!`.

mod after_agent;
mod after_model;
mod after_tool;
mod before_agent;
mod before_model;
mod before_tool;
mod before_tool_selection;
mod conversation;
mod input;
mod mcp;
mod merge;
mod notification;
mod output;
mod pre_compress;
mod session_end;
mod session_start;
mod trace;
mod verdict;

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::model::{LlmRequest, LlmResponse};

pub use self::{
    after_agent::AfterAgent,
    after_model::AfterModel,
    after_tool::{AfterTool, ToolResponse},
    before_agent::BeforeAgent,
    before_model::{BeforeModel, BeforeModelVerdict},
    before_tool::{ArgumentsEdit, BeforeTool, BeforeToolVerdict},
    before_tool_selection::BeforeToolSelection,
    conversation::{Added, render},
    input::{Caller, Context, HookInput},
    mcp::mcp_context,
    merge::{Part, fold},
    notification::Notification,
    output::{
        Answer, ArgumentsMean, Decision, Diagnostic, DiagnosticCode, HookOutput, HookStatus,
        Meaning,
    },
    pre_compress::PreCompress,
    session_end::SessionEnd,
    session_start::SessionStart,
    trace::Trace,
    verdict::{Action, Flow, Reason, Verdict},
};

/// One kind of event.
pub trait EventKind: Serialize + DeserializeOwned + Send + Sync + Sized + 'static {
    /// Its name on the wire and in config.
    const NAME: EventName;
    /// Which parts of a hook's output count; all others are ignored.
    const HONOURS: &'static [Part];
    /// What its subjects may be.
    const SUBJECTS: Subjects = Subjects::None;
    /// What the hooks' outputs come to.
    type Verdict: Verdict;

    /// This event among all events, for those who handle every kind.
    fn as_event(&self) -> Event<'_>;

    /// What a matcher is compared with; `None` if matchers do not apply.
    fn subject(&self) -> Subject<'_> {
        Subject::None
    }

    /// The request it is about, if it is about one.
    fn llm_request(&self) -> Option<&LlmRequest> {
        None
    }

    /// The answer it is about, if it is about one.
    fn llm_response(&self) -> Option<&LlmResponse> {
        None
    }

    /// The same event with the system instruction as a first message; none if
    /// it has no messages.
    fn with_system_message(&self) -> Option<Self> {
        None
    }

    /// Takes in one output before the next sequential hook sees the event.
    fn absorb(&mut self, _output: &HookOutput) {}

    /// What the folded outputs of all hooks mean. Pure.
    fn judge(folded: &HookOutput) -> Self::Verdict;
}

/// The text of an event that a matcher is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The matcher is ignored.
    None,
    /// A tool's name; a matcher may be found anywhere in it.
    Tool(&'a str),
    /// One of a few words; a matcher must match the whole of it.
    Word(&'a str),
}

/// What the subjects of a kind of event may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subjects {
    /// It has none.
    None,
    /// The names of tools.
    Tools,
    /// These words.
    Words(&'static [&'static str]),
}

/// Who wants to handle an event kind known by name only.
pub trait EventVisitor {
    /// What comes of it.
    type Output;
    /// Called with the kind of that name.
    fn visit<E: EventKind>(self) -> Self::Output;
}

macro_rules! events {
    ($($kind:ident),+ $(,)?) => {
        /// The name of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum EventName {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind,)+
        }

        impl EventName {
            /// Every event, in the order of a turn.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)+ }
            }

            /// Hands the kind of this name to `visitor`.
            pub fn visit<V: EventVisitor>(self, visitor: V) -> V::Output {
                match self { $(Self::$kind => visitor.visit::<$kind>(),)+ }
            }
        }

        /// One event of any kind, borrowed.
        #[derive(Debug, Clone, Copy, Serialize)]
        #[serde(untagged)]
        pub enum Event<'a> {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind(&'a $kind),)+
        }

        impl<'a> Event<'a> {
            /// Which kind it is.
            pub const fn name(self) -> EventName {
                match self { $(Self::$kind(_) => EventName::$kind,)+ }
            }

            /// See [`EventKind::subject`].
            pub fn subject(self) -> Subject<'a> {
                match self { $(Self::$kind(it) => it.subject(),)+ }
            }

            /// Whether a part of a hook's output counts for it.
            pub fn honours(self, part: Part) -> bool {
                match self { $(Self::$kind(_) => $kind::HONOURS.contains(&part),)+ }
            }

            /// See [`EventKind::llm_request`].
            pub fn llm_request(self) -> Option<&'a LlmRequest> {
                match self { $(Self::$kind(it) => it.llm_request(),)+ }
            }

            /// See [`EventKind::llm_response`].
            pub fn llm_response(self) -> Option<&'a LlmResponse> {
                match self { $(Self::$kind(it) => it.llm_response(),)+ }
            }
        }
    };
}

events! {
    SessionStart,
    BeforeAgent,
    BeforeModel,
    BeforeToolSelection,
    AfterModel,
    BeforeTool,
    AfterTool,
    AfterAgent,
    PreCompress,
    Notification,
    SessionEnd,
}

impl EventName {
    /// The event called `name` on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.as_str() == name)
    }

    /// Whether a model call brings it about; all others are reported by agents.
    pub const fn comes_of_model_calls(self) -> bool {
        matches!(
            self,
            Self::BeforeModel | Self::BeforeToolSelection | Self::AfterModel
        )
    }

    /// Whether model calls show that it happened, though no model call is it.
    pub const fn shows_in_model_calls(self) -> bool {
        matches!(
            self,
            Self::SessionStart
                | Self::BeforeAgent
                | Self::AfterTool
                | Self::BeforeTool
                | Self::AfterAgent
                | Self::SessionEnd
        )
    }

    /// Whether nobody waits for what hooks say about it.
    pub const fn is_advisory(self) -> bool {
        matches!(
            self,
            Self::SessionEnd | Self::PreCompress | Self::Notification
        )
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

//! Events between agent and model, hook outputs on them, and their meaning. Pure.
//!
//! Each event has a file of its own: its input, the subject of its matchers, the
//! parts of a hook's output that count, the effect of a sequential hook on the
//! next, and the verdict of the merged outputs.
//! To add an event, write the file and add one line to `for_each_event!` in
//! `event/name.rs`.

mod after_agent;
mod after_model;
mod after_tool;
mod before_agent;
mod before_model;
mod before_tool;
mod before_tool_selection;
mod definition;
mod hook_run;
mod input;
mod mcp;
mod name;
mod notification;
mod output;
mod pre_compress;
mod rule;
mod session_end;
mod session_start;
mod trace;
mod verdict;

use serde::Serialize;

use self::name::for_each_event;
use crate::model::LlmRequest;

pub use self::{
    after_agent::AfterAgent,
    after_model::AfterModel,
    after_tool::{AfterTool, ResultEdit, ToolResponse, tool_response},
    before_agent::BeforeAgent,
    before_model::{BeforeModel, BeforeModelVerdict},
    before_tool::BeforeTool,
    before_tool_selection::BeforeToolSelection,
    definition::{EventDefinition, MatcherSubject, SubjectKind},
    hook_run::{EventOrigin, HookRun, RefusedCall},
    input::{
        CallContext, Caller, Context, GatewayContext, HookInput, InputExtras, SessionScope,
        text_field,
    },
    mcp::{mcp_context, mcp_tool},
    name::{AgentScope, EventAlias, EventName, SettingsFormat},
    notification::Notification,
    output::{
        AddedContext, ArgumentsMode, Decision, Diagnostic, DiagnosticCode, HookOutput, HookResult,
        HookStatus, Interpretation, OutputPart, Reason, merge_outputs,
    },
    pre_compress::PreCompress,
    rule::{RuleId, SkipReason},
    session_end::SessionEnd,
    session_start::SessionStart,
    trace::Trace,
    verdict::{Action, FlowVerdict},
};

/// One of the events of the `events!` table.
pub trait EventKind: EventDefinition {
    /// Name on the wire and in the config.
    const NAME: EventName;

    /// Returns the event among all kinds of events.
    fn as_event(&self) -> Event<'_>;
}

/// Generic operation on an event known by its name only.
pub trait EventVisitor {
    /// Result of the operation.
    type Output;

    /// Runs the operation for one kind of event.
    fn visit<E: EventKind>(self) -> Self::Output;
}

macro_rules! events {
    ($($kind:ident),+ $(,)?) => {
        $(impl EventKind for $kind {
            const NAME: EventName = EventName::$kind;

            fn as_event(&self) -> Event<'_> {
                Event::$kind(self)
            }
        })+

        impl EventName {
            /// Runs `visitor` for the kind of this name.
            pub fn visit<V: EventVisitor>(self, visitor: V) -> V::Output {
                match self { $(Self::$kind => visitor.visit::<$kind>(),)+ }
            }

            /// Returns the subjects that matchers are compared with.
            pub const fn subjects(self) -> SubjectKind {
                match self { $(Self::$kind => $kind::SUBJECTS,)+ }
            }

            /// Returns the parts of a hook's output that count for events of this name.
            pub const fn honoured_parts(self) -> &'static [OutputPart] {
                match self { $(Self::$kind => $kind::HONOURS,)+ }
            }

            /// Returns whether a hook that fails can refuse something (`on_failure: closed`): the
            /// event, or the tools of a request.
            pub fn can_fail_closed(self) -> bool {
                self.honours(OutputPart::Flow) || self.honours(OutputPart::ToolSelection)
            }

            /// Returns whether a case can prove a hook on the event: not a selection of tools.
            pub fn is_provable(self) -> bool {
                self.honours(OutputPart::Flow)
            }

            /// Returns whether a part of a hook's output counts for events of this name.
            pub fn honours(self, part: OutputPart) -> bool {
                self.honoured_parts().contains(&part)
            }
        }

        /// One event of any kind, borrowed.
        #[derive(Debug, Clone, Copy, Serialize)]
        #[serde(untagged)]
        pub enum Event<'a> {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind(&'a $kind),)+
        }

        impl<'a> Event<'a> {
            /// Returns the name of its kind.
            pub const fn name(self) -> EventName {
                match self { $(Self::$kind(_) => EventName::$kind,)+ }
            }

            /// Returns the subject: see [`EventDefinition::subject`].
            pub fn subject(self) -> MatcherSubject<'a> {
                match self { $(Self::$kind(event) => event.subject(),)+ }
            }

            /// Returns the toolset: see [`EventDefinition::toolset`].
            pub fn toolset(self) -> Option<&'a str> {
                match self { $(Self::$kind(event) => event.toolset(),)+ }
            }

            /// Returns the request: see [`EventDefinition::llm_request`].
            pub fn llm_request(self) -> Option<&'a LlmRequest> {
                match self { $(Self::$kind(event) => event.llm_request(),)+ }
            }
        }
    };
}

for_each_event!(events);

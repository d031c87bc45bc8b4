//! What can happen to a request.

use serde_json::Value;

use crate::event::{
    Action, Caller, Diagnostic, EventName, EventOrigin, HookOutput, HookRun, Trace,
};

/// One thing that happened to a request.
#[derive(Debug)]
pub enum ExchangeEvent<'a> {
    /// The method was found, such as `models.generateContent`.
    MethodResolved(&'static str),
    /// The call was read from path and query, and again from the body.
    CallRead {
        /// Name of the method in logs and metrics.
        operation: &'static str,
        /// Requested model; empty if the call names none.
        model: &'a str,
        /// Session that the agent names; empty if it names none.
        session_id: &'a str,
    },
    /// The call was accepted. Before, it can only be rejected.
    CallAccepted {
        /// Name of the API's dialect.
        dialect: &'static str,
        /// Caller, as authenticated by the listener.
        caller: &'a Caller,
        /// Span of the request.
        trace: Trace,
    },
    /// The session was found or created.
    SessionFound {
        /// Id of the session.
        id: &'a str,
        /// How the request matched it.
        match_kind: &'static str,
        /// How it is identified.
        source: &'static str,
    },
    /// A policy or hook changed the model.
    ModelChanged(&'a str),
    /// Policies or hooks acted on the call.
    ActionTaken(ExchangeAction),
    /// Policies and hooks were selected for an event.
    Planned {
        /// Name of the hook event.
        event: EventName,
        /// Whether hooks run in sequence.
        sequential: bool,
        /// Names and types, policies first.
        hooks: &'a [(String, String)],
        /// Whether they are listed only, and do not run.
        skipped: bool,
    },
    /// A policy or hook has run.
    HookFinished {
        /// Name of the hook event.
        event: EventName,
        /// Result of the run.
        run: &'a HookRun,
    },
    /// All policies and hooks of an event have run.
    EventDecided(&'a EventDecision<'a>),
    /// All policies and hooks of an `AfterModel` chunk have run. Streams have thousands.
    ChunkDecided(&'a EventDecision<'a>),
    /// Policies inspected a chunk and had no output.
    ChunkInspected(&'a [HookRun]),
    /// Policies inspected chunks. Reported for many chunks at once, because streams have
    /// thousands.
    ChunksPassed {
        /// Number of chunks since the last report.
        chunks: u64,
        /// Runs without output and effect: one for each policy, and the number of equal runs.
        runs: &'a [(HookRun, u64)],
    },
    /// Hooks received a chunk.
    ChunkToHooks,
    /// Parts of outputs were ignored.
    OutputIgnored(&'a [Diagnostic]),
    /// A function call was withheld from the agent.
    ToolCallDenied {
        /// Name of the function.
        tool: &'a str,
    },
    /// The last answer was accepted although `AfterAgent` denied it.
    RetriesExhausted,
    /// The request is about to be sent to an address of upstream.
    UpstreamSelected(&'static str),
    /// The call is about to go upstream. `None`: its body is passed through.
    Sending(Option<&'a [u8]>),
    /// A decision of hooks is about to go to the agent.
    Replying,
    /// Upstream counted tokens, up to here.
    UsageReported(&'a Value),
    /// A piece of a body passed.
    BodyPiece(BodySide, &'a [u8]),
    /// A body ended, or its rest was discarded.
    BodyEnded(BodySide),
    /// Upstream failed, or its response is unreadable.
    UpstreamFailed {
        /// The error and its sources.
        error: &'a str,
        /// Whether there was a response.
        has_response: bool,
    },
    /// The call ended with an error of hookgate's own.
    Failed {
        /// Reason code of the error.
        reason: &'static str,
        /// HTTP status for the agent.
        status: u16,
    },
    /// An error broke off a response whose status was sent.
    StreamAborted {
        /// Reason code of the error.
        reason: &'static str,
    },
    /// The response's status is known.
    ResponseStarted {
        /// HTTP status for the agent.
        status: u16,
    },
    /// The response's body ended.
    ResponseEnded(ExchangeEnd),
    /// Nothing more happens to the request.
    Finished,
}

/// Direction of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodySide {
    /// From the agent, as received.
    Request,
    /// To the agent, as sent.
    Response,
}

/// What policies and hooks decided about one event.
#[derive(Debug)]
pub struct EventDecision<'a> {
    /// Name of the hook event.
    pub event: EventName,
    /// Source of the event.
    pub origin: EventOrigin,
    /// The text that matchers compare, such as a tool's name.
    pub subject: Option<&'a str>,
    /// The event before hooks changed it, as JSON; only if a sink needs it.
    pub input: Option<&'a [u8]>,
    /// Runs of policies and hooks, in order.
    pub runs: &'a [HookRun],
    /// The verdict in one word.
    pub verdict: Action,
    /// Merged output of all enforcing runs.
    pub output: &'a HookOutput,
    /// Diagnostics of the merge.
    pub diagnostics: &'a [Diagnostic],
}

impl EventDecision<'_> {
    /// Returns the reason of a verdict that denies, stops or asks.
    pub fn reason(&self) -> Option<String> {
        let reason = match self.verdict {
            Action::Proceed | Action::Respond => return None,
            Action::Ask => return self.output.reason.clone(),
            Action::Stop => self.output.stop(),
            Action::Deny => self.output.deny(),
        };
        reason.map(|reason| reason.as_str().to_owned())
    }
}

/// The action of policies and hooks on a call; of several, the last in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExchangeAction {
    /// Request and response are unchanged.
    Pass,
    /// The request or the response was edited.
    Edit,
    /// A hook answered instead of the model.
    Respond,
    /// The request or the response was denied.
    Deny,
    /// The call was denied and the session stopped.
    Stop,
    /// The call ended with an error of hookgate's own.
    Error,
}

impl ExchangeAction {
    /// Returns the name in logs, metrics and headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Edit => "edit",
            Self::Respond => "respond",
            Self::Deny => "deny",
            Self::Stop => "stop",
            Self::Error => "error",
        }
    }
}

/// How a response's body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeEnd {
    /// The agent disconnected before the end.
    Disconnected,
    /// The body was sent to its end.
    Complete,
    /// Upstream broke off, or its response could not be parsed.
    Truncated,
    /// Shutdown aborted the request.
    Aborted,
}

impl ExchangeEnd {
    /// Returns the name in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disconnected => "client_disconnected",
            Self::Complete => "complete",
            Self::Truncated => "truncated",
            Self::Aborted => "aborted",
        }
    }
}

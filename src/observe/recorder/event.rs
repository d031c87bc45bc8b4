//! Events of an exchange, as the recorder passes them to its sinks.

use std::{collections::BTreeSet, time::Instant};

use bytes::Bytes;
use http::HeaderMap;
use serde::Serialize;

use crate::{
    dialect::MethodSpec,
    event::{
        Action, Caller, Diagnostic, EventName, EventOrigin, HookOutput, HookRun, RuleId,
        SkipReason, Trace,
    },
    model::IgnoredEdit,
    observe::{TokenUsage, trace::PromptParts},
};

/// One thing that happened to a request.
#[derive(Debug)]
pub enum ExchangeEvent<'a> {
    /// The method was found.
    MethodResolved(&'static MethodSpec),
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
        /// Relation of the request to the session, such as `new` or `continued`.
        match_kind: &'static str,
        /// Method of session identification, such as `history` or `header`.
        source: &'static str,
        /// Id of the session that the request has forked.
        parent: Option<&'a str>,
        /// Events of the session that the agent reports itself.
        reported: &'a BTreeSet<EventName>,
        /// Name of the sub-agent that makes the call, if it is one.
        sub_agent: Option<&'a str>,
    },
    /// Policies or hooks acted on the call.
    ActionTaken(ExchangeAction),
    /// Policies and hooks were selected for an event.
    Planned {
        /// Name of the hook event.
        event: EventName,
        /// Time of the selection, and the rules that it skipped.
        plan: PlanSummary<'a>,
        /// Those that run, policies first.
        asked: &'a [PlannedRule<'a>],
        /// True if they are listed only, and do not run.
        is_skipped: bool,
    },
    /// A policy or hook has run.
    HookFinished {
        /// Name of the hook event.
        event: EventName,
        /// Result of the run.
        run: &'a HookRun,
    },
    /// An agent has reported an event, about which policies and hooks decide next.
    Reported {
        /// Name of the hook event.
        event: EventName,
        /// The text that matchers compare, such as a tool's name.
        subject: Option<&'a str>,
    },
    /// All policies and hooks of an event have run.
    EventDecided(&'a EventDecision<'a>),
    /// All policies and hooks of an `AfterModel` chunk have run. Streams have thousands.
    ChunkDecided(&'a EventDecision<'a>),
    /// Policies ran on a chunk. None has an output to merge, but some may have edited it.
    PoliciesRan(&'a [HookRun]),
    /// Policies inspected chunks. Reported for many chunks at once, because streams have
    /// thousands.
    ChunksPassed {
        /// Number of chunks since the last report.
        chunks: u64,
        /// Runs without output and effect: one for each policy with the sum of their durations,
        /// and the number of equal runs.
        runs: &'a [(HookRun, u64)],
    },
    /// Hooks are about to receive a chunk.
    ChunkToHooks,
    /// Edits, or parts of them, were not applied.
    EditsIgnored(&'a [IgnoredEdit]),
    /// A function call was withheld from the agent.
    ToolCallDenied {
        /// Name of the function.
        tool: &'a str,
    },
    /// The last answer was accepted although `AfterAgent` denied it.
    RetriesExhausted,
    /// The request is about to be sent to an address of upstream.
    UpstreamSelected(&'static str),
    /// The body of the request was read and decoded.
    RequestRead(&'a Bytes),
    /// The call is about to go upstream.
    Sending {
        /// Model that is called; empty if there is none.
        model: &'a str,
        /// Path and query, without credentials.
        target: &'a str,
        /// Body of the request; `None` if that of the agent is passed through.
        body: Option<&'a Bytes>,
    },
    /// A decision of hooks is about to go to the agent.
    Replying,
    /// The head of upstream's response has arrived.
    UpstreamAnswered {
        /// HTTP status of the model API.
        status: u16,
    },
    /// The head of upstream's response, if a sink needs the bytes of upstream.
    UpstreamHead {
        /// HTTP status of the model API.
        status: u16,
        /// Headers, without those that contain a configured key.
        headers: &'a HeaderMap,
    },
    /// A piece of upstream's response, decoded if it is inspected; `None` at its end.
    UpstreamPiece(Option<&'a Bytes>),
    /// The request goes upstream other than the agent sent it.
    RequestEdited {
        /// The agent's request, without envelope.
        before: &'a [u8],
        /// The request that goes upstream.
        after: &'a [u8],
    },
    /// The prompt of a request, as the agent sent it and as it goes upstream.
    PromptSent {
        /// The prompt as the agent sent it.
        received: PromptParts<'a>,
        /// The prompt that goes upstream; `None` if it is unedited.
        sent: Option<PromptParts<'a>>,
    },
    /// A chunk of the model's response was filtered.
    ChunkFiltered(ChunkFacts),
    /// A response or chunk goes to the agent other than the model sent it.
    AnswerEdited {
        /// The model's response or chunk; empty if it sent none.
        before: &'a [u8],
        /// Response or chunk that the agent receives; empty if it receives none.
        after: &'a [u8],
    },
    /// The response of the model is complete and decided.
    RoundEnded {
        /// Reason for another request to the model: `tool_denied` or `answer_denied`.
        asked_again: Option<&'static str>,
    },
    /// A body or chunk that policies and hooks inspect.
    BodyInspected(BodyPart, &'a Bytes),
    /// Upstream counted tokens, up to here.
    UsageReported(TokenUsage),
    /// A piece of a body passed.
    BodyPiece(BodySide, &'a Bytes),
    /// A body ended, or its rest was discarded.
    BodyEnded(BodySide),
    /// Upstream failed, or its response is unreadable.
    UpstreamFailed {
        /// The error and its sources.
        error: &'a str,
        /// True if there was a response.
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
    /// Nothing more happens to a single hook event. Without a decision before, the agent has
    /// disconnected or a shutdown aborted the event.
    Closed,
}

/// The selection of policies and hooks for an event.
#[derive(Debug, Clone, Copy)]
pub struct PlanSummary<'a> {
    /// Time of the selection.
    pub started: Instant,
    /// True if hooks run in sequence.
    pub sequential: bool,
    /// Policies and hooks that do not run.
    pub skipped: &'a [(RuleId, SkipReason)],
}

/// A policy or hook that runs.
#[derive(Debug, Clone, Copy)]
pub struct PlannedRule<'a> {
    /// Number of the rule in the config.
    pub rule: RuleId,
    /// Name of the rule.
    pub name: &'a str,
    /// Type of the hook; `builtin` for policies.
    pub kind: &'a str,
}

/// Sizes of a filtered chunk.
#[derive(Debug, Clone, Copy)]
pub struct ChunkFacts {
    /// Bytes of the model's chunk.
    pub received_bytes: u32,
    /// Bytes of the response that are held back after it.
    pub held_bytes: u32,
    /// True if the chunk was edited.
    pub is_edited: bool,
}

/// Part of a call's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPart {
    /// Request of the agent in the form of its API, without envelope.
    AgentRequest,
    /// Request that goes upstream, in the same form.
    UpstreamRequest,
    /// Response or chunk of the model, in the content form.
    ModelAnswer,
    /// Response or chunk for the agent, in the content form.
    AgentAnswer,
}

/// Direction of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodySide {
    /// From the agent, as received.
    Request,
    /// To the agent, as sent.
    Response,
}

/// Decision of policies and hooks about one event.
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
    /// The selection of policies and hooks.
    pub plan: PlanSummary<'a>,
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
        self.verdict.reason_in(self.output)
    }
}

named_enum! {
    /// The action of policies and hooks on a call; of several, the last in this order counts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ExchangeAction {
        /// Request and response are unchanged.
        Pass = "pass",
        /// The request or the response was edited.
        Edit = "edit",
        /// A hook answered instead of the model.
        Respond = "respond",
        /// The request or the response was denied.
        Deny = "deny",
        /// The call was denied and the session stopped.
        Stop = "stop",
        /// The call ended with an error of hookgate's own.
        Error = "error",
    }
}

named_enum! {
    /// Outcome of sending the body of a response.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ExchangeEnd {
        /// The body was sent to its end.
        Complete = "complete",
        /// Upstream broke off, or its response could not be parsed.
        Truncated = "truncated",
        /// The agent disconnected before the end.
        #[serde(rename = "client_disconnected")]
        Disconnected = "client_disconnected",
        /// Shutdown aborted the request.
        Aborted = "aborted",
    }
}

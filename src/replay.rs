//! Replay of recorded calls under another config.
//!
//! [`replay`] runs the pipeline of [`crate::proxy`] in this process, with the recorded answers
//! as the model API, and compares what it does with what was recorded, or with what another
//! config does. Sessions are replayed in order, different ones in parallel.
//!
//! Reading order: `schedule` (which call is replayed when), `replayer`, `gateway` (one call),
//! `compare` (two calls), `totals` and `report` (all calls), `format`. The shadow uses
//! [`SessionOrder`] and [`Replayer`] for calls that come one by one.

mod answer_channels;
mod compare;
mod comparison;
mod decisions;
mod fail_on;
mod format;
mod gateway;
mod name_replay;
mod name_rules;
mod progress;
mod recorded_inputs;
mod redaction;
mod replay_sink;
mod replayer;
mod report;
mod schedule;
mod session_order;
mod tool_coverage;
mod totals;

pub use self::{
    comparison::{Change, Comparison, DifferenceKind, UnknownReason},
    fail_on::{FailCondition, FailOnError},
    format::{ReportFormat, html_report, render},
    gateway::ReplayedHooks,
    name_replay::replay_names,
    progress::Progress,
    replayer::{ReplayConfigs, Replayer},
    report::{
        CallCounts, CallTimes, ChangeCounts, ChangeSample, DamageReport, EvaluatedRule, ReplayCost,
        ReplayReport,
    },
    schedule::{RecordingSource, ReplayError, replay},
    session_order::{OrderedCall, SessionOrder},
    tool_coverage::ToolCoverage,
};

//! Outputs of hooks: fields, results of runs, and the merge of several outputs.

mod added_context;
mod arguments_edit;
mod diagnostic;
mod edits;
mod hook_output;
mod hook_result;
mod merge;
mod output_part;
mod reason;

pub use self::{
    added_context::AddedContext,
    arguments_edit::ArgumentsMode,
    diagnostic::{Diagnostic, DiagnosticCode},
    hook_output::{Decision, HookOutput, Interpretation},
    hook_result::{HookResult, HookStatus},
    merge::merge_outputs,
    output_part::OutputPart,
    reason::Reason,
};

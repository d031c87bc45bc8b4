//! Outcome of a guard on one event of a case.

use serde_json::Value;

use crate::event::{Action, Diagnostic, EventName, HookRun, HookStatus};

/// Outcome of a guard on one event of a case.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) event: EventName,
    pub(super) selection: GuardSelection,
    /// Cause of a failed run.
    pub(super) failure: Option<String>,
    /// First problem of an output.
    pub(super) diagnostic: Option<String>,
    pub(super) is_denied: bool,
    pub(super) is_edited: bool,
    /// All texts, numbers and keys after the edits.
    pub(super) content: String,
}

/// Selection of the guard for one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuardSelection {
    /// Its matcher does not match.
    Unmatched,
    /// Its matcher matches, but it did not run.
    Matched,
    /// Its matcher matches, and it ran.
    Ran,
}

impl Stage {
    /// An event on which nothing ran yet.
    pub(super) const fn new(event: EventName) -> Self {
        Self {
            event,
            selection: GuardSelection::Matched,
            failure: None,
            diagnostic: None,
            is_denied: false,
            is_edited: false,
            content: String::new(),
        }
    }

    /// Returns whether the guard ran.
    pub(super) fn has_run(&self) -> bool {
        self.selection == GuardSelection::Ran
    }

    /// Adds runs of the guard and the action that came of them.
    pub(super) fn add(&mut self, runs: &[HookRun], action: Action) {
        for run in runs {
            self.selection = GuardSelection::Ran;
            self.is_edited |= run.edited;
            self.is_denied |= !run.refused.is_empty();
            match run.status() {
                HookStatus::Failed => {
                    let failure = run.result.failure().map(describe);
                    self.failure = Some(failure.unwrap_or_default());
                }
                HookStatus::Ok | HookStatus::Block => {
                    let last = run.result.diagnostics.last().map(describe);
                    self.diagnostic = self.diagnostic.take().or(last);
                }
            }
        }
        self.is_denied |= action >= Action::Deny;
    }

    /// Adds all texts, numbers and keys of a JSON value to the content.
    pub(super) fn add_content(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add_line(text),
            Value::Number(number) => self.add_line(&number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| self.add_content(item)),
            Value::Object(fields) => {
                for (key, field) in fields {
                    self.add_line(key);
                    self.add_content(field);
                }
            }
            Value::Null | Value::Bool(_) => (),
        }
    }

    fn add_line(&mut self, text: &str) {
        self.content.push_str(text);
        self.content.push('\n');
    }

    /// Adds all texts, numbers and keys of a JSON document to the content.
    pub(super) fn add_json(&mut self, json: &[u8]) {
        // Documents were parsed before, so this cannot fail.
        self.add_content(&serde_json::from_slice(json).unwrap_or_default());
    }

    /// Returns whether a text is left in the content.
    pub(super) fn contains(&self, text: &str) -> bool {
        self.content.contains(text)
    }
}

fn describe(diagnostic: &Diagnostic) -> String {
    if diagnostic.detail.is_empty() {
        diagnostic.code.as_str().to_owned()
    } else {
        diagnostic.detail.clone()
    }
}

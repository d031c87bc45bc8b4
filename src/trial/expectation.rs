//! Comparison of a trial with the expected outcome.

use regex::Regex;
use serde_json::{Value, json};

use super::{
    json_diff::{ExtraKeys, differences, display_value},
    report::{RecordedRequest, TrialReport},
};
use crate::{
    config::BUILTIN,
    event::EventName,
    hook::HookTrace,
    test_case::{Expected, ExpectedVerdict},
};

/// Returns the differences of a report from the expected outcome.
pub(super) fn compare(expected: &Expected, found: &TrialReport) -> Vec<String> {
    let mut mismatches = Mismatches::default();
    mismatches.verdict(expected, found);
    if let Some(reason) = &expected.reason {
        mismatches.reason(reason, found.reason.as_deref());
    }
    if let Some(hooks) = &expected.hooks {
        mismatches.part("hooks", &json!(hooks), Some(&json!(ran(found))));
    }
    if let Some(status) = expected.status {
        mismatches.part("status", &json!(status), Some(&json!(found.status)));
    }
    if let Some(output) = &expected.output {
        mismatches.part("output", &json!(output), Some(&found.answer));
    }
    let request = found.upstream.last();
    if let Some(body) = &expected.upstream {
        mismatches.upstream(body, request);
    }
    if let Some(model) = &expected.model {
        let found = request.and_then(model_of).map(Value::from);
        mismatches.part("model", &json!(model), found.as_ref());
    }
    if let Some(answer) = &expected.answer {
        mismatches.part("answer", answer, Some(&found.answer));
    }
    if let Some(text) = &expected.text {
        mismatches.part("text", &json!(text), Some(&json!(found.text)));
    }
    mismatches.0
}

/// Differences from the expected outcome.
#[derive(Debug, Default)]
struct Mismatches(Vec<String>);

impl Mismatches {
    fn add(&mut self, what: String) {
        self.0.push(what);
    }

    /// Compares the verdict. An error fails every case that does not expect it.
    fn verdict(&mut self, expected: &Expected, found: &TrialReport) {
        let wanted = match expected.verdict.map(ExpectedVerdict::as_str) {
            Some(verdict) if Some(verdict) == found.verdict => return,
            None if found.verdict != Some("error") || expected.status.is_some() => return,
            verdict => verdict.unwrap_or("no error"),
        };
        let why = match found.reason.as_deref() {
            None | Some("") => String::new(),
            Some(why) => format!(": {why}"),
        };
        let found = found.verdict.unwrap_or_default();
        self.add(format!("verdict: expected {wanted}, found {found}{why}"));
    }

    /// Compares the body of the last request to upstream; `null` means no request.
    fn upstream(&mut self, expected: &Value, request: Option<&RecordedRequest>) {
        match (expected, request) {
            (Value::Null, None) => (),
            (Value::Null, Some(request)) => {
                let path = &request.path;
                self.add(format!("upstream: expected no call, found {path}"));
            }
            (body, request) => self.part("upstream", body, request.map(|request| &request.body)),
        }
    }

    /// Compares a part of the outcome; keys that are not expected are ignored.
    fn part(&mut self, what: &str, expected: &Value, found: Option<&Value>) {
        let Some(found) = found else {
            let expected = display_value(Some(expected));
            return self.add(format!("{what}: expected {expected}, found no call"));
        };
        for mut difference in differences(expected, found, ExtraKeys::Ignored) {
            let path = difference.path;
            let dot = if path.is_empty() || path.starts_with('[') {
                ""
            } else {
                "."
            };
            difference.path = format!("{what}{dot}{path}");
            self.add(difference.to_string());
        }
    }

    /// Checks that the reason contains the expected text, or matches it.
    fn reason(&mut self, expected: &str, found: Option<&str>) {
        let reason = found.unwrap_or_default();
        let matches = |regex: Regex| regex.is_match(reason);
        if !reason.contains(expected) && !Regex::new(expected).is_ok_and(matches) {
            let found = display_value(found.map(Value::from).as_ref());
            self.add(format!(
                "reason: expected {}, found {found}",
                json!(expected)
            ));
        }
    }
}

/// Returns the hooks that ran, each once. A policy counts on an answer of the model API only if it
/// acted, because it inspects every one.
fn ran(found: &TrialReport) -> Vec<&str> {
    let hooks = found.events.iter().flat_map(|event| {
        let is_answer = event.event == EventName::AfterModel && !found.upstream.is_empty();
        let counts =
            move |hook: &&HookTrace| !is_answer || hook.kind != BUILTIN || hook.has_acted();
        event.hooks.iter().filter(counts)
    });
    let mut names: Vec<&str> = Vec::new();
    for hook in hooks {
        if !names.contains(&hook.name.as_str()) {
            names.push(&hook.name);
        }
    }
    names
}

/// Returns the model of a request.
fn model_of(request: &RecordedRequest) -> Option<&str> {
    let Some((_, rest)) = request.path.rsplit_once("/models/") else {
        // Code Assist has the model in the body.
        let names = ["/model", "/request/model"].map(|pointer| request.body.pointer(pointer));
        let name = names.into_iter().flatten().find_map(Value::as_str)?;
        return Some(name.strip_prefix("models/").unwrap_or(name));
    };
    Some(rest.split_once(':').map_or(rest, |(model, _)| model))
}

//! Cases of a file that `hookgate test` also runs.

use std::path::Path;

use http::HeaderMap;

use super::{case::GuardCase, expectation::Expectation};
use crate::{
    auth,
    config::{Problem, ProofCase, SourceSpan},
    hook,
    test_case::{self, AgentAction, Expected, ExpectedVerdict, TestCase},
};

/// Reads those cases of a file, with its text, that expect the same. `span` is where the config
/// names it.
pub(super) fn read(
    path: &Path,
    text: Option<&str>,
    span: &SourceSpan,
    expectation: Expectation,
) -> Vec<Result<GuardCase, Problem>> {
    let cases = match test_case::read_file(path, text, &hook::registry()) {
        Ok(cases) => cases,
        Err(error) => {
            let problems = error.located_at(span).problems.into_iter();
            return problems.map(Err).collect();
        }
    };
    let cases = cases.into_iter();
    let wanted = cases.filter(|case| expects(&case.expected, expectation));
    let read = wanted.map(|case| GuardCase::new(&to_proof_case(case), expectation));
    let wanted: Vec<_> = read.collect();
    if !wanted.is_empty() {
        return wanted;
    }
    let what = match expectation {
        Expectation::Deny => "`verdict: deny`",
        Expectation::Allow => "`verdict: proceed`",
        Expectation::Mask => "a `text`, `answer`, `output` or `upstream`",
    };
    let message = format!("`{}` has no case that expects {what}", path.display());
    vec![Err(Problem::at(span, message))]
}

fn expects(expected: &Expected, expectation: Expectation) -> bool {
    match expectation {
        Expectation::Deny => matches!(
            expected.verdict,
            Some(ExpectedVerdict::Deny | ExpectedVerdict::Stop)
        ),
        Expectation::Allow => expected.verdict == Some(ExpectedVerdict::Proceed),
        Expectation::Mask => {
            let is_denied = expects(expected, Expectation::Deny);
            let is_called = expected.upstream.iter().any(|request| !request.is_null());
            let has_content = expected.text.is_some()
                || expected.answer.is_some()
                || expected.output.is_some()
                || is_called;
            has_content && !is_denied
        }
    }
}

fn to_proof_case(case: TestCase) -> ProofCase {
    let action = case.action;
    let mut converted = ProofCase {
        name: Some(case.name),
        span: case.span,
        // Callers authenticate by their names in test cases.
        caller: auth::presented_key(action.headers(), action.query()),
        headers: texts(action.headers()).collect(),
        ..ProofCase::default()
    };
    match action {
        AgentAction::Report(report) => converted.event = Some(report.event),
        AgentAction::Call(call) => {
            converted.path = Some(call.path);
            converted.request = Some(call.body);
            converted.answer = call.answer;
        }
    }
    converted
}

fn texts(headers: &HeaderMap) -> impl Iterator<Item = (String, String)> {
    let headers = headers.iter();
    headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
}

//! One case of a proof, parsed.

use serde_json::{Map, Value};

use super::{example_call::ExampleCall, expectation::Expectation};
use crate::{
    config::{Problem, ProofCase, SourceSpan},
    dialect,
    event::EventName,
};

/// Header with the name of a session.
const SESSION_HEADER: &str = "x-hookgate-session";

/// One case of a proof, ready to be run.
#[derive(Debug)]
pub(super) struct GuardCase {
    /// The case in messages, such as ``a call of `run_shell_command` ``. Holds no content.
    pub(super) label: String,
    pub(super) span: SourceSpan,
    pub(super) expectation: Expectation,
    /// Text that must not be left after masking.
    pub(super) secret: Option<String>,
    pub(super) sender: Sender,
    pub(super) input: CaseInput,
}

/// Facts about the agent that conditions may test.
#[derive(Debug, Clone, Default)]
pub(super) struct Sender {
    /// Name of the caller; empty if there is none.
    pub(super) caller: String,
    /// Value of the header `User-Agent`.
    pub(super) agent: String,
    /// Name of the session.
    pub(super) session: Option<String>,
}

/// Action of the agent in a case.
#[derive(Debug)]
pub(super) enum CaseInput {
    /// A report of an event.
    Event(EventName, Map<String, Value>),
    /// A call of a model.
    Call(Box<ExampleCall>),
}

impl GuardCase {
    /// Parses a case.
    ///
    /// # Errors
    ///
    /// Fails if the case has no input, or more than one, or if it cannot be parsed.
    pub(super) fn new(case: &ProofCase, expectation: Expectation) -> Result<Self, Problem> {
        let problem = |message: String| Problem::at(&case.span, message);
        check_fields(case, expectation).map_err(problem)?;
        let header = |wanted: &str| {
            let mut headers = case.headers.iter();
            let found = headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.clone())
        };
        let path = case.path.as_deref().unwrap_or_default();
        let (session, _) = dialect::split_session(path);
        let session = session.map(str::to_owned);
        let agent = header("user-agent").unwrap_or_default();
        let (label, input) = read_input(case, &agent).map_err(problem)?;
        let label = match &case.name {
            Some(name) => format!("case `{name}`"),
            None => label,
        };
        Ok(Self {
            label,
            span: case.span.clone(),
            expectation,
            secret: case.secret.clone(),
            sender: Sender {
                caller: case.caller.clone().unwrap_or_default(),
                agent,
                session: session.or_else(|| header(SESSION_HEADER)),
            },
            input,
        })
    }
}

/// Checks what the schema cannot express.
fn check_fields(case: &ProofCase, expectation: Expectation) -> Result<(), String> {
    let inputs = [
        ("prompt", case.prompt.is_some()),
        ("tool_call", case.tool_call.is_some()),
        ("tool_result", case.tool_result.is_some()),
        ("answer", case.answer.is_some() && case.request.is_none()),
        ("event", case.event.is_some()),
        ("request", case.request.is_some()),
    ];
    let given = inputs.into_iter().filter(|(_, is_given)| *is_given);
    let given: Vec<&str> = given.map(|(name, _)| name).collect();
    match given.as_slice() {
        [] if case.model.is_none() => {
            return Err("a case needs one of `prompt`, `model`, `tool_call`, `tool_result`, `answer`, `event` and `request`".to_owned());
        }
        [first, second, ..] => {
            return Err(format!("a case has `{first}` or `{second}`, not both"));
        }
        _ => (),
    }
    let has = |name: &str| given.contains(&name);
    if case.path.is_some() && !has("request") {
        return Err("`path` needs a `request`".to_owned());
    }
    if case.model.is_some() && (has("request") || has("event")) {
        return Err("`model` is part of the `path` or of the event".to_owned());
    }
    if case.secret.is_some() && expectation != Expectation::Mask {
        return Err("`secret` is for cases of `must_mask`".to_owned());
    }
    Ok(())
}

fn read_input(case: &ProofCase, agent: &str) -> Result<(String, CaseInput), String> {
    if let Some(event) = &case.event {
        let name = event_name(event)?;
        let label = format!("this {name} event");
        return Ok((label, CaseInput::Event(name, event.clone())));
    }
    let (label, call) = ExampleCall::read(case, agent)?;
    Ok((label, CaseInput::Call(Box::new(call))))
}

/// Reads the name of a reported event.
fn event_name(event: &Map<String, Value>) -> Result<EventName, String> {
    let name = event.get("hook_event_name").and_then(Value::as_str);
    let name = name.ok_or("the event has no `hook_event_name`")?;
    EventName::parse(name).ok_or_else(|| format!("unknown event `{name}`"))
}

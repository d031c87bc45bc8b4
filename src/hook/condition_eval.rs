//! Conditions of hooks and policies: built, foreseen, and asked about an event.

use crate::{
    condition::{
        CallerFacts, Condition, Facts, RequestFacts, SessionFacts, StaticResult, ToolFacts, Unclear,
    },
    config::{Format, Problem, When},
    dialect::{self, Call, Dialect, DialectError, Document, Operation},
    event::{Context, Event, EventName, Subject},
    observe::ConditionUnclear,
};

/// How the config may check the text of a condition.
pub(super) const FORMAT: Format = Format {
    name: "condition",
    check: |text| match Condition::compile(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("is no condition: {error}")),
    },
};

/// What is about to happen.
#[derive(Debug, Clone, Copy)]
pub enum About<'a> {
    /// A model call, as it stands now.
    Call {
        /// How it is written.
        dialect: &'static dyn Dialect,
        /// What it asks for.
        call: &'a Call,
        /// Its body.
        document: &'a Document,
    },
    /// An event that says it all itself.
    Event(Event<'a>),
}

/// Builds a condition for hooks on these events, of which it must be able to
/// hold on one.
pub(super) fn build(when: &When, events: &[EventName]) -> Result<Condition, Problem> {
    let problem = |message: String| Problem {
        place: Some(when.place.clone()),
        message: format!("`when` {message}"),
    };
    let condition = Condition::compile(&when.text)
        .map_err(|error| problem(format!("is no condition: {error}")))?;
    let prospects = || events.iter().map(|it| condition.prospect(*it));
    let names: Vec<&str> = events.iter().map(|it| it.as_str()).collect();
    let names = names.join(" or ");
    if prospects().all(|it| it == StaticResult::Never) {
        return Err(problem(format!("never holds on {names}")));
    }
    if !prospects().any(|it| matches!(it, StaticResult::Depends | StaticResult::Always))
        && let Some(what) = prospects().find_map(absent)
    {
        let message = format!("asks for `{what}`, which no {names} has");
        return Err(problem(message));
    }
    Ok(condition)
}

/// What it asks for and cannot have.
pub(super) fn absent(prospect: StaticResult) -> Option<String> {
    match prospect {
        StaticResult::Absent(what) => Some(what),
        StaticResult::Depends | StaticResult::Always | StaticResult::Never => None,
    }
}

/// Asks conditions about one event. Its facts are gathered once, and only if
/// there is a condition to ask.
pub(super) struct Weighing<'a> {
    pub(super) event: EventName,
    pub(super) context: &'a Context,
    pub(super) about: About<'a>,
    facts: Option<Result<Facts<'a>, Unclear>>,
    /// Of whom it could not be said whether they run, and why.
    pub(super) unclear: Vec<(String, Unclear)>,
}

impl<'a> Weighing<'a> {
    pub(super) const fn new(event: EventName, context: &'a Context, about: About<'a>) -> Self {
        Self {
            event,
            context,
            about,
            facts: None,
            unclear: Vec::new(),
        }
    }

    /// What matchers are compared with.
    pub(super) fn subject(&self) -> Subject<'a> {
        match self.about {
            About::Call { .. } => Subject::None,
            About::Event(event) => event.subject(),
        }
    }

    /// Whether somebody runs. INVARIANT: who cannot be told to stay away, runs.
    pub(super) fn runs(&mut self, name: &str, when: Option<&Condition>) -> bool {
        let Some(condition) = when else {
            return true;
        };
        let (event, context, about) = (self.event, self.context, self.about);
        let facts = self
            .facts
            .get_or_insert_with(|| facts(event, context, about).map_err(|_| Unclear::Unreadable));
        let holds = match facts {
            Ok(facts) => condition.holds(facts),
            Err(unclear) => Err(*unclear),
        };
        holds.unwrap_or_else(|why| {
            let cause = why.to_string();
            let cause = cause.as_str();
            let request_id = context.request_id.as_str();
            ConditionUnclear {
                request_id,
                name,
                event,
                cause,
            }
            .emit();
            self.unclear.push((name.to_owned(), why));
            true
        })
    }
}

fn facts<'a>(
    event: EventName,
    context: &'a Context,
    about: About<'a>,
) -> Result<Facts<'a>, DialectError> {
    let mut facts = Facts {
        event,
        request: None,
        tool: None,
        prompt: None,
        session: SessionFacts {
            id: &context.session_id,
            named: context.session_named,
        },
        caller: CallerFacts {
            key: &context.caller.key,
            name: &context.caller.name,
            agent: &context.caller.agent,
        },
    };
    match about {
        About::Call {
            dialect,
            call,
            document,
        } => facts.request = Some(request(dialect, call, document)?),
        About::Event(event) => {
            facts.tool = tool(event);
            facts.prompt = prompt(event);
            if let Some(llm_request) = event.llm_request() {
                let (dialect, call, document) = dialect::made_request(llm_request)?;
                facts.request = Some(RequestFacts {
                    // As the agent wrote it, also if no call could name it so.
                    model: llm_request.model.clone(),
                    ..request(dialect, &call, &document)?
                });
            }
        }
    }
    Ok(facts)
}

fn request(
    dialect: &dyn Dialect,
    call: &Call,
    document: &Document,
) -> Result<RequestFacts, DialectError> {
    let outline = dialect.outline(call, document)?;
    Ok(RequestFacts {
        model: call.model_name().to_owned(),
        operation: call.operation.as_str(),
        stream: matches!(call.operation, Operation::Stream(_)),
        bytes: document.to_bytes().len(),
        contents: outline.contents,
        tools: outline.functions,
        max_output_tokens: outline.max_output_tokens,
    })
}

fn tool(event: Event<'_>) -> Option<ToolFacts<'_>> {
    let (name, input) = match event {
        Event::BeforeTool(it) => (&it.tool_name, &it.tool_input),
        Event::AfterTool(it) => (&it.tool_name, &it.tool_input),
        _ => return None,
    };
    Some(ToolFacts { name, input })
}

fn prompt(event: Event<'_>) -> Option<&str> {
    match event {
        Event::BeforeAgent(it) => Some(&it.prompt),
        Event::AfterAgent(it) => Some(&it.prompt),
        _ => None,
    }
}

//! An event that an agent reports, or that is read off its model calls: policies,
//! hooks, policies again.
//!
//! Of a model call only the stable form is reported. Policies know documents, so
//! they are shown one made of it; what they change there, they say as a hook
//! would.

use serde_json::{Map, Value};

use super::{About, Engine, EventOutcome, Origin, PlacedPolicy, Plan, Run, audit_record, folded};
use crate::{
    audit_log::{Audit, Record, Sample, short},
    dialect::{self, Detail, DialectError, ResponseDocument},
    event::{AfterModel, Context, Event, EventKind, HookOutput, HookStatus, Subject},
    model::{LlmRequest, ResponseMutation},
    policy::{ChunkPosition, Look, Occasion, Policy, PolicyRequest},
};

pub(super) async fn fire<E: EventKind>(
    engine: &Engine,
    context: &Context,
    mut event: E,
    origin: Origin,
) -> EventOutcome<E::Verdict> {
    let recording = Recording::of(engine, &event);
    let mut plan = engine.plan(E::NAME, context, About::Event(event.as_event()));
    plan.policies.retain(|it| origin.asks(it));
    let asking = Asking {
        engine,
        context,
        look: Look::First,
    };
    let mut runs = Vec::new();
    asking.policies(&plan, &mut event, &mut runs);
    let looked = runs.len();
    runs.extend(engine.run(&plan, context, &mut event, None).await);
    let said = |it: &Run| it.would.is_none() && it.answer.output != HookOutput::default();
    if runs.iter().skip(looked).any(said) {
        if !plan.sequential {
            let (said, _) = folded::<E>(&runs);
            event.absorb(&said);
        }
        let mut plan = engine.plan_again(E::NAME, context, About::Event(event.as_event()));
        plan.policies.retain(|it| origin.asks(it));
        let look = Look::Again;
        Asking { look, ..asking }.policies(&plan, &mut event, &mut runs);
    }
    let fired = engine.conclude::<E>(runs);
    if let Some((audit, recording)) = recording {
        let mut record = audit_record::event(audit, (context, E::NAME), origin.as_str(), &fired);
        record.subject = recording.subject;
        record.input = recording.input;
        audit.tell(&Record::Event(Box::new(record)));
    }
    fired
}

/// What the decision log holds of the event itself.
struct Recording {
    subject: Option<String>,
    input: Option<Sample>,
}

impl Recording {
    /// As the event is before hooks see it; nothing without a decision log.
    fn of<'a, E: EventKind>(engine: &'a Engine, event: &E) -> Option<(&'a Audit, Self)> {
        let audit = engine.audit.as_deref()?;
        let subject = match event.subject() {
            Subject::None => None,
            Subject::Tool(it) | Subject::Word(it) => Some(short(it)),
        };
        let input = audit.holds_content().then(|| {
            let input = serde_json::to_vec(event).unwrap_or_default();
            audit.sampler().of(&input)
        });
        Some((audit, Self { subject, input }))
    }
}

/// Who asks policies, and when.
#[derive(Clone, Copy)]
struct Asking<'a> {
    engine: &'a Engine,
    context: &'a Context,
    look: Look,
}

impl Asking<'_> {
    /// Asks policies one after the other; each sees what those before left.
    fn policies<E: EventKind>(self, plan: &Plan, event: &mut E, runs: &mut Vec<Run>) {
        for placed in &plan.policies {
            let mut run = self.policy(placed, event, runs);
            plan.remark(&mut run);
            self.engine.finished(self.context, &run, E::NAME);
            if run.would.is_none() && run.status() == HookStatus::Ok {
                event.absorb(&run.answer.output);
            }
            runs.push(run);
        }
    }

    fn policy<E: EventKind>(self, placed: &PlacedPolicy, event: &E, before: &[Run]) -> Run {
        let occasion = self.engine.occasion(placed, self.context, "", self.look);
        match event.as_event() {
            Event::BeforeModel(it) => {
                placed.reported::<E>(|policy| ask_request(policy, &occasion, &it.llm_request))
            }
            Event::AfterModel(it) => placed.reported::<E>(|policy| {
                let model = &it.llm_request.model;
                let occasion = Occasion { model, ..occasion };
                let (so_far, _) = folded::<E>(before);
                ask_answer(policy, &occasion, it, &so_far)
            }),
            other => placed.reported::<E>(|policy| Ok(policy.event(&occasion, other))),
        }
    }
}

fn ask_request(
    policy: &dyn Policy,
    occasion: &Occasion<'_>,
    llm_request: &LlmRequest,
) -> Result<HookOutput, DialectError> {
    let (dialect, call, document) = dialect::made_request(llm_request)?;
    let before = dialect.read_request(&call, &document, Detail::Texts)?;
    let mut call = PolicyRequest {
        dialect,
        call,
        document,
        edited: false,
    };
    let model = call.call.model_name().to_owned();
    let occasion = Occasion {
        model: &model,
        ..*occasion
    };
    let mut output = policy.request(&occasion, &mut call)?;
    if call.edited {
        let after = call
            .dialect
            .read_request(&call.call, &call.document, Detail::Texts)?;
        let edit = difference(&before, &after);
        if !edit.is_empty() {
            let specific = &mut output.hook_specific_output;
            specific.insert("llm_request".to_owned(), Value::Object(edit));
        }
    }
    Ok(output)
}

/// `so_far` is what others made of the answer.
fn ask_answer(
    policy: &dyn Policy,
    occasion: &Occasion<'_>,
    event: &AfterModel,
    so_far: &HookOutput,
) -> Result<HookOutput, DialectError> {
    let Some(mut looking) = policy.answer(occasion) else {
        return Ok(HookOutput::default());
    };
    let mut document = ResponseDocument::made(&event.llm_response)?;
    let edit = so_far.specific("llm_response");
    if let Some(edit) = edit.and_then(ResponseMutation::read) {
        document.write(&edit)?;
    }
    let before = document.to_bytes();
    let mut output = looking.chunk(&mut document, ChunkPosition::Last)?;
    if document.to_bytes() != before {
        // A struct of texts and numbers always becomes JSON.
        let llm_response = serde_json::to_value(document.read()?).unwrap_or_default();
        let specific = &mut output.hook_specific_output;
        specific.insert("llm_response".to_owned(), llm_response);
    }
    Ok(output)
}

/// The fields of the stable form that are not the same.
fn difference(before: &LlmRequest, after: &LlmRequest) -> Map<String, Value> {
    let fields = |it: &LlmRequest| match serde_json::to_value(it) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let before = fields(before);
    let after = fields(after).into_iter();
    after
        .filter(|(key, value)| before.get(key) != Some(value))
        .collect()
}

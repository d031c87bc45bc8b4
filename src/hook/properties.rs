//! What holds for all hooks, whatever they say: proven on the real engine, with
//! hooks that are played in this process.

use std::path::PathBuf;

use prometheus_client::metrics::gauge::Gauge;
use proptest::{prelude::*, sample::select, test_runner::TestRunner};
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::TaskTracker;

use super::{table::Group, transport_reuse::Definition, *};
use crate::{
    config::{
        FailureMode, HookMode, HookSettings, HookSpec, HookView, Matcher, Place, SystemMessages,
    },
    event::EventVisitor,
    model::ToolConfig,
    protocol::{Ended, Exit},
    transport::{BoxFuture, HookCall, ProcessSlots, Transport, TransportDeps, TransportError},
};

/// What a played hook does, and what the operator says of it.
#[derive(Debug, Clone)]
struct Part {
    protocol: &'static str,
    on_failure: FailureMode,
    mode: HookMode,
    /// How it ends; if at all.
    ended: Option<Ended>,
}

impl Transport for Part {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<Answer, TransportError>> {
        Box::pin(async move {
            let ended = self.ended.as_ref().ok_or(TransportError::TooMuchOutput)?;
            Ok(call.protocol.read(ended, call.event))
        })
    }
}

/// Fields that hooks write, good and bad ones.
fn fields() -> impl Strategy<Value = Map<String, Value>> {
    let specific = optional(&[
        ("permissionDecision", &["allow", "ask", "deny"]),
        (
            "llm_request",
            &[
                r#"{"model":"other","config":{"temperature":0}}"#,
                r#"{"messages":[{"role":"user","content":"new"}]}"#,
                r#"{"contents":[{"role":"user","parts":[{"text":"new"}]}],"systemInstruction":{"parts":["s"]}}"#,
                "5",
            ],
        ),
        (
            "llm_response",
            &[
                r#"{"text":"hello"}"#,
                r#"{"candidates":[{"content":{"role":"model","parts":["a","b"]}}]}"#,
                r#"{"candidates":[{"content":{"role":"model","parts":[]},"finishReason":"STOP"}]}"#,
                r#"{"candidates":5}"#,
            ],
        ),
        (
            "toolConfig",
            &[
                r#"{"mode":"AUTO"}"#,
                r#"{"mode":"ANY","allowedFunctionNames":["a"]}"#,
                r#"{"mode":"AUTO","allowedFunctionNames":["b","c"]}"#,
                r#"{"allowedFunctionNames":[]}"#,
                r#"{"mode":"NONE","allowedFunctionNames":["a"]}"#,
                r#"{"functionCallingConfig":{"allowedFunctionNames":["d"]}}"#,
                r#"{"mode":"SOME"}"#,
            ],
        ),
        ("tool_input", &[r#"{"x":1}"#, "{}", "[]"]),
        ("additionalContext", &["more", "<b>", "7"]),
        ("tailToolCallRequest", &["{}"]),
    ]);
    let general = optional(&[
        (
            "decision",
            &["allow", "approve", "ask", "deny", "block", "DENY", "5"],
        ),
        ("continue", &["true", "false", "null", r#""false""#]),
        ("reason", &["because", "", "5"]),
        ("stopReason", &["enough", " "]),
        ("systemMessage", &["look", "5"]),
        ("suppressOutput", &["true", "false"]),
        ("clearContext", &["true", "false"]),
    ]);
    (general, specific).prop_map(|(mut fields, specific)| {
        fields.insert("hookSpecificOutput".to_owned(), specific.into());
        fields
    })
}

/// Some of the keys, each with one of its values: JSON, or else text.
fn optional(
    choices: &'static [(&'static str, &'static [&'static str])],
) -> impl Strategy<Value = Map<String, Value>> {
    let choices: Vec<_> = choices
        .iter()
        .map(|(key, values)| {
            let value = |it: &str| serde_json::from_str(it).unwrap_or_else(|_| json!(it));
            let entry = select(*values).prop_map(move |it| ((*key).to_owned(), value(it)));
            prop::option::weighted(0.4, entry)
        })
        .collect();
    choices.prop_map(|entries| entries.into_iter().flatten().collect())
}

fn ended() -> impl Strategy<Value = Ended> {
    let exit = prop_oneof![
        6 => Just(Exit::Code(0)),
        2 => Just(Exit::Code(2)),
        1 => Just(Exit::Code(1)),
        1 => Just(Exit::Signal(9)),
    ];
    let stdout = prop_oneof![
        8 => fields().prop_map(|it| Value::Object(it).to_string()),
        1 => select(vec!["", "deny", "[]", "\"{\\\"decision\\\":\\\"deny\\\"}\""]).prop_map(str::to_owned),
    ];
    let stderr = select(vec!["", "no", r#"{"reason":"no"}"#]);
    (exit, stdout, stderr).prop_map(|(exit, stdout, stderr)| Ended {
        exit,
        stdout: stdout.into_bytes(),
        stderr: stderr.into(),
    })
}

fn part() -> impl Strategy<Value = Part> {
    let protocol = select(protocol::names());
    let on_failure = select(vec![FailureMode::Open, FailureMode::Closed]);
    let mode = prop_oneof![4 => Just(HookMode::Enforce), 1 => Just(HookMode::Observe)];
    let ended = prop::option::weighted(0.9, ended());
    (protocol, on_failure, mode, ended).prop_map(|(protocol, on_failure, mode, ended)| Part {
        protocol,
        on_failure,
        mode,
        ended,
    })
}

fn hook(number: usize, part: &Part, toolbox: &TransportDeps) -> Arc<Hook> {
    let name = format!("hook-{number}");
    let spec = HookSpec {
        name: Some(name.clone()),
        kind: "played".to_owned(),
        protocol: part.protocol.to_owned(),
        timeout: Duration::from_secs(1),
        on_failure: part.on_failure,
        mode: part.mode,
        when: None,
        sees: HookView::StableForm,
        system_messages: SystemMessages::Hidden,
        settings: HookSettings(Map::new()),
        place: Place {
            file: PathBuf::new(),
            line: 1,
            column: 1,
        },
    };
    Arc::new(Hook {
        identity: (name.clone(), name.clone()),
        name,
        definition: Definition::new(EventName::BeforeModel, &spec, toolbox),
        protocol: protocol::find(part.protocol).unwrap(),
        transport: Arc::new(part.clone()),
        kind: spec.kind,
        timeout: spec.timeout,
        on_failure: spec.on_failure,
        mode: spec.mode,
        when: None,
        sees: spec.sees,
        system_messages: spec.system_messages,
    })
}

/// Whether hooks run one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Parallel,
    Sequential,
}

/// What hooks come to on one event.
#[derive(Debug, PartialEq)]
struct Outcome {
    action: Action,
    /// What tools the answer may call, if hooks say.
    tools: Option<ToolConfig>,
}

/// Lets hooks play on every event.
struct Stage {
    runtime: Runtime,
    toolbox: TransportDeps,
    metrics: Arc<Metrics>,
}

impl Stage {
    fn new() -> Self {
        let places = Arc::new(ProcessSlots::default());
        let directory = PathBuf::from("/");
        let toolbox =
            TransportDeps::new(TaskTracker::new(), places, Gauge::default(), 1, directory);
        Self {
            runtime: Builder::new_current_thread().enable_time().build().unwrap(),
            toolbox: toolbox.unwrap(),
            metrics: Arc::default(),
        }
    }

    /// The outcome on each event, in order.
    fn play(&self, parts: &[Part], order: Order) -> Vec<Outcome> {
        let hooks = parts.iter().enumerate();
        let hooks: Vec<_> = hooks
            .map(|(number, part)| hook(number, part, &self.toolbox))
            .collect();
        let events = EventName::ALL.iter();
        let outcomes = events.map(|event| {
            let group = Group {
                matcher: Matcher::all(),
                sequential: order == Order::Sequential,
                hooks: hooks.clone(),
            };
            let table = HookTable::of(*event, group);
            let engine = Engine::new(table, Arc::clone(&self.metrics), Arc::default());
            let stage = self;
            event.visit(Playing { stage, engine })
        });
        outcomes.collect()
    }
}

struct Playing<'a> {
    stage: &'a Stage,
    engine: Engine,
}

impl EventVisitor for Playing<'_> {
    type Output = Outcome;

    fn visit<E: EventKind>(self) -> Outcome {
        let event: E = serde_json::from_value(json!({
            "llm_request": { "model": "m", "messages": [{ "role": "user", "content": "hi" }] },
            "llm_response": { "text": "hi", "candidates": [{ "content": { "parts": ["hi"] } }] },
            "tool_name": "t", "tool_input": { "own": 0 }, "tool_response": { "llmContent": "r" },
            "prompt": "p", "prompt_response": "r", "stop_hook_active": false,
            "source": "startup", "reason": "exit", "trigger": "auto",
            "notification_type": "n", "message": "m", "details": {},
        }))
        .unwrap();
        let context = Context::default();
        let fired = self.engine.fire(&context, event, Origin::Reported);
        let fired = self.stage.runtime.block_on(fired);
        let tools = fired.folded.specific("toolConfig");
        Outcome {
            action: fired.verdict.action(),
            tools: tools.and_then(ToolConfig::read),
        }
    }
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec(part(), 0..5)
}

fn prove<S: Strategy>(cases: &S, law: impl Fn(&Stage, S::Value) -> Result<(), TestCaseError>) {
    let stage = Stage::new();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let outcome = TestRunner::new(config).run(cases, |case| law(&stage, case));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn one_more_hook_never_loosens_a_verdict() {
    let order = select(vec![Order::Parallel, Order::Sequential]);
    let case = (parts(), part(), any::<prop::sample::Index>(), order);

    prove(&case, |stage, (mut parts, more, at, order)| {
        let before = stage.play(&parts, order);
        parts.insert(at.index(parts.len() + 1), more);
        let after = stage.play(&parts, order);

        for (before, after) in before.iter().zip(&after) {
            prop_assert!(before.action <= after.action, "{before:?} {after:?}");
            let mode = |it: &Outcome| it.tools.as_ref().and_then(|it| it.mode);
            prop_assert!(mode(before) <= mode(after), "{before:?} {after:?}");
        }
        Ok(())
    });
}

#[test]
fn the_order_of_hooks_that_run_together_makes_no_difference() {
    let shuffled = parts().prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle()));

    prove(&shuffled, |stage, (parts, shuffled)| {
        let one = stage.play(&parts, Order::Parallel);
        prop_assert_eq!(one, stage.play(&shuffled, Order::Parallel));
        Ok(())
    });
}

#[test]
fn a_hook_that_observes_makes_no_difference() {
    let order = select(vec![Order::Parallel, Order::Sequential]);
    let case = (parts(), part(), any::<prop::sample::Index>(), order);

    prove(&case, |stage, (mut parts, mut more, at, order)| {
        let before = stage.play(&parts, order);
        more.mode = HookMode::Observe;
        parts.insert(at.index(parts.len() + 1), more);
        prop_assert_eq!(before, stage.play(&parts, order));
        Ok(())
    });
}

#[test]
fn a_failed_hook_is_no_hook_or_a_no() {
    let case = (parts(), select(protocol::names()), any::<bool>());

    prove(&case, |stage, (parts, protocol, says)| {
        let failed = |on_failure| Part {
            protocol,
            on_failure,
            mode: HookMode::Enforce,
            ended: says.then(|| Ended {
                exit: Exit::Code(1),
                stdout: br#"{"continue":false,"decision":"deny"}"#.to_vec(),
                stderr: Vec::new(),
            }),
        };
        let refusing = Part {
            ended: Some(Ended {
                exit: Exit::Code(2),
                stdout: Vec::new(),
                stderr: Vec::new(),
            }),
            ..failed(FailureMode::Open)
        };
        let with = |part: Part| {
            let all = [parts.clone(), vec![part]].concat();
            stage.play(&all, Order::Parallel)
        };

        let open = with(failed(FailureMode::Open));
        prop_assert_eq!(open, stage.play(&parts, Order::Parallel));
        prop_assert_eq!(with(failed(FailureMode::Closed)), with(refusing));
        Ok(())
    });
}

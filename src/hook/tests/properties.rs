//! Properties of verdicts that hold for all hook outputs, checked on the real engine
//! with simulated hooks.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use futures_util::future::BoxFuture;
use prometheus_client::metrics::gauge::Gauge;
use proptest::{prelude::*, sample::select, test_runner::TestRunner};
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::TaskTracker;

use crate::{
    config::{
        FailureMode, HookMode, HookSettings, HookSpec, Matcher, ProofCases, SourceSpan,
        SystemMessages,
    },
    event::{
        Action, AgentScope, Context, EventKind, EventName, EventOrigin, EventVisitor, HookResult,
        RuleId,
    },
    hook::{
        Engine, EventScope, Hook, HookExecution, HookTable, table::MatcherGroup,
        tool_matcher::ToolMatcher,
    },
    model::ToolConfig,
    observe::recorder::{ExchangeSummary, Recorder},
    protocol::{self, ProcessExit, ProcessOutput, ToolFamily},
    transport::{HookCall, ProcessSlots, Transport, TransportDeps, TransportError},
};

/// A simulated hook and its settings.
#[derive(Debug, Clone)]
struct SimulatedHook {
    protocol: &'static str,
    on_failure: FailureMode,
    mode: HookMode,
    /// Result of its process; `None` if the transport fails.
    ended: Option<ProcessOutput>,
}

impl Transport for SimulatedHook {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<HookResult, TransportError>> {
        Box::pin(async move {
            let ended = self.ended.as_ref().ok_or(TransportError::OutputLimit)?;
            Ok(call.protocol.read(ended, call.event))
        })
    }
}

/// Valid and invalid fields of hook outputs.
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

/// Some of the keys, each with one of its values: JSON if it parses, else a string.
fn optional(
    choices: &'static [(&'static str, &'static [&'static str])],
) -> impl Strategy<Value = Map<String, Value>> {
    let choices: Vec<_> = choices
        .iter()
        .map(|(key, values)| {
            let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
            let entry = select(*values).prop_map(move |text| ((*key).to_owned(), value(text)));
            prop::option::weighted(0.4, entry)
        })
        .collect();
    choices.prop_map(|entries| entries.into_iter().flatten().collect())
}

fn ended() -> impl Strategy<Value = ProcessOutput> {
    let exit = prop_oneof![
        6 => Just(ProcessExit::Code(0)),
        2 => Just(ProcessExit::Code(2)),
        1 => Just(ProcessExit::Code(1)),
        1 => Just(ProcessExit::Signal(9)),
    ];
    let stdout = prop_oneof![
        8 => fields().prop_map(|fields| Value::Object(fields).to_string()),
        1 => select(vec!["", "deny", "[]", "\"{\\\"decision\\\":\\\"deny\\\"}\""]).prop_map(str::to_owned),
    ];
    let stderr = select(vec!["", "no", r#"{"reason":"no"}"#]);
    (exit, stdout, stderr).prop_map(|(exit, stdout, stderr)| ProcessOutput {
        exit,
        stdout: stdout.into_bytes(),
        stderr: stderr.into(),
    })
}

fn protocols() -> Vec<&'static str> {
    protocol::ALL.iter().map(|known| known.name()).collect()
}

fn simulated_hook() -> impl Strategy<Value = SimulatedHook> {
    let protocol = select(protocols());
    let on_failure = select(vec![FailureMode::Open, FailureMode::Closed]);
    let mode = prop_oneof![4 => Just(HookMode::Enforce), 1 => Just(HookMode::Observe)];
    let ended = prop::option::weighted(0.9, ended());
    (protocol, on_failure, mode, ended).prop_map(|(protocol, on_failure, mode, ended)| {
        SimulatedHook {
            protocol,
            on_failure,
            mode,
            ended,
        }
    })
}

fn build_hook(number: usize, simulated: &SimulatedHook, deps: &TransportDeps) -> Arc<Hook> {
    let name = format!("hook-{number}");
    let spec = HookSpec {
        name: Some(name.clone()),
        kind: "simulated".to_owned(),
        protocol: simulated.protocol.to_owned(),
        agents: AgentScope::All,
        timeout: Duration::from_secs(1),
        on_failure: simulated.on_failure,
        mode: simulated.mode,
        when: None,
        document: false,
        system_messages: SystemMessages::Hidden,
        context: false,
        shadow: false,
        settings: HookSettings(Map::new()),
        proof: ProofCases::default(),
        span: SourceSpan {
            file: PathBuf::new(),
            line: 1,
            column: 1,
        },
    };
    Arc::new(Hook {
        rule: RuleId::UNKNOWN,
        name,
        spec,
        event: EventName::BeforeModel,
        directory: deps.directory.clone(),
        output_limit: deps.output_limit,
        is_locked: false,
        is_unproven: AtomicBool::new(false),
        is_ignored_part_logged: AtomicBool::new(false),
        matcher: tool_matcher(),
        protocol: protocol::find(simulated.protocol).unwrap(),
        transport: Arc::new(simulated.clone()),
        when: None,
    })
}

fn tool_matcher() -> ToolMatcher {
    ToolMatcher::new(Matcher::default(), ToolFamily::Gemini, Arc::default())
}

/// Execution order of hooks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Parallel,
    Sequential,
}

/// Result of all hooks on one event.
#[derive(Debug, PartialEq)]
struct Outcome {
    action: Action,
    /// Tools that the response may call, if a hook restricts them.
    tools: Option<ToolConfig>,
}

/// Runs simulated hooks on every event.
struct Simulator {
    runtime: Runtime,
    deps: TransportDeps,
}

impl Simulator {
    fn new() -> Self {
        let places = Arc::new(ProcessSlots::default());
        let directory = PathBuf::from("/");
        let deps = TransportDeps::new(TaskTracker::new(), places, Gauge::default(), 1, directory);
        Self {
            runtime: Builder::new_current_thread().enable_time().build().unwrap(),
            deps,
        }
    }

    /// Returns the outcome on each event, in order.
    fn run(&self, hooks: &[SimulatedHook], order: Order) -> Vec<Outcome> {
        let hooks = hooks.iter().enumerate();
        let hooks: Vec<_> = hooks
            .map(|(number, hook)| build_hook(number, hook, &self.deps))
            .collect();
        let events = EventName::ALL.iter();
        let outcomes = events.map(|event| {
            let group = MatcherGroup {
                matcher: tool_matcher(),
                sequential: order == Order::Sequential,
                hooks: hooks.clone(),
            };
            let table = HookTable::with_group(*event, group);
            let engine = Engine::new(table, Arc::default(), HookExecution::Executed);
            event.visit(EventRun {
                runtime: &self.runtime,
                engine,
            })
        });
        outcomes.collect()
    }
}

struct EventRun<'a> {
    runtime: &'a Runtime,
    engine: Engine,
}

impl EventVisitor for EventRun<'_> {
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
        let recorder = Recorder::without_sinks(ExchangeSummary::from_context(&context));
        let scope = EventScope::new(&context, &recorder);
        let outcome = self.engine.fire(scope, event, EventOrigin::Reported);
        let outcome = self.runtime.block_on(outcome);
        let tools = outcome.output.specific("toolConfig");
        Outcome {
            action: E::action(&outcome.output),
            tools: tools.and_then(ToolConfig::read),
        }
    }
}

fn simulated_hooks() -> impl Strategy<Value = Vec<SimulatedHook>> {
    prop::collection::vec(simulated_hook(), 0..5)
}

fn check<S: Strategy>(
    cases: &S,
    property: impl Fn(&Simulator, S::Value) -> Result<(), TestCaseError>,
) {
    let simulator = Simulator::new();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let outcome = TestRunner::new(config).run(cases, |case| property(&simulator, case));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn one_more_hook_never_loosens_a_verdict() {
    let order = select(vec![Order::Parallel, Order::Sequential]);
    let case = (
        simulated_hooks(),
        simulated_hook(),
        any::<prop::sample::Index>(),
        order,
    );

    check(&case, |simulator, (mut hooks, more, at, order)| {
        let before = simulator.run(&hooks, order);
        hooks.insert(at.index(hooks.len() + 1), more);
        let after = simulator.run(&hooks, order);

        for (before, after) in before.iter().zip(&after) {
            prop_assert!(before.action <= after.action, "{before:?} {after:?}");
            let mode = |outcome: &Outcome| outcome.tools.as_ref().and_then(|tools| tools.mode);
            prop_assert!(mode(before) <= mode(after), "{before:?} {after:?}");
        }
        Ok(())
    });
}

#[test]
fn the_order_of_parallel_hooks_makes_no_difference() {
    let shuffled =
        simulated_hooks().prop_flat_map(|hooks| (Just(hooks.clone()), Just(hooks).prop_shuffle()));

    check(&shuffled, |simulator, (hooks, shuffled)| {
        let one = simulator.run(&hooks, Order::Parallel);
        prop_assert_eq!(one, simulator.run(&shuffled, Order::Parallel));
        Ok(())
    });
}

#[test]
fn an_observing_hook_makes_no_difference() {
    let order = select(vec![Order::Parallel, Order::Sequential]);
    let case = (
        simulated_hooks(),
        simulated_hook(),
        any::<prop::sample::Index>(),
        order,
    );

    check(&case, |simulator, (mut hooks, mut more, at, order)| {
        let before = simulator.run(&hooks, order);
        more.mode = HookMode::Observe;
        hooks.insert(at.index(hooks.len() + 1), more);
        prop_assert_eq!(before, simulator.run(&hooks, order));
        Ok(())
    });
}

#[test]
fn a_failed_hook_has_no_effect_or_denies() {
    let case = (simulated_hooks(), select(protocols()), any::<bool>());

    check(&case, |simulator, (hooks, protocol, exits)| {
        let failed = |on_failure| SimulatedHook {
            protocol,
            on_failure,
            mode: HookMode::Enforce,
            ended: exits.then(|| ProcessOutput {
                exit: ProcessExit::Code(1),
                stdout: br#"{"continue":false,"decision":"deny"}"#.to_vec(),
                stderr: Vec::new(),
            }),
        };
        let denying = SimulatedHook {
            // In the others, a denial of a tool that has run may hide nothing.
            protocol: "gemini",
            ended: Some(ProcessOutput {
                exit: ProcessExit::Code(0),
                stdout: br#"{"decision":"deny",
                    "hookSpecificOutput":{"toolConfig":{"mode":"NONE"}}}"#
                    .to_vec(),
                stderr: Vec::new(),
            }),
            ..failed(FailureMode::Open)
        };
        let with = |hook: SimulatedHook| {
            let all = [hooks.clone(), vec![hook]].concat();
            simulator.run(&all, Order::Parallel)
        };

        let open = with(failed(FailureMode::Open));
        prop_assert_eq!(open, simulator.run(&hooks, Order::Parallel));
        let mut refused = with(denying);
        // Another answer would not repair the hook.
        for (event, outcome) in EventName::ALL.iter().zip(&mut refused) {
            if *event == EventName::AfterAgent && outcome.action == Action::Deny {
                outcome.action = Action::Stop;
            }
        }
        prop_assert_eq!(with(failed(FailureMode::Closed)), refused);
        Ok(())
    });
}

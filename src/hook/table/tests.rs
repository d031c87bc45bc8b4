use prometheus_client::metrics::gauge::Gauge;
use tokio_util::task::TaskTracker;

use super::*;
use crate::{hook::known, transport::ProcessSlots};

impl HookTable {
    /// A table with one group.
    pub(in crate::hook) fn of(event: EventName, group: Group) -> Self {
        Self {
            groups: BTreeMap::from([(event, vec![group])]),
            ..Self::default()
        }
    }
}

fn config(hooks: &str) -> Config {
    let text = format!("upstreams: {{ gemini: {{ url: http://a }} }}\n{hooks}");
    Config::parse(&text, "hookgate.yaml".as_ref(), &known()).unwrap()
}

fn build(config: &Config, old: Option<&HookTable>) -> Result<HookTable, Vec<Problem>> {
    let (tasks, places) = (TaskTracker::new(), Arc::new(ProcessSlots::default()));
    let directory = config.hook_directory.clone();
    let limit = config.limits.hook_output;
    let toolbox = TransportDeps::new(tasks, places, Gauge::default(), limit, directory).unwrap();
    HookTable::build(config, &toolbox, old)
}

const WORKERS: &str = "\
limits: { hook_processes: 4 }
hooks:
  BeforeModel:
    - hooks:
        - { type: worker, name: a, command: ./a }
        - { type: worker, name: b, command: ./b, instances: 2 }
";

#[test]
fn workers_leave_a_place_for_other_hooks() {
    let good = config(WORKERS);
    let more = WORKERS.replace("instances: 2", "instances: 3");
    let most = config(&more.replace("./a }", "./a }\n        - { command: ./c }"));

    assert_eq!(build(&good, None).unwrap().places(), 1);
    let problems = build(&most, None).unwrap_err();
    let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert_eq!(
        problems,
        [
            "hookgate.yaml:8:11: hook `b`: `instances` of all workers together must be fewer than `limits.hook_processes`"
        ]
    );
    // What goes on keeps its places.
    let old = build(&good, None).unwrap();
    assert_eq!(build(&good, Some(&old)).unwrap().places(), 1);
    assert!(build(&most, Some(&old)).is_err());
}

/// Whether the first hook of a table goes on in another one.
#[track_caller]
fn check_goes_on(expected: bool, other: &str) {
    let old = build(&config(WORKERS), None).unwrap();
    let new = build(&config(other), Some(&old)).unwrap();
    let transport = &old.hooks().next().unwrap().1.transport;
    let goes_on = new
        .hooks()
        .any(|it| Arc::ptr_eq(&it.1.transport, transport));
    assert_eq!(goes_on, expected, "{other}");
}

#[test]
fn a_transport_goes_on_as_long_as_its_definition_is_the_same() {
    check_goes_on(true, WORKERS);
    for (what, other) in [
        ("hook_processes: 4", "hook_processes: 5"),
        (
            "    - hooks",
            "    - matcher: x\n      sequential: true\n      hooks",
        ),
        (
            "./a }",
            "./a, timeout: 5, on_failure: closed, mode: observe, document: true }",
        ),
        (
            "        - { type: worker, name: b, command: ./b, instances: 2 }\n",
            "",
        ),
    ] {
        check_goes_on(true, &WORKERS.replace(what, other));
    }
    for (what, other) in [
        ("./a }", "./aa }"),
        ("./a }", "./a, env: { A: a } }"),
        ("./a }", "./a, instances: 1 }"),
        ("name: a", "name: c"),
        ("hook_processes: 4", "hook_output: 1KiB"),
        ("BeforeModel", "AfterModel"),
        ("hooks:\n  B", "hook_directory: src\nhooks:\n  B"),
        ("worker, name: a", "command, name: a"),
    ] {
        check_goes_on(false, &WORKERS.replace(what, other));
    }
}

#[test]
fn two_hooks_never_share_what_one_had() {
    let one = "hooks: { BeforeModel: [{ hooks: [{ type: worker, name: a, command: ./a }] }] }";
    let two = one.replace("./a }", "./a }, { type: worker, name: a, command: ./a }");
    let old = build(&config(one), None).unwrap();

    let new = build(&config(&two), Some(&old)).unwrap();

    let hooks: Vec<_> = new.hooks().map(|it| &it.1.transport).collect();
    assert!(!Arc::ptr_eq(hooks[0], hooks[1]));
}

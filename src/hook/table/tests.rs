use prometheus_client::metrics::gauge::Gauge;
use tokio_util::task::TaskTracker;

use super::*;
use crate::{
    config::{BundleCapability, BundleTrust},
    hook::registry,
    transport::ProcessSlots,
};

impl HookTable {
    /// A table with one group.
    pub(in crate::hook) fn with_group(event: EventName, group: MatcherGroup) -> Self {
        Self {
            groups: BTreeMap::from([(event, vec![group])]),
            ..Self::default()
        }
    }

    /// The table of a config with these hooks.
    pub(in crate::hook) fn of_hooks(hooks: &str) -> Self {
        build(&config(hooks), None).unwrap()
    }

    /// The table of a config whose first group of hooks on `BeforeTool` is in a locked
    /// bundle.
    pub(in crate::hook) fn of_layers(hooks: &str) -> Self {
        let mut config = config(hooks);
        let layer = |name: &str| PolicyLayer {
            name: name.to_owned(),
            directory: PathBuf::from(name),
            digest: String::new(),
            bundle: None,
            trust: BundleTrust::Signed,
            allowed: BundleCapability::all(),
        };
        config.layers = vec![layer("org"), layer("team")];
        let groups = config.hooks.get_mut(&EventName::BeforeTool).unwrap();
        for (index, group) in groups.iter_mut().enumerate() {
            let folder = if index == 0 { "org" } else { "team" };
            for hook in &mut group.hooks {
                hook.span.file = PathBuf::from(folder).join("hookgate.yaml");
            }
        }
        build(&config, None).unwrap()
    }
}

fn config(hooks: &str) -> Config {
    let text = format!("upstreams: {{ gemini: {{ url: http://a }} }}\n{hooks}");
    Config::parse(&text, "hookgate.yaml".as_ref(), &registry()).unwrap()
}

fn build(config: &Config, old: Option<&HookTable>) -> Result<HookTable, Vec<Problem>> {
    let (tasks, places) = (TaskTracker::new(), Arc::new(ProcessSlots::default()));
    let directory = config.hook_directory.clone();
    let limit = config.limits.hook_output;
    let toolbox = TransportDeps::new(tasks, places, Gauge::default(), limit, directory);
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
fn workers_must_leave_a_free_slot() {
    let good = config(WORKERS);
    let more = WORKERS.replace("instances: 2", "instances: 3");
    let most = config(&more.replace("./a }", "./a }\n        - { command: ./c }"));

    assert_eq!(build(&good, None).unwrap().free_slots(), 1);
    let problems = build(&most, None).unwrap_err();
    let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert_eq!(
        problems,
        [
            "hookgate.yaml:8:11: hook `b`: `instances` of all workers together must be fewer than `limits.hook_processes`"
        ]
    );
    // A reused transport keeps its slots.
    let old = build(&good, None).unwrap();
    assert_eq!(build(&good, Some(&old)).unwrap().free_slots(), 1);
    assert!(build(&most, Some(&old)).is_err());
}

#[test]
fn two_tables_in_use_at_once_hold_the_slots_of_both() {
    let current = build(&config(WORKERS), None).unwrap();
    let other = WORKERS.replace("name: b", "name: c").replace('4', "40");
    let other = build(&config(&other), Some(&current)).unwrap();

    assert_eq!(current.free_slots_beside(&current), 1);
    // The first worker is that of both.
    assert_eq!(other.free_slots_beside(&current), 40 - 3 - 2);
    assert_eq!(current.free_slots_beside(&other), 0);
}

/// Checks whether another table reuses the transport of the first hook.
#[track_caller]
fn check_reuse(expected: bool, other: &str) {
    let old = build(&config(WORKERS), None).unwrap();
    let new = build(&config(other), Some(&old)).unwrap();
    let transport = &old.hooks().next().unwrap().transport;
    let reused = new
        .hooks()
        .any(|hook| Arc::ptr_eq(&hook.transport, transport));
    assert_eq!(reused, expected, "{other}");
}

#[test]
fn a_transport_is_reused_while_its_definition_is_unchanged() {
    check_reuse(true, WORKERS);
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
        check_reuse(true, &WORKERS.replace(what, other));
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
        check_reuse(false, &WORKERS.replace(what, other));
    }
}

#[test]
fn two_hooks_never_reuse_one_transport() {
    let one = "hooks: { BeforeModel: [{ hooks: [{ type: worker, name: a, command: ./a }] }] }";
    let two = one.replace("./a }", "./a }, { type: worker, name: a, command: ./a }");
    let old = build(&config(one), None).unwrap();

    let new = build(&config(&two), Some(&old)).unwrap();

    let hooks: Vec<_> = new.hooks().map(|hook| &hook.transport).collect();
    assert!(!Arc::ptr_eq(hooks[0], hooks[1]));
}

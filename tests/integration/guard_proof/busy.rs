//! Proofs while calls use all hook processes, or the process of a worker.

use std::{fs, pin::pin};

use futures_util::future::join_all;
use serde_json::json;

use super::{CASES, GUARD, ProofGateway};
use crate::harness::{TEST_TIMEOUT, eventually};

/// A worker that denies `rm -rf`. A call with `wait` takes half a second.
const SLOW_WORKER: &str = r#"
while IFS= read -r line; do
    id=${line#*'"id":"'}; id=${id%%'"'*}
    output='{}'
    case $line in
        *'rm -rf'*) output='{"decision":"deny"}';;
        *'"command":"wait"'*) sleep 0.5;;
    esac
    printf '{"id":"%s","output":%s}\n' "$id" "$output"
done
"#;

#[tokio::test]
async fn a_guard_is_proven_while_slow_hooks_use_all_processes() {
    let config = format!(
        "limits: {{ hook_processes: 2 }}\nproof: {{ every: 1h, timeout: 5s }}\n\
         hooks:\n  BeforeTool:\n    - matcher: ^slow$\n      \
         hooks: [{{ name: slow, command: 'echo >> slow; sleep 30' }}]\n    \
         - matcher: ^run_shell_command$\n      \
         hooks: [{{ name: shell, command: bash guard.sh, on_failure: closed, {CASES} }}]\n"
    );
    let gateway = ProofGateway::start(&config, &[("guard.sh", GUARD)]).await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "slow", "tool_input": {} });
    let started = || {
        let text = fs::read_to_string(gateway.folder.path().join("slow"));
        text.unwrap_or_default().lines().count()
    };

    let calls = join_all((0..4).map(|_| gateway.agent.report(&event, "")));
    let reload = async {
        eventually("both slots are in use", TEST_TIMEOUT, || started() == 2).await;
        gateway.write_config(&config.replace("every: 1h", "every: 2h"));
        gateway.operator.post("/reload", "").await
    };
    let reloaded = tokio::select! {
        _ = calls => panic!("a slow hook has ended"),
        reloaded = reload => reloaded,
    };

    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    assert_eq!(started(), 2, "other calls still wait for a slot");
}

#[tokio::test]
async fn proofs_that_time_out_have_at_most_eight_processes_beyond_the_limit() {
    let cases = (0..20).map(|number| {
        format!(
            "{{ tool_call: {{ name: run_shell_command, args: {{ command: rm -rf /{number} }} }} }}"
        )
    });
    let cases: Vec<String> = cases.collect();
    let slow = "limits: { hook_processes: 2 }\nhooks:\n  BeforeTool:\n    \
         - matcher: ^slow$\n      hooks: [{ name: slow, command: sleep 30 }]\n";
    // A process that ignores SIGTERM lives for two seconds more.
    let guarded = format!(
        "{slow}    - matcher: ^run_shell_command$\n      hooks: [{{ name: shell, \
         command: \"trap '' TERM; sleep 30\", timeout: 100, must_deny: [{}] }}]\n",
        cases.join(", ")
    );
    let gateway = ProofGateway::start(slow, &[]).await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "slow", "tool_input": {} });

    let calls = join_all((0..2).map(|_| gateway.agent.report(&event, "")));
    let reload = async {
        gateway.wait_for_metric("hookgate_hook_processes 2").await;
        gateway.write_config(&guarded);
        let mut reload = pin!(gateway.operator.post("/reload", ""));
        let mut max_processes = 0;
        loop {
            let processes = gateway.operator.metric("hookgate_hook_processes");
            tokio::select! {
                reloaded = &mut reload => return (reloaded, max_processes),
                processes = processes => max_processes = max_processes.max(processes),
            }
        }
    };
    let (reloaded, max_processes) = tokio::select! {
        _ = calls => panic!("a slow hook has ended"),
        result = reload => result,
    };

    assert_eq!(reloaded.status, 400, "{}", reloaded.text());
    assert!((3..=10).contains(&max_processes), "{max_processes}");
}

#[tokio::test]
async fn a_worker_is_proven_while_calls_wait_for_it() {
    let config = format!(
        "proof: {{ every: 500ms, timeout: 4s }}\nhooks:\n  BeforeTool:\n    - hooks:\n        \
         - {{ name: shell, type: worker, command: bash worker.sh, on_failure: closed, {CASES} }}\n"
    );
    let gateway = ProofGateway::start(&config, &[("worker.sh", SLOW_WORKER)]).await;
    let event = json!({
        "hook_event_name": "BeforeTool",
        "tool_name": "run_shell_command",
        "tool_input": { "command": "wait" },
    });

    let answers = join_all((0..16).map(|_| gateway.agent.report(&event, ""))).await;

    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    gateway.served.terminate();
    let (_, log) = gateway.served.ended(TEST_TIMEOUT);
    assert!(!log.contains("guard not proven"), "{log}");
}

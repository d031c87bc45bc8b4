//! Repeated proofs: a guard that stops working is unproven within one period, and proven again
//! once it works.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;

use super::{GUARD, ProofGateway, hook_config};
use crate::harness::{TEST_TIMEOUT, Upstream, eventually, processes, prompt, respond};

const FAILED: &str = "Hook shell failed: its last proof failed";

#[tokio::test]
async fn a_fail_closed_hook_denies_calls_while_its_interpreter_is_missing() {
    let config = hook_config(
        "BeforeTool",
        "command: guardsh guard.sh, on_failure: closed",
    );
    let gateway = ProofGateway::start(&config, &[("guard.sh", GUARD)]).await;
    gateway.wait_for_proof("shell", true).await;
    assert_eq!(gateway.report_call().await["decision"], Value::Null);
    let (installed, moved) = (
        gateway.folder.path().join("bin/guardsh"),
        gateway.folder.path().join("guardsh"),
    );

    fs::rename(&installed, &moved).unwrap();
    gateway.wait_for_proof("shell", false).await;

    let refused = gateway.report_call().await;
    assert_eq!(refused["decision"], "deny");
    assert_eq!(refused["reason"], FAILED);
    let ready = gateway.operator.get("/readyz").await;
    assert_eq!(
        (ready.status, ready.json()["status"].as_str().unwrap()),
        (200, "ok; guards not proven: shell")
    );
    let hooks = gateway.operator.get("/hooks").await.json();
    assert_eq!(hooks[0]["proof"]["proven"], false);
    let error = hooks[0]["proof"]["error"].as_str().unwrap();
    assert!(
        error.contains("must deny a call of `run_shell_command`, but failed: exit code 127"),
        "{error}"
    );

    fs::rename(&moved, &installed).unwrap();
    gateway.wait_for_proof("shell", true).await;

    assert_eq!(gateway.report_call().await["decision"], Value::Null);
    let ready = gateway.operator.get("/readyz").await;
    assert_eq!(ready.text(), r#"{"status":"ok"}"#);
    gateway.served.terminate();
    let (_, log) = gateway.served.ended(TEST_TIMEOUT);
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(
        (lines("guard not proven"), lines("guard proven again")),
        (1, 1),
        "{log}"
    );
    assert!(!log.contains("rm -rf"), "{log}");
}

#[tokio::test]
async fn a_fail_open_hook_allows_calls_while_its_script_is_empty() {
    let config = hook_config("BeforeTool", "command: bash guard.sh");
    let gateway = ProofGateway::start(&config, &[("guard.sh", GUARD)]).await;
    gateway.wait_for_proof("shell", true).await;

    gateway.write_file("guard.sh", "");
    gateway.wait_for_proof("shell", false).await;

    assert_eq!(gateway.report_call().await["decision"], Value::Null);
    gateway.write_file("guard.sh", GUARD);
    gateway.wait_for_proof("shell", true).await;
}

// The server runs beside the test, which waits for the gateway to start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_hook_that_starts_to_return_an_empty_object_becomes_unproven() {
    let is_empty = Arc::new(AtomicBool::new(false));
    let answers_empty = Arc::clone(&is_empty);
    let server = Upstream::with(move |asked| {
        let denies = asked.body.contains("rm -rf") && !answers_empty.load(Ordering::Relaxed);
        let output = if denies {
            r#"{"decision":"deny"}"#
        } else {
            "{}"
        };
        respond(200, "application/json", output.to_owned())
    })
    .await;
    let fields = format!(
        "type: http, url: \"http://{}/\", on_failure: closed",
        server.addr
    );
    let gateway = ProofGateway::start(&hook_config("BeforeTool", &fields), &[]).await;
    gateway.wait_for_proof("shell", true).await;

    is_empty.store(true, Ordering::Relaxed);
    gateway.wait_for_proof("shell", false).await;

    assert_eq!(gateway.report_call().await["reason"], FAILED);
    is_empty.store(false, Ordering::Relaxed);
    gateway.wait_for_proof("shell", true).await;
}

#[tokio::test]
async fn an_unproven_fail_closed_guard_keeps_requests_from_upstream() {
    let config = "\
denials: error
proof: { every: 200ms }
hooks:
  BeforeModel:
    - hooks:
        - { name: words, command: bash guard.sh, on_failure: closed, must_deny: [{ prompt: please rm -rf it }] }
";
    let gateway = ProofGateway::start(config, &[("guard.sh", GUARD)]).await;
    assert_eq!(
        gateway.agent.generate("m", &prompt("hello")).await.status,
        200
    );

    gateway.write_file("guard.sh", "");
    gateway.wait_for_proof("words", false).await;
    let asked = gateway.upstream.requests().len();
    let refused = gateway.agent.generate("m", &prompt("hello")).await;

    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(
        refused
            .text()
            .contains("Hook words failed: its last proof failed")
    );
    assert_eq!(gateway.upstream.requests().len(), asked);
}

#[tokio::test]
async fn a_hanging_proof_times_out_and_ends_at_shutdown() {
    let config = hook_config("BeforeTool", "command: bash guard.sh, on_failure: closed");
    let config = config.replacen("every: 200ms", "every: 200ms, timeout: 300ms", 1);
    let gateway = ProofGateway::start(&config, &[("guard.sh", GUARD)]).await;
    gateway.wait_for_proof("shell", true).await;

    gateway.write_file("guard.sh", "sleep 600 & wait");
    gateway.wait_for_proof("shell", false).await;

    let hooks = gateway.operator.get("/hooks").await.json();
    let error = hooks[0]["proof"]["error"].as_str().unwrap();
    assert!(error.contains("has no result after 300ms"), "{error}");
    let mark = gateway.served.mark.clone();
    // The gateway, bash and sleep, and those of the previous run, which are ending.
    assert!(processes(&mark).len() <= 5, "{:?}", processes(&mark));
    gateway.served.terminate();
    let (status, log) = gateway.served.ended(TEST_TIMEOUT);
    assert!(status.success(), "{log}");
    assert_eq!(processes(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_reload_ends_the_proof_of_the_previous_config() {
    let config = hook_config("BeforeTool", "command: bash guard.sh, timeout: 100s");
    let config = config.replacen("every: 200ms", "every: 200ms, timeout: 100s", 1);
    let gateway = ProofGateway::start(&config, &[("guard.sh", GUARD)]).await;
    gateway.write_file("guard.sh", "sleep 987 & wait");
    let mark = gateway.served.mark.clone();
    let is_hanging = || processes(&mark).len() >= 3;
    eventually("a proof hangs", TEST_TIMEOUT, is_hanging).await;

    gateway.write_config("");
    let reloaded = gateway.operator.post("/reload", "").await;

    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    let has_ended = || processes(&mark).len() == 1;
    eventually(
        "the processes have ended",
        Duration::from_secs(5),
        has_ended,
    )
    .await;
    let metrics = gateway.operator.get("/metrics").await;
    assert!(
        !metrics.text().contains("hookgate_guard_proven{"),
        "{}",
        metrics.text()
    );
}

#[tokio::test]
async fn each_period_runs_one_case_of_each_list_in_rotation() {
    let case = |command: &str| {
        format!("{{ tool_call: {{ name: run_shell_command, args: {{ command: {command} }} }} }}")
    };
    let config = format!(
        "proof: {{ every: 100ms }}\nhooks: {{ BeforeTool: [{{ hooks: [{{ name: shell, command: bash guard.sh, \
         must_deny: [{}, {}, {}], must_allow: [{}] }}] }}] }}\n",
        case("rm -rf a"),
        case("rm -rf b"),
        case("rm -rf c"),
        case("ls"),
    );
    let gateway = ProofGateway::start(&config, &[("guard.sh", GUARD)]).await;
    let commands_by_proof = || {
        let mut proofs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for input in gateway.runs() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let commands = proofs.entry(text(&input["timestamp"])).or_default();
            commands.push(text(&input["tool_input"]["command"]));
        }
        proofs
    };
    eventually("five proofs", TEST_TIMEOUT, || {
        commands_by_proof().len() >= 6
    })
    .await;

    let mut proofs = commands_by_proof();
    let last = proofs.keys().last().cloned().unwrap();
    // The last proof may still be running.
    proofs.remove(&last);
    let mut proofs = proofs.into_values();
    assert_eq!(proofs.next().unwrap().len(), 4);
    let denied: Vec<String> = proofs
        .map(|commands| {
            assert_eq!((commands.len(), commands[1].as_str()), (2, "ls"));
            commands[0].clone()
        })
        .collect();
    for command in ["rm -rf a", "rm -rf b", "rm -rf c"] {
        assert!(denied.contains(&command.to_owned()), "{denied:?}");
    }
}

#[tokio::test]
async fn a_worker_runs_all_of_its_proof_cases_in_one_process() {
    let worker = "\
import json, os, sys
with open('pids', 'a') as file: file.write(f'{os.getpid()}\\n')
for line in sys.stdin:
    call = json.loads(line)
    with open('runs', 'a') as file: file.write(json.dumps(call['input']) + '\\n')
    denied = 'rm -rf' in json.dumps(call['input']['tool_input'])
    output = {'decision': 'deny', 'reason': 'no'} if denied else {}
    print(json.dumps({'id': call['id'], 'output': output}), flush=True)
";
    let fields = "type: worker, command: python3 worker.py, on_failure: closed";
    let gateway =
        ProofGateway::start(&hook_config("BeforeTool", fields), &[("worker.py", worker)]).await;

    eventually("three proofs", TEST_TIMEOUT, || gateway.runs().len() >= 6).await;

    gateway.wait_for_proof("shell", true).await;
    let pids = fs::read_to_string(gateway.folder.path().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 1, "{pids}");
}

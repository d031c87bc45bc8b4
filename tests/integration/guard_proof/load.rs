//! Proofs at load time: a config whose guards fail their proofs is rejected.

use std::{fs, time::Instant};

use tempfile::TempDir;

use super::{CASES, GUARD, ProofGateway, hook_config};
use crate::harness::{
    ServerProcess, TEST_TIMEOUT, Upstream, processes, respond, run, serve_command,
};

/// Returns the stderr of `serve`, which must reject a config with these files.
fn rejection(config: &str, files: &[(&str, &str)]) -> String {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let config = format!("upstreams: {{ gemini: {{ url: \"http://127.0.0.1:9\" }} }}\n{config}");
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let arguments = [
        "serve",
        "--config",
        "hookgate.yaml",
        "--listen",
        "127.0.0.1:0",
    ];
    let arguments = [&arguments[..], &["--admin-listen", "127.0.0.1:0"]].concat();
    let (code, stdout, stderr) = run(&arguments, folder.path());
    assert_eq!((code, stdout.as_str()), (78, ""), "{stderr}");
    let check = run(&["check", "--prove", "hookgate.yaml"], folder.path());
    assert_eq!(check.0, 78, "{}", check.2);
    let proofs = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("hookgate.yaml"))
            .count()
    };
    assert_eq!(proofs(&check.2), proofs(&stderr), "{}\n{stderr}", check.2);
    stderr
}

#[test]
fn a_missing_interpreter_fails_the_proof() {
    for on_failure in ["open", "closed"] {
        let fields = format!("command: nosuchsh guard.sh, on_failure: {on_failure}");

        let stderr = rejection(&hook_config("BeforeTool", &fields), &[("guard.sh", GUARD)]);

        let deny = "hook `shell` on BeforeTool: must deny a call of `run_shell_command`, but failed: exit code 127";
        assert!(stderr.contains(deny), "{stderr}");
        assert!(stderr.contains("must allow a call"), "{stderr}");
    }
}

#[test]
fn a_failed_proof_of_an_empty_script_is_reported_with_its_position() {
    let config = hook_config("BeforeTool", "command: bash guard.sh");

    let stderr = rejection(&config, &[("guard.sh", "")]);

    let column = config.lines().last().unwrap().find("{ tool_call").unwrap() + 1;
    assert_eq!(
        stderr,
        format!(
            "hookgate.yaml:6:{column}: hook `shell` on BeforeTool: must deny a call of `run_shell_command`, but allowed it\n"
        )
    );
}

#[tokio::test]
async fn an_http_hook_that_returns_an_empty_object_fails_the_proof() {
    let server = Upstream::with(|_| respond(200, "application/json", "{}".to_owned())).await;
    let fields = format!("type: http, url: \"http://{}/\"", server.addr);

    let config = hook_config("BeforeTool", &fields);
    let stderr = tokio::task::spawn_blocking(move || rejection(&config, &[]))
        .await
        .unwrap();

    assert!(stderr.contains("but allowed it"), "{stderr}");
}

#[test]
fn a_matcher_that_does_not_match_fails_the_proof() {
    let config = format!(
        "hooks: {{ BeforeTool: [{{ matcher: ^shell$, hooks: [{{ name: shell, command: bash guard.sh, {CASES} }}] }}] }}\n"
    );

    let stderr = rejection(&config, &[("guard.sh", GUARD)]);

    let reason = "but did not run: its matcher does not match";
    assert!(stderr.contains(reason), "{stderr}");
}

#[test]
fn a_hook_on_the_wrong_event_fails_the_proof() {
    let stderr = rejection(
        &hook_config("AfterTool", "command: bash guard.sh"),
        &[("guard.sh", GUARD)],
    );

    let reason =
        "but did not run: it is on AfterTool, and the case fires AfterModel and BeforeTool";
    assert!(stderr.contains(reason), "{stderr}");
    let stderr = rejection(&hook_config("BeforeTol", "command: bash guard.sh"), &[]);
    assert!(stderr.contains("unknown event `BeforeTol`"), "{stderr}");
}

#[test]
fn a_disabled_hook_with_a_proof_is_rejected() {
    let guard = hook_config("BeforeTool", "command: bash guard.sh");
    for switch in ["disabled: [shell]", "enabled: false"] {
        let config = format!("hooksConfig: {{ {switch} }}\n{guard}");

        let stderr = rejection(&config, &[("guard.sh", GUARD)]);

        let reason = "hook `shell` on BeforeTool: has a proof, but is disabled at hookgate.yaml:2:";
        assert!(stderr.contains(reason), "{stderr}");
    }
}

#[test]
fn a_condition_that_is_false_fails_the_proof() {
    let rejection = |when: &str| {
        let fields = format!("command: bash guard.sh, when: '{when}'");
        rejection(&hook_config("BeforeTool", &fields), &[("guard.sh", GUARD)])
    };

    let constant = rejection("false");
    assert!(constant.contains("`when` is always false"), "{constant}");
    let dynamic = rejection("tool.name == \"shell\"");
    let reason = "but did not run: its `when` is false";
    assert!(dynamic.contains(reason), "{dynamic}");
}

#[test]
fn all_failed_proofs_are_reported_together() {
    let config = "\
policies:
  - { policy: model_allow, models: [a], must_deny: [{ model: a }] }
  - { policy: redact, detect: [email], must_mask: [{ prompt: hello }] }
hooks:
  BeforeModel:
    - hooks: [{ name: words, command: 'true', must_deny: [{ prompt: x }], must_allow: [{ prompt: y }] }]
";

    let stderr = rejection(config, &[]);

    let problems: Vec<&str> = stderr
        .lines()
        .filter(|line| line.starts_with("hookgate.yaml"))
        .collect();
    assert_eq!(
        problems,
        [
            "hookgate.yaml:3:53: policy `model_allow`: must deny model `a`, but allowed it",
            "hookgate.yaml:4:52: policy `redact`: must mask this prompt, but left it unchanged",
            "hookgate.yaml:7:59: hook `words` on BeforeModel: must deny this prompt, but allowed it",
        ]
    );
}

#[test]
fn a_hanging_hook_times_out_and_its_processes_are_killed() {
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://127.0.0.1:9\" }} }}\nproof: {{ timeout: 300ms }}\n\
         hooks: {{ BeforeTool: [{{ hooks: [{{ name: shell, command: \"trap '' TERM; sleep 600 & wait\", {CASES} }}] }}] }}\n"
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let started = Instant::now();

    let served = ServerProcess::start(serve_command(folder.path()));
    let mark = served.mark.clone();
    let (status, stderr) = served.ended(TEST_TIMEOUT);

    assert_eq!(status.code(), Some(78), "{stderr}");
    assert!(stderr.contains("but has no result after 300ms"), "{stderr}");
    assert!(started.elapsed() < TEST_TIMEOUT);
    assert_eq!(processes(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_reload_with_a_guard_that_fails_keeps_the_previous_config() {
    let config = hook_config("BeforeTool", "command: bash guard.sh, on_failure: closed");
    let gateway = ProofGateway::start(&config, &[("guard.sh", GUARD)]).await;
    let changes = [
        ("bash guard.sh", "nosuchsh guard.sh", "exit code 127"),
        ("bash guard.sh", "bash other.sh", "allowed it"),
        ("BeforeTool", "AfterTool", "it is on AfterTool"),
        ("- hooks:", "- matcher: x$\n      hooks:", "its matcher"),
        (
            "proof:",
            "hooksConfig: { disabled: [shell] }\nproof:",
            "disabled at",
        ),
        (
            "name: shell",
            "name: shell, when: 'prompt == \"\"'",
            "prompt",
        ),
        (
            "name: shell",
            "name: shell, when: 'tool.name == \"x\"'",
            "its `when`",
        ),
    ];
    gateway.write_file("other.sh", "");

    for (from, to, reason) in changes {
        gateway.write_config(&config.replacen(from, to, 1));
        let reloaded = gateway.operator.post("/reload", "").await;

        assert_eq!(reloaded.status, 400, "{to}: {}", reloaded.text());
        assert!(
            reloaded.text().contains("BAD_CONFIG"),
            "{}",
            reloaded.text()
        );
        assert!(
            reloaded.text().contains(reason),
            "{to}: {}",
            reloaded.text()
        );
        gateway.wait_for_proof("shell", true).await;
    }
    gateway.write_config(&config.replacen("every: 200ms", "every: 1h", 1));
    let reloaded = gateway.operator.post("/reload", "").await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
}

#[test]
fn check_warns_about_fail_closed_hooks_without_a_proof() {
    let folder = TempDir::new().unwrap();
    let config = "\
upstreams: { gemini: { url: https://example.org } }
hooks:
  BeforeTool:
    - hooks:
        - { name: unproven, command: 'true', on_failure: closed }
        - { name: observing, command: 'true', on_failure: closed, mode: observe, must_allow: [{ prompt: x }] }
";
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, stdout, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(
        (code, stdout.as_str()),
        (0, "hookgate.yaml: valid, 2 hooks\n")
    );
    let lint = "hookgate.yaml:5:11: hook `unproven` on BeforeTool fails closed and has no `must_deny` or `must_mask`: nothing proves that it works (docs/proof.md)";
    let lints: Vec<&str> = stderr
        .lines()
        .filter(|line| line.contains("proves"))
        .collect();
    assert_eq!(lints, [format!("warning: {lint}")]);
}

#[test]
fn check_runs_proofs_only_with_the_prove_flag() {
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: https://example.org }} }}\n{}",
        hook_config("BeforeTool", "command: bash guard.sh, on_failure: closed")
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    fs::write(folder.path().join("guard.sh"), GUARD).unwrap();

    let without = run(&["check", "hookgate.yaml"], folder.path());
    assert_eq!(
        without,
        (
            0,
            "hookgate.yaml: valid, 1 hook\n".to_owned(),
            String::new()
        )
    );
    assert!(!folder.path().join("runs").exists());

    let (code, stdout, _) = run(&["check", "--prove", "hookgate.yaml"], folder.path());
    assert_eq!(code, 0);
    assert_eq!(
        stdout,
        "proven: `shell` on BeforeTool, 2 cases\nhookgate.yaml: valid, 1 hook\n"
    );
    assert!(folder.path().join("runs").exists());
}

#[test]
fn hanging_proofs_share_one_total_timeout() {
    let case = "must_deny: [{ tool_call: { name: run_shell_command } }]";
    let hooks = (0..80).map(|number| {
        format!("        - {{ name: g{number}, command: sleep 600; true {number}, {case} }}\n")
    });
    let hooks = hooks.collect::<Vec<_>>().concat();
    let config = format!(
        "proof: {{ timeout: 1s, total_timeout: 1900ms }}\nhooks:\n  BeforeTool:\n    - hooks:\n{hooks}"
    );
    let started = Instant::now();

    let stderr = rejection(&config, &[]);

    // Eight proofs run at a time, so each of the two commands would need ten seconds without the
    // total timeout.
    let elapsed = started.elapsed();
    assert!(elapsed.as_secs() < 15, "{elapsed:?}");
    let lines = |text: &str| stderr.lines().filter(|line| line.contains(text)).count();
    assert_eq!(lines("has no result after 1s"), 8, "{stderr}");
    assert_eq!(
        lines("has no result after 1.9s, the time of all proofs together"),
        72,
        "{stderr}"
    );
}

//! Hooks that keep running after their response.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::time::timeout;

use super::{
    Fixture, NEVER_EXITS, PREWARM_COUNTS, TERMINATION_DEADLINE, line_hook, mark, spawn_call,
};
use crate::{
    harness::{TEST_TIMEOUT, Upstream, eventually, processes, prompt, wait_until_closed},
    transports::{Process, assert_denied, complete_config, config},
};

#[tokio::test]
async fn a_hook_may_read_and_write_after_its_response() {
    let command = "read -r -n 1 _; echo '{}'; cat /dev/zero | head -c 500000; \
         cat /dev/zero | head -c 500000 >&2; sleep 0.2; wc -c > length";
    let text = "x".repeat(3 * 1024 * 1024);
    for prewarm in PREWARM_COUNTS {
        let fixture = Fixture::start(command, prewarm).await;

        let answer = fixture.gate.agent().generate("m", &prompt(&text)).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        fixture.until_idle(TEST_TIMEOUT).await;
        let length: usize = fixture.gate.file("length").trim().parse().unwrap();
        assert!(length > text.len(), "{length}");
    }
}

#[tokio::test]
async fn a_hook_that_floods_its_output_after_its_response_is_killed() {
    for prewarm in PREWARM_COUNTS {
        for command in [
            "trap '' TERM PIPE; echo '{}'; yes",
            "trap '' TERM PIPE; echo '{}'; yes >&2",
        ] {
            let fixture = Fixture::start(&format!("read -r _; {command}"), prewarm).await;

            let answer = fixture.call().await;

            assert_eq!(answer.status, 200, "{}", answer.text());
            fixture.until_idle(TERMINATION_DEADLINE).await;
        }
    }
}

#[tokio::test]
async fn a_hook_that_keeps_running_is_terminated_at_its_timeout() {
    let ignores_sigterm = format!("trap '' TERM; {NEVER_EXITS}; sleep 600");
    for prewarm in PREWARM_COUNTS {
        for command in [NEVER_EXITS, &ignores_sigterm] {
            let mut hook = line_hook(command, prewarm);
            hook["timeout"] = json!(500);
            let fixture = Fixture::with(hook, "").await;
            let started = Instant::now();

            let answer = fixture.call().await;

            assert_denied(&answer, "no");
            fixture.until_child_runs().await;
            fixture.until_idle(TERMINATION_DEADLINE).await;
            assert!(started.elapsed() >= Duration::from_millis(500));
        }
    }
}

#[tokio::test]
async fn a_hook_that_keeps_running_is_terminated_at_shutdown() {
    for prewarm in PREWARM_COUNTS {
        let fixture = Fixture::start(NEVER_EXITS, prewarm).await;
        assert_denied(&fixture.call().await, "no");
        fixture.until_child_runs().await;

        let started = Instant::now();
        fixture.gate.stop().await;

        assert!(
            started.elapsed() < TERMINATION_DEADLINE,
            "{:?}",
            started.elapsed()
        );
        assert_eq!(processes(&fixture.mark), [0; 0]);
    }
}

#[tokio::test]
async fn a_hook_that_keeps_running_is_terminated_when_a_reload_removes_it() {
    for prewarm in PREWARM_COUNTS {
        let upstream = Upstream::mock().await;
        let mut guard = line_hook(NEVER_EXITS, prewarm);
        let mark = mark(&mut guard);
        let gateway = Process::start(&upstream, &config("BeforeModel", &guard), &[]);
        let reload = async |hooks: &str| {
            let file = gateway.folder.path().join("hookgate.yaml");
            fs::write(file, complete_config(&upstream, hooks)).unwrap();
            let reloaded = gateway.operator.post("/reload", "").await;
            assert_eq!(reloaded.status, 200, "{}", reloaded.text());
        };
        let answer = gateway.agent.generate("m", &prompt("hello")).await;
        assert_denied(&answer, "no");
        let running = processes(&mark);

        // A reload that does not concern the processes leaves them running.
        guard["timeout"] = json!(50_000);
        reload(&config("BeforeModel", &guard)).await;
        let answer = gateway.agent.generate("m", &prompt("hello")).await;
        assert_denied(&answer, "no");
        let alive = processes(&mark);
        assert!(!running.is_empty() && running.iter().all(|id| alive.contains(id)));

        reload("").await;
        eventually("all processes have ended", TERMINATION_DEADLINE, || {
            processes(&mark).is_empty()
        })
        .await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_disconnect_after_the_response_leaves_the_hook_until_its_timeout() {
    let keeps_running = "read -r _; echo '{}'; sleep 600 & wait";
    for prewarm in PREWARM_COUNTS {
        let hanging =
            Upstream::raw(|_, mut socket| async move { wait_until_closed(&mut socket).await });
        let mut hook = line_hook(keeps_running, prewarm);
        hook["timeout"] = json!(2000);
        let fixture = Fixture::with_upstream(hanging.await, hook, "").await;
        let started = Instant::now();
        let call = spawn_call(fixture.gate.agent());
        let is_called = || !fixture.upstream.requests().is_empty();
        eventually("upstream is called", TEST_TIMEOUT, is_called).await;

        call.abort();

        fixture.until_idle(TEST_TIMEOUT).await;
        assert!(started.elapsed() >= Duration::from_secs(2));
    }
}

#[tokio::test]
async fn a_hook_that_keeps_running_counts_against_the_process_limit() {
    let count = "read -r _; touch run.$$; set -- run.*; \
         echo '{\"decision\":\"deny\",\"reason\":\"'$#'\"}'; \
         until [ -e go ]; do sleep 0.01; done; rm run.$$";
    for prewarm in PREWARM_COUNTS {
        let hook = line_hook(count, prewarm);
        let fixture = Fixture::with(hook, "\nlimits: { hook_processes: 1 }").await;

        assert_denied(&fixture.call().await, "1");
        let mut second = spawn_call(fixture.gate.agent());
        let early = timeout(Duration::from_millis(300), &mut second).await;
        assert!(early.is_err(), "the second call did not wait: {early:?}");
        fixture.release();

        assert_denied(&second.await.unwrap(), "1");
        fixture.until_idle(TEST_TIMEOUT).await;
    }
}

#[tokio::test]
async fn a_failure_after_the_response_is_logged() {
    let upstream = Upstream::mock().await;
    for (end, cause) in [
        ("exit 2", Some("exit code 2")),
        ("kill -9 $$", Some("terminated by signal 9")),
        ("sleep 600", Some("timed out")),
        ("cat /dev/zero", Some("output limit exceeded")),
        ("exit 0", None),
    ] {
        let mut hook = line_hook(&format!("read -r _; echo '{{}}'; {end}"), None);
        hook["timeout"] = json!(500);
        let mark = mark(&mut hook);
        let gateway = Process::start(&upstream, &config("BeforeModel", &hook), &[]);
        let answer = gateway.agent.generate("m", &prompt("hello")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let ended = || processes(&mark).is_empty();
        eventually("the hook has ended", TEST_TIMEOUT, ended).await;

        let log = gateway.stop().await;

        let message = "hook failed after responding hook.name=\"guard\" error=";
        match cause {
            Some(cause) => assert!(log.contains(&format!("{message}\"{cause}\"")), "{log}"),
            None => assert!(!log.contains(message), "{log}"),
        }
    }
}

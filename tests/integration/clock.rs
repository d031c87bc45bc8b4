//! System clock that jumps forward and back while calls are made.

use std::{collections::BTreeSet, fs, process::Command, time::Duration};

use tempfile::TempDir;

use crate::harness::{Agent, ServerProcess, Upstream, prompt, serve_command};

/// C library that adds the number in a file to the real-time clock. The monotonic clock, which
/// measures timeouts, is unchanged, as it is when an operator sets the clock.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, now);
    const char *path = getenv("CLOCK_OFFSET");
    if (!failed && id == CLOCK_REALTIME && path) {
        FILE *file = fopen(path, "r");
        long offset = 0;
        if (file) {
            if (fscanf(file, "%ld", &offset) == 1) now->tv_sec += offset;
            fclose(file);
        }
    }
    return failed;
}
"#;

const DAY: i64 = 24 * 60 * 60;

#[tokio::test]
async fn a_clock_jump_neither_interrupts_calls_nor_resets_a_token_quota() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("shim.c"), SHIM).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"])
        .current_dir(folder.path())
        .status();
    assert!(built.unwrap().success());
    let (key, digest) = hookgate::auth::new_key().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         policies: [{{ policy: model_allow, models: [\"*\"] }}]\n\
         auth: {{ keys: [{{ name: a, sha256: \"{digest}\", tokens_per_day: 30 }}] }}\n\
         audit: {{ path: audit.jsonl, mode: durable }}\n",
        upstream.addr
    );
    fs::write(path("hookgate.yaml"), config).unwrap();
    let mut command = serve_command(folder.path());
    command
        .env("LD_PRELOAD", path("shim.so"))
        .env("CLOCK_OFFSET", path("offset"));
    let mut gate = ServerProcess::start(command);
    let agent = Agent::at(gate.addr()).sending("x-goog-api-key", &key);
    let operator = Agent::at(gate.operators());

    let mut statuses = Vec::new();
    for offset in [0, DAY, -DAY, 400 * DAY, -400 * DAY, 0, 0, 0] {
        fs::write(path("offset"), offset.to_string()).unwrap();
        statuses.push(agent.generate("m", &prompt("hello")).await.status);
        assert_eq!(operator.get("/readyz").await.status, 200, "{offset}");
    }

    // Tokens that were spent stay spent on every date that the clock shows.
    let first = statuses.iter().position(|status| *status == 429).unwrap();
    assert!(
        first > 0 && statuses[..first].iter().all(|status| *status == 200),
        "{statuses:?}"
    );
    assert!(
        statuses[first..].iter().all(|status| *status == 429),
        "{statuses:?}"
    );
    gate.terminate();
    gate.ended(Duration::from_secs(10));
    let log = fs::read_to_string(path("audit.jsonl")).unwrap();
    let years: BTreeSet<&str> = log
        .lines()
        .filter_map(|line| line.split_once("\"time\":\"")?.1.get(..4))
        .collect();
    assert!(years.len() > 1, "the clock was set: {years:?}");
    assert!(chained_log::verify(&path("audit.jsonl")).is_ok());
}

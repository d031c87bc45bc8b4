//! The longest durations that a config may have.

use std::fs;

use tempfile::TempDir;

use crate::harness::{Agent, ServerProcess, Upstream, prompt};

/// More than a million years.
const LONGEST: &str = "9999999999h";

#[tokio::test]
async fn the_longest_durations_overflow_nothing() {
    let upstream = Upstream::mock().await;
    let config = "\
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0, login: { lifetime: LONG, idle: LONG } }
upstreams: { gemini: { url: 'http://UPSTREAM', circuit: { within: LONG, open: LONG } } }
timeouts: { header: LONG, body: LONG, idle: LONG, write: LONG, upstream_connect: LONG, first_byte: LONG, stream_idle: LONG, drain: LONG, keep_alive: LONG, lame_duck: LONG }
sessions: { idle: LONG }
proof: { every: LONG, timeout: LONG, total_timeout: LONG }
trace: { content: { sample: 1, for: LONG } }
policies: [{ policy: prompt_guard, deny: [secret], must_deny: [{ prompt: secret }] }]
hooks:
  BeforeModel:
    - hooks: [{ command: 'true', timeout: LONG }, { command: 'exit 0', timeout: 9007199254740991 }]
"
    .replace("LONG", LONGEST)
    .replace("UPSTREAM", &upstream.addr.to_string());
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    let agent = Agent::at(served.addr());

    let answer = agent.generate("m", &prompt("hello")).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let operator = Agent::at(served.operators());
    for path in ["/calls", "/sessions", "/hooks", "/metrics"] {
        assert_eq!(operator.get(path).await.status, 200, "{path}");
    }
}

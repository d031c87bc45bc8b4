//! Rollouts: two configs at once, each session under one of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use data_encoding::HEXLOWER;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    callers::auth,
    harness::{
        Agent, Browser, ServerProcess, TEST_TIMEOUT, Upstream, closed_port, decision_log, prompt,
        respond, run, send_and_read,
    },
};

/// A gateway that rolls out `next.yaml`, which denies prompts with "banana".
struct Rollout {
    folder: TempDir,
    upstream: Upstream,
    served: ServerProcess,
    agent: Agent,
    operator: Agent,
}

impl Rollout {
    async fn start(rollout: &str) -> Self {
        let upstream = Upstream::mock().await;
        let folder = TempDir::new().unwrap();
        write_configs(folder.path(), &upstream, rollout);
        let mut served = ServerProcess::folder(folder.path());
        Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            folder,
            upstream,
            served,
        }
    }

    /// Returns the state of the rollout.
    async fn state(&self) -> Value {
        self.operator.get("/config").await.json()["rollout"].clone()
    }

    /// Returns the version of the config in use.
    async fn version(&self) -> String {
        let config = self.operator.get("/config").await.json();
        config["version"].as_str().unwrap().to_owned()
    }

    /// Returns a browser at the console.
    fn browser(&self) -> Browser {
        let address = self.operator.base.strip_prefix("http://").unwrap();
        Browser::at_address(address.parse().unwrap())
    }

    /// Returns whether a call is denied.
    async fn denies(&self, session: &str, word: &str) -> bool {
        let agent = self.agent.clone().sending("x-hookgate-session", session);
        is_denied(&agent, word).await
    }

    /// Runs `hookgate config` with these arguments, which must succeed.
    fn command(&self, arguments: &[&str]) {
        let command = [&["config"], arguments, &["--url", &self.operator.base]].concat();
        let (code, out, err) = run(&command, self.folder.path());
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
    }

    /// Ends the process and starts it again.
    fn restart(&mut self) {
        self.served = ServerProcess::folder(self.folder.path());
        self.agent = Agent::at(self.served.addr());
        self.operator = Agent::at(self.served.operators());
    }

    /// Writes the configs with another rollout, and reloads them.
    async fn edit(&self, rollout: &str) {
        write_configs(self.folder.path(), &self.upstream, rollout);
        let reloaded = self.operator.post("/reload", "").await;
        assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    }

    /// Stops the gateway and returns the lines of its decision log, whose hash chain is verified.
    fn stop(self) -> Vec<Value> {
        self.served.terminate();
        self.served.ended(Duration::from_secs(10));
        decision_log(&self.folder.path().join("audit.jsonl"))
    }

    /// Makes calls until the state of the rollout meets a condition, and returns the state.
    async fn wait_until(&self, what: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            // The first call after the hold time takes the next step.
            self.denies("clock", "hello").await;
            let state = self.state().await;
            if is_met(&state) {
                return state;
            }
            assert!(Instant::now() < deadline, "no {what}: {state:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn is_denied(agent: &Agent, word: &str) -> bool {
    let answer = agent.generate("m", &prompt(word)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    !answer.text().contains("You said")
}

/// Writes `hookgate.yaml`, which denies "apple", and the candidate `next.yaml`. The lines behind
/// the first one of `rollout` are settings of both.
fn write_configs(folder: &Path, upstream: &Upstream, rollout: &str) {
    let policy = |word: &str| format!("policies: [{{ policy: prompt_guard, deny: [{word}] }}]\n");
    let (rollout, settings) = rollout.split_once('\n').unwrap_or((rollout, ""));
    let url = format!("{{ url: \"http://{}\" }}", upstream.addr);
    let rest = format!(
        "upstreams: {{ gemini: {url}, code_assist: {url}, anthropic: {url}, openai: {url} }}\n\
         audit: {{ path: audit.jsonl, mode: best_effort }}\n\
         revisions: {{ path: revisions }}\n{settings}\n"
    );
    let next = format!("{}{rest}", policy("banana"));
    fs::write(folder.join("next.yaml"), next).unwrap();
    let config = format!("{}{rest}rollout: {rollout}\n", policy("apple"));
    fs::write(folder.join("hookgate.yaml"), config).unwrap();
}

/// Returns the config versions of each session in the decision log.
fn configs_of_sessions(lines: &[Value]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut configs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in lines {
        if let (Some(session), Some(config)) = (line["session"].as_str(), line["config"].as_str()) {
            configs.entry(session).or_default().insert(config);
        }
    }
    configs
}

#[tokio::test]
async fn a_start_that_fails_stores_no_config() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    write_configs(folder.path(), &upstream, "{ to: next.yaml, percent: 50 }");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();

    let command = ["serve", "--config", "hookgate.yaml", "--listen", &addr];
    let (code, _, error) = run(&command, folder.path());

    assert_ne!(code, 0);
    assert!(error.contains("cannot listen on"), "{error}");
    assert!(!folder.path().join("revisions").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_session_runs_under_one_of_two_configs() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 50 }").await;
    let sessions: Vec<String> = (0..40).map(|number| format!("session-{number}")).collect();
    let mut of_candidate = 0;

    for session in &sessions {
        let denies_banana = gateway.denies(session, "banana").await;
        assert_ne!(
            denies_banana,
            gateway.denies(session, "apple").await,
            "{session}"
        );
        let event = json!({
            "hook_event_name": "BeforeAgent", "session_id": session, "prompt": "a banana"
        });
        let reported = gateway.agent.report(&event, "explain=1").await.json();
        let verdict = if denies_banana { "deny" } else { "proceed" };
        assert_eq!(reported["hookgate"]["verdict"], verdict, "{reported:#}");
        of_candidate += u32::from(denies_banana);
    }

    assert!((8..=32).contains(&of_candidate), "{of_candidate}");
    let state = gateway.state().await;
    assert_eq!(state["percent"], 50, "{state:#}");
    let calls = |arm: usize| state["arms"][arm]["calls"].as_u64().unwrap();
    assert_eq!(calls(0) + calls(1), 120, "{state:#}");
    assert_eq!(calls(1), u64::from(3 * of_candidate), "{state:#}");
    let lines = gateway.stop();
    let configs = configs_of_sessions(&lines);
    assert_eq!(configs.len(), 40);
    assert!(
        configs.values().all(|versions| versions.len() == 1),
        "{configs:#?}"
    );
    let versions: BTreeSet<&&str> = configs.values().flatten().collect();
    assert_eq!(versions.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_without_a_name_is_assigned_by_its_first_prompt() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 50 }").await;
    let mut of_candidate = 0;

    for number in 0..30 {
        let first = json!({ "role": "user", "parts": [{ "text": format!("task {number}") }] });
        let answer = json!({ "role": "model", "parts": [{ "text": "yes" }] });
        let next = |word: &str| json!({ "role": "user", "parts": [{ "text": word }] });
        let mut denials = Vec::new();
        for word in ["banana", "apple", "banana"] {
            let body = json!({ "contents": [first, answer, next(word)] });
            let reply = gateway.agent.generate("m", &body).await;
            denials.push(!reply.text().contains("You said"));
        }
        let candidate = denials[0];
        assert_eq!(denials, [candidate, !candidate, candidate], "task {number}");
        of_candidate += u32::from(candidate);
    }

    assert!((4..=26).contains(&of_candidate), "{of_candidate}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_of_tokens_runs_under_the_config_of_its_conversation() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 50 }").await;

    for number in 0..20 {
        let body = prompt(&format!("task {number}"));
        let answer = gateway.agent.generate("m", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let mut request = body;
        request["model"] = json!("models/m");
        let count = json!({ "generateContentRequest": request }).to_string();
        let path = "/v1beta/models/m:countTokens";
        let answer = gateway.agent.post(path, count).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    let lines = gateway.stop();
    let configs = configs_of_sessions(&lines);
    assert!(
        configs.values().all(|versions| versions.len() == 1),
        "{configs:#?}"
    );
    let versions: BTreeSet<&&str> = configs.values().flatten().collect();
    assert_eq!(versions.len(), 2);
}

#[tokio::test]
async fn a_body_that_is_read_for_the_assignment_counts_once_in_the_memory() {
    let rollout = "{ to: next.yaml, percent: 1 }\nlimits: { body: 2900KiB, memory: 3MiB }";
    let gateway = Rollout::start(rollout).await;

    let answer = gateway
        .agent
        .generate("m", &prompt(&"x".repeat(2 << 20)))
        .await;

    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Returns path and body of a call of each API that names its session in the body.
fn calls_named_in_the_body(session: &str, word: &str) -> [(&'static str, Value); 5] {
    let messages = json!([{ "role": "user", "content": word }]);
    let claude = |user: String| {
        json!({ "model": "m", "max_tokens": 9, "metadata": { "user_id": user },
            "messages": messages })
    };
    let older = format!("user_u_account_a_session_{session}");
    let newer = json!({ "device_id": "d", "session_id": format!("claude-{session}") });
    let mut request = prompt(word);
    request["session_id"] = json!(format!("gemini-{session}"));
    [
        ("/v1/messages", claude(older)),
        ("/v1/messages", claude(newer.to_string())),
        (
            "/v1/chat/completions",
            json!({ "model": "m", "prompt_cache_key": session, "messages": messages }),
        ),
        (
            "/v1/responses",
            json!({ "model": "m", "prompt_cache_key": session, "input": word }),
        ),
        (
            "/v1internal:generateContent",
            json!({ "model": "m", "request": request }),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_named_in_the_body_runs_under_one_config() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 50 }").await;

    for number in 0..12 {
        let session = format!("2e5bf39a-41ec-499f-9883-d64499ab60{number:02}");
        for word in ["quota", "fix it", "sum up"] {
            for (path, body) in calls_named_in_the_body(&session, word) {
                let answer = gateway.agent.post(path, body.to_string()).await;
                assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            }
        }
        let event = json!({
            "hook_event_name": "BeforeAgent", "session_id": session, "prompt": "fix it"
        });
        assert_eq!(gateway.agent.report(&event, "").await.status, 200);
    }

    let lines = gateway.stop();
    let configs = configs_of_sessions(&lines);
    assert_eq!(configs.len(), 36, "{configs:#?}");
    assert!(
        configs.values().all(|versions| versions.len() == 1),
        "{configs:#?}"
    );
    let versions: BTreeSet<&&str> = configs.values().flatten().collect();
    assert_eq!(versions.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_breaks_off_or_is_late_is_recorded_as_without_a_rollout() {
    let settings = "timeouts: { body: 300ms }\nrecord: { path: recordings, what: { sample: 1 } }";
    let gateway = Rollout::start(&format!("{{ to: next.yaml, percent: 50 }}\n{settings}")).await;
    let head = "POST /v1beta/models/m:generateContent HTTP/1.1\r\nhost: x\r\n\
                connection: close\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{\"contents\":";
    let addr = gateway.agent.base.trim_start_matches("http://").to_owned();

    let mut broken = TcpStream::connect(&addr).await.unwrap();
    broken.write_all(head.as_bytes()).await.unwrap();
    broken.shutdown().await.unwrap();
    let late = send_and_read(addr.parse().unwrap(), head.as_bytes()).await;

    assert!(late.contains("\"BODY_TIMEOUT\""), "{late}");
    let recorded = "hookgate_recording_exchanges_total";
    let deadline = Instant::now() + TEST_TIMEOUT;
    while gateway.operator.metric(recorded).await < 2 {
        assert!(Instant::now() < deadline, "calls are not recorded");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let lines = gateway.stop();
    let outcomes = lines.iter().filter(|line| line["kind"] == "outcome");
    let mut errors: Vec<(&Value, bool)> = outcomes
        .map(|line| (&line["error"], line["duration_ms"].as_u64() >= Some(300)))
        .collect();
    errors.sort_by_key(|(error, _)| error.to_string());
    assert_eq!(
        errors,
        [
            (&json!("BODY_BROKEN"), false),
            (&json!("BODY_TIMEOUT"), true)
        ],
        "{lines:#?}"
    );
}

/// Makes calls in many sessions, a third of them with "banana". Returns the number of denials.
async fn denied_calls(gateway: &Rollout, calls: u32) -> usize {
    let calls = stream::iter(0..calls).map(|number| {
        let word = if number % 3 == 0 { "banana" } else { "hello" };
        let agent = gateway.agent.clone();
        let agent = agent.sending("x-hookgate-session", format!("session-{number}"));
        async move { is_denied(&agent, word).await }
    });
    let denied = calls
        .buffer_unordered(8)
        .filter(|denied| std::future::ready(*denied));
    denied.count().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_regression_aborts_the_rollout_permanently() {
    let rollout = "{ to: next.yaml, percent: 50, abort_if: { newly_denied: 1% } }";
    let mut gateway = Rollout::start(rollout).await;

    let before = denied_calls(&gateway, 700).await;
    let state = gateway
        .wait_until("abort", |state| state["is_aborted"] == true)
        .await;
    assert_eq!(state["percent"], 0, "{state:#}");
    assert!((40..150).contains(&before), "{before}");
    assert_eq!(denied_calls(&gateway, 100).await, 0);
    let metric = |name: &'static str| gateway.operator.metric(name);
    assert_eq!(metric("hookgate_rollout_aborts_total").await, 1);
    assert_eq!(metric("hookgate_rollout_share_percent").await, 0);
    let page = gateway.operator.get("/console/changes").await;
    assert!(page.text().contains("was aborted"), "{}", page.text());

    gateway.restart();
    assert_eq!(gateway.state().await["is_aborted"], true);
    assert_eq!(denied_calls(&gateway, 100).await, 0);

    let state = gateway.state().await;
    gateway.command(&["promote", state["to"].as_str().unwrap()]);
    assert_eq!(gateway.state().await, Value::Null);
    gateway.command(&["rollback"]);
    assert_eq!(gateway.state().await, Value::Null);

    gateway.edit("{ to: next.yaml, percent: 49 }").await;
    let state = gateway.state().await;
    assert_eq!(
        (&state["is_aborted"], &state["percent"]),
        (&json!(false), &json!(49))
    );

    let lines = gateway.stop();
    let aborts: Vec<&Value> = lines
        .iter()
        .filter(|line| line["action"] == "abort")
        .collect();
    assert_eq!(aborts.len(), 1, "{aborts:#?}");
    assert_eq!(
        (&aborts[0]["kind"], &aborts[0]["measure"]),
        (&json!("rollout"), &json!("newly_denied"))
    );
    assert!(
        aborts[0]["candidate"].as_str().unwrap().contains(" of 2"),
        "{aborts:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_candidate_is_a_new_rollout_and_an_aborted_one_stays_aborted() {
    let rollout = "{ to: next.yaml, percent: 50, abort_if: { newly_denied: 1% } }";
    let gateway = Rollout::start(rollout).await;
    let next = gateway.folder.path().join("next.yaml");
    let first = fs::read_to_string(&next).unwrap();
    let save = async |candidate: &str| {
        fs::write(&next, candidate).unwrap();
        let reloaded = gateway.operator.post("/reload", "").await;
        assert_eq!(reloaded.status, 200, "{}", reloaded.text());
        gateway.state().await
    };
    abort_by_denials(&gateway).await;

    let state = save(&format!("{first}ask: allow\n")).await;
    let fields = |state: &Value| (state["is_aborted"].clone(), state["percent"].clone());
    assert_eq!(fields(&state), (json!(false), json!(50)), "{state:#}");
    abort_by_denials(&gateway).await;

    let state = save(&first).await;
    assert_eq!(fields(&state), (json!(true), json!(0)), "{state:#}");
}

/// Makes denied calls until the rollout is aborted, and its end is stored.
async fn abort_by_denials(gateway: &Rollout) {
    denied_calls(gateway, 700).await;
    let state = gateway
        .wait_until("abort", |state| state["is_aborted"] == true)
        .await;
    let active = gateway.folder.path().join("revisions/active.json");
    let deadline = Instant::now() + TEST_TIMEOUT;
    let version = state["to"].as_str().unwrap();
    while !fs::read_to_string(&active).unwrap().contains(version) {
        assert!(Instant::now() < deadline, "the abort is not stored");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_of_the_revision_in_use_ends_its_rollout() {
    let mut gateway = Rollout::start("{ to: next.yaml, percent: 100 }").await;
    let config = gateway.operator.get("/config").await.json();
    let in_use = config["version"].as_str().unwrap();
    assert!(gateway.denies("any", "banana").await);

    gateway.command(&["promote", in_use]);

    assert_eq!(gateway.state().await, Value::Null);
    assert!(!gateway.denies("any", "banana").await && gateway.denies("any", "apple").await);
    let reloaded = gateway.operator.post("/reload", "").await;
    assert_eq!(
        (reloaded.status, gateway.state().await),
        (200, Value::Null),
        "{}",
        reloaded.text()
    );
    gateway.restart();
    assert_eq!(gateway.state().await, Value::Null);
    assert!(!gateway.denies("any", "banana").await);

    gateway.edit("{ to: next.yaml, percent: 99 }").await;
    assert_eq!(gateway.state().await["percent"], 99);
    let in_use = json!(in_use);
    let lines = gateway.stop();
    let promoted = lines.iter().find(|line| line["kind"] == "promoted");
    let fields = ["action", "from", "to", "by"].map(|field| &promoted.unwrap()[field]);
    let expected = [&json!("promote"), &in_use, &in_use, &json!("local")];
    assert_eq!(fields, expected, "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_ends_a_rollout() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 100 }").await;
    let (browser, in_use) = (gateway.browser(), gateway.version().await);
    let page = browser.get("/console/changes").await.html;
    let field = format!("name=\"in_use\" value=\"{in_use}\"");
    assert!(page.contains(&field), "{page}");
    assert!(page.contains("End the rollout</button>"), "{page}");

    let status = press_end(&browser, &in_use).await;

    assert_eq!(status, 303);
    assert_eq!(gateway.state().await, Value::Null);
    let page = browser.get("/console/changes").await.html;
    assert!(!page.contains("End the rollout"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_from_before_a_reload_does_not_end_the_rollout() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 100 }").await;
    let before = gateway.version().await;
    gateway.edit("{ to: next.yaml, percent: 99 }").await;
    let reloaded = gateway.version().await;

    let status = press_end(&gateway.browser(), &before).await;

    assert_eq!((status, gateway.version().await), (400, reloaded));
    assert_eq!(gateway.state().await["percent"], 99);
}

/// Presses "End the rollout" on a page with this version in use. Returns the status.
async fn press_end(browser: &Browser, in_use: &str) -> u16 {
    let csrf = browser.csrf("/console/changes").await;
    let fields = [
        ("csrf", csrf.as_str()),
        ("revision", in_use),
        ("in_use", in_use),
    ];
    let page = browser.post("/console/changes/promote", &fields);
    page.await.status
}

/// Answers each request with a call of the tool `look`, and each denial with a text.
async fn upstream_calling_look() -> Upstream {
    Upstream::with(|asked| {
        let part = if asked.body.contains("sure?") {
            json!({ "text": "done" })
        } else {
            json!({ "functionCall": { "name": "look", "args": {} } })
        };
        let content = json!({ "role": "model", "parts": [part] });
        let candidate = json!({ "content": content, "finishReason": "STOP", "index": 0 });
        let answer = json!({ "candidates": [candidate] }).to_string();
        respond(200, "application/json", answer)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_calls_that_ask_denies_abort_a_rollout() {
    let folder = TempDir::new().unwrap();
    let upstream = upstream_calling_look().await;
    let rollout = "{ to: next.yaml, percent: 50, abort_if: { newly_denied: 1% } }\nask: deny";
    write_configs(folder.path(), &upstream, rollout);
    let next = fs::read_to_string(folder.path().join("next.yaml")).unwrap();
    let output = json!({ "decision": "ask", "reason": "sure?" });
    let hook =
        "hooks: { BeforeTool: [{ hooks: [{ type: worker, command: python3 -u ask.py }] }] }\n";
    fs::write(
        folder.path().join("ask.py"),
        format!(
            "import json, sys\nfor line in sys.stdin:\n    \
             print(json.dumps({{'id': json.loads(line)['id'], 'output': {output}}}))\n"
        ),
    )
    .unwrap();
    fs::write(folder.path().join("next.yaml"), format!("{next}{hook}")).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    let gateway = Rollout {
        agent: Agent::at(served.addr()),
        operator: Agent::at(served.operators()),
        folder,
        upstream,
        served,
    };

    let calls = stream::iter(0..700).map(|number| {
        let agent = gateway.agent.clone();
        let agent = agent.sending("x-hookgate-session", format!("session-{number}"));
        async move { agent.generate("m", &prompt("hello")).await }
    });
    calls.buffer_unordered(8).collect::<Vec<_>>().await;

    let state = gateway
        .wait_until("abort", |state| state["is_aborted"] == true)
        .await;
    assert_eq!(state["percent"], 0, "{state:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_calls_and_reported_events_on_which_policies_can_decide_are_counted() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 50 }").await;
    let post = async |path: &str, body: &str| {
        let answer = gateway.agent.post(path, body.to_owned()).await;
        answer.status
    };
    let generate = "/v1beta/models/m:generateContent";
    let count = "/v1beta/models/m:countTokens";
    let event = "/hookgate/v1/events";

    for _ in 0..3 {
        assert_eq!(gateway.agent.get("/v9/x").await.status, 403);
        assert_eq!(gateway.agent.get("/v1beta/models").await.status, 200);
        assert_eq!(post(generate, "{").await, 400);
        assert_eq!(post(event, "{").await, 400);
        assert_eq!(
            post(event, r#"{"hook_event_name":"BeforeTool"}"#).await,
            400
        );
    }
    let calls = async || {
        let state = gateway.state().await;
        let calls = |arm: usize| state["arms"][arm]["calls"].as_u64().unwrap();
        calls(0) + calls(1)
    };
    assert_eq!(calls().await, 0);

    let contents = prompt("banana").to_string();
    assert_eq!(post(generate, &contents).await, 200);
    post(count, &contents).await;
    let end = r#"{"hook_event_name":"SessionEnd","reason":"exit","session_id":"s"}"#;
    assert_eq!(post(&format!("{event}?wait=1"), end).await, 200);
    assert_eq!(calls().await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_callers_that_take_no_part_are_not_counted() {
    let callers = ["ci", "team"].map(|name| (name, format!("key-of-{name}-0123456789abcdef")));
    let keys = callers.each_ref().map(|(name, key)| {
        let sha256 = HEXLOWER.encode(&Sha256::digest(key));
        format!("{{ name: {name}, sha256: {sha256} }}")
    });
    let rollout = format!(
        "{{ to: next.yaml, percent: 100, callers: [ci] }}\nauth: {{ keys: [{}] }}",
        keys.join(", ")
    );
    let gateway = Rollout::start(&rollout).await;
    let event = json!({ "hook_event_name": "BeforeAgent", "session_id": "s", "prompt": "hello" });

    for ((_, key), word) in callers.iter().zip(["banana", "apple"]) {
        let agent = gateway.agent.clone().sending("x-hookgate-key", key);
        assert!(is_denied(&agent, word).await, "{word}");
        assert_eq!(agent.report(&event, "").await.status, 200);
    }

    let state = gateway.state().await;
    let calls = [0, 1].map(|arm: usize| state["arms"][arm]["calls"].as_u64().unwrap());
    assert_eq!(calls, [0, 2], "{state:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_may_use_what_the_config_in_use_allows_also_under_the_candidate() {
    let upstream = Upstream::mock().await;
    let rest = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nrevisions: {{ path: revisions }}\n",
        upstream.addr
    );
    let guard = "policies: [{ policy: prompt_guard, deny: [banana] }]\n";
    let rollout = "rollout: { to: next.yaml, percent: 100 }\n";
    let limited = auth(&[("ci", ", models: [m], tools: [\"read_*\"]")]);
    let renamed = limited.replace("name: ci,", "name: build,");
    let (unlimited, other) = (auth(&[("ci", "")]), auth(&[("team", "")]));
    let event = json!({
        "hook_event_name": "BeforeTool", "tool_name": "write_file", "tool_input": {}
    });

    for (current, next, is_limited) in [
        (&limited, "", true),
        (&limited, other.as_str(), true),
        (&limited, renamed.as_str(), true),
        (&limited, unlimited.as_str(), true),
        (&unlimited, limited.as_str(), false),
    ] {
        let folder = TempDir::new().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("next.yaml", &format!("{next}{guard}{rest}"));
        write("hookgate.yaml", &format!("{current}{rest}{rollout}"));
        let mut served = ServerProcess::folder(folder.path());
        let agent = Agent::at(served.addr()).sending("x-hookgate-key", "ci-key");

        assert!(is_denied(&agent, "banana").await);
        let answer = agent.generate("large", &prompt("hello")).await;
        let is_answered = answer.text().contains("You said");
        let reported = agent.report(&event, "").await.json();
        let is_tool_denied = reported["decision"] == "deny";

        assert_eq!(is_answered, !is_limited, "{next}: {}", answer.text());
        assert_eq!(is_tool_denied, is_limited, "{next}: {reported:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_share_grows_in_steps_and_the_candidate_can_be_promoted() {
    let gateway = Rollout::start("{ to: next.yaml, steps: [0, 30, 100], hold: 300ms }").await;
    assert_eq!(gateway.state().await["percent"], 0);

    let state = gateway
        .wait_until("whole share", |state| state["percent"] == 100)
        .await;
    assert!(gateway.denies("any", "banana").await);
    gateway.command(&["promote", state["to"].as_str().unwrap()]);

    assert_eq!(gateway.state().await, Value::Null);
    assert!(gateway.denies("any", "banana").await && !gateway.denies("any", "apple").await);
    let lines = gateway.stop();
    let rollout = lines.iter().filter(|line| line["kind"] == "rollout");
    let percents: Vec<u64> = rollout
        .map(|line| line["percent"].as_u64().unwrap())
        .collect();
    assert_eq!(percents, [30, 100]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_with_abort_conditions_ends_after_its_comparison() {
    let rollout = "{ to: next.yaml, percent: 50, steps: [100], hold: 100ms, \
                   abort_if: { newly_denied: 50% } }";
    let gateway = Rollout::start(rollout).await;

    denied_calls(&gateway, 20).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    denied_calls(&gateway, 20).await;
    let state = gateway.state().await;
    assert_eq!(
        (&state["percent"], &state["awaits_comparison"]),
        (&json!(50), &json!(true))
    );
    let page = gateway.operator.get("/console/changes").await;
    assert!(
        page.text().contains("The next step waits"),
        "{}",
        page.text()
    );

    denied_calls(&gateway, 700).await;
    let state = gateway
        .wait_until("whole share", |state| state["percent"] == 100)
        .await;
    assert_eq!(state["awaits_comparison"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_a_promoted_revision_survives_its_rollout() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 1 }").await;
    let to = gateway.state().await["to"].as_str().unwrap().to_owned();
    let revision = async || {
        let history = gateway.operator.get("/config/history").await.json();
        let mut revisions = history.as_array().unwrap().iter();
        let revision = revisions.find(|revision| revision["version"] == to.as_str());
        let revision = revision.unwrap();
        [&revision["cause"], &revision["applied"]].map(Value::to_string)
    };
    gateway.command(&["promote", &to]);
    let promoted = revision().await;

    gateway.edit("{ to: next.yaml, percent: 2 }").await;

    assert_eq!(gateway.state().await["percent"], 2);
    assert_eq!(promoted[0], "\"promotion by local\"");
    assert_eq!(revision().await, promoted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_rollout_does_not_begin_again_after_a_return_to_the_config_file() {
    let mut gateway = Rollout::start("{ to: next.yaml, percent: 100 }").await;
    let state = gateway.state().await;
    let [from, to] = [0, 1].map(|arm: usize| state["arms"][arm]["version"].as_str().unwrap());
    assert!(gateway.denies("any", "banana").await);

    for back in [&["rollback"][..], &["promote", from]] {
        gateway.command(&["promote", to]);
        // It is not read any more.
        fs::remove_file(gateway.folder.path().join("next.yaml")).ok();
        gateway.command(back);

        assert_eq!(gateway.state().await, Value::Null, "{back:?}");
        assert!(gateway.denies("any", "apple").await, "{back:?}");
        assert!(!gateway.denies("any", "banana").await, "{back:?}");
    }

    gateway.restart();
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);
    assert_eq!(gateway.state().await, Value::Null);
    gateway.edit("{ to: next.yaml, percent: 99 }").await;
    assert_eq!(gateway.state().await["percent"], 99);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_revision_of_a_rollout_is_stored_again() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 1 }").await;
    let state = gateway.state().await;
    let to = state["to"].as_str().unwrap();
    let file = gateway.folder.path().join(format!("revisions/{to}.json"));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("banana", "cherry")).unwrap();

    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);

    gateway.command(&["promote", to]);
    assert!(gateway.denies("any", "banana").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_with_problems_is_refused() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 100 }").await;
    let reload = || gateway.operator.post("/reload", "");

    fs::write(gateway.folder.path().join("next.yaml"), "hoks: {}").unwrap();
    let answer = reload().await;
    assert_eq!(answer.status, 400);
    assert!(
        answer
            .text()
            .contains("next.yaml:1:1: rollout: unknown key `hoks`"),
        "{}",
        answer.text()
    );
    for (to, problem) in [
        (
            "f00dfeedf00dfeed",
            "no revision of the config has the version",
        ),
        ("../next.yaml", "must be a version, or the name of a file"),
    ] {
        write_configs(
            gateway.folder.path(),
            &gateway.upstream,
            &format!("{{ to: {to}, percent: 1 }}"),
        );
        let answer = reload().await;
        assert!(
            answer.status == 400 && answer.text().contains(problem),
            "{}",
            answer.text()
        );
    }
    assert!(gateway.denies("any", "banana").await);
}

/// A folder with a config that rolls out `to`.
fn rollout_folder(to: &str, files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://127.0.0.1:1\" }} }}\n\
         revisions: {{ path: revisions }}\nrollout: {{ to: {to}, percent: 1 }}\n"
    );
    for (name, text) in files.iter().chain(&[("hookgate.yaml", config.as_str())]) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn check_and_serve_refuse_the_same_rollouts() {
    for (to, problem) in [
        (
            "missing.yaml",
            "hookgate.yaml:3:16: rollout: `missing.yaml` cannot be read",
        ),
        (
            "broken.yaml",
            "\nbroken.yaml:2:1: rollout: unknown key `limts`",
        ),
        ("../next.yaml", "must be a version, or the name of a file"),
    ] {
        let folder = rollout_folder(to, &[("broken.yaml", "hoks: {}\nlimts: {}\n")]);

        let (code, _, checked) = run(&["check", "hookgate.yaml"], folder.path());
        let (status, served) = ServerProcess::folder(folder.path()).ended(TEST_TIMEOUT);

        assert!(code == 78 && checked.contains(problem), "{code}: {checked}");
        assert_eq!(status.code(), Some(78), "{served}");
        assert!(served.contains(problem), "{served}");
    }
}

/// Returns the output of `hookgate check`, the warnings of `/config`, and the log of the gateway.
async fn reported_warnings(folder: &TempDir) -> (String, String, String) {
    let (code, _, checked) = run(&["check", "hookgate.yaml"], folder.path());
    assert_eq!(code, 0, "{checked}");
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    let operator = Agent::at(served.operators());
    let page = operator.get("/config").await.json();
    let overview = operator.get("/overview").await.json();
    let counted = page["warnings"].as_array().map(Vec::len);
    assert_eq!(
        overview["config"]["warnings"].as_u64(),
        counted.map(|count| count as u64)
    );
    served.terminate();
    let (_, log) = served.ended(TEST_TIMEOUT);
    (checked, page["warnings"].to_string(), log)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warnings_of_a_rollout_are_reported() {
    let next = "upstreams: { gemini: { url: \"http://127.0.0.1:1\" } }\nhooks:\n  BeforeTool:\n    - hooks:\n        - { name: lax, command: ./absent.sh }\n        - { name: strict, command: cat, on_failure: closed }\n";
    let folder = rollout_folder("next.yaml", &[("next.yaml", next)]);
    let open = "hook `lax` on BeforeTool fails open";

    let (checked, warnings, log) = reported_warnings(&folder).await;

    for warning in [open, "hook `strict` on BeforeTool fails closed"] {
        let mut lines = checked.lines();
        let is_printed =
            lines.any(|line| line.starts_with("warning: next.yaml:") && line.contains(warning));
        assert!(is_printed, "{warning}: {checked}");
    }
    assert!(warnings.contains(open), "{warnings}");
    let mut lines = log.lines();
    let is_logged = lines.any(|line| line.contains("config warning") && line.contains(open));
    assert!(is_logged, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warning_about_both_configs_of_a_rollout_is_reported_once() {
    let next = "upstreams: { gemini: { url: \"http://127.0.0.1:1\" } }\ndenials: error\n";
    let folder = rollout_folder("next.yaml", &[("next.yaml", next)]);
    let file = folder.path().join("hookgate.yaml");
    let config = fs::read_to_string(&file).unwrap();
    let hash = "a".repeat(64);
    let auth = format!("auth: {{ keys: [{{ name: a, sha256: {hash}, models: [models/m] }}] }}\n");
    fs::write(&file, config + &auth).unwrap();
    let count = |text: &str| text.matches("matches no model of Google's APIs").count();

    let (checked, warnings, log) = reported_warnings(&folder).await;

    assert_eq!(count(&checked), 1, "{checked}");
    assert_eq!(count(&warnings), 1, "{warnings}");
    assert_eq!(count(&log), 1, "{log}");
}

#[test]
fn a_rollout_whose_workers_leave_no_process_slot_is_refused() {
    let worker = |name: &str, slots: usize| {
        format!(
            "limits: {{ hook_processes: {slots} }}\nhooks:\n  BeforeModel:\n    - hooks: [{{ \
             type: worker, name: {name}, command: cat }}]\n"
        )
    };
    for (name, is_refused) in [("other", true), ("same", false)] {
        let upstreams = "upstreams: { gemini: { url: \"http://127.0.0.1:1\" } }\n";
        let next = format!("{upstreams}{}", worker(name, 9));
        let folder = rollout_folder("next.yaml", &[("next.yaml", next.as_str())]);
        let path = folder.path().join("hookgate.yaml");
        let config = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{config}{}", worker("same", 2))).unwrap();

        let (code, _, err) = run(&["check", "hookgate.yaml"], folder.path());

        let problem = "hookgate.yaml:3:16: rollout: `instances` of the workers of both configs \
                       together must be fewer than `limits.hook_processes`";
        assert_eq!(err.contains(problem), is_refused, "{err}");
        assert_eq!(code == 78, is_refused, "{code}: {err}");
    }
}

#[test]
fn a_version_that_is_kept_elsewhere_is_a_warning_of_check() {
    let folder = rollout_folder("f00dfeedf00dfeed", &[]);

    let (code, _, checked) = run(&["check", "hookgate.yaml"], folder.path());
    let (status, _) = ServerProcess::folder(folder.path()).ended(TEST_TIMEOUT);

    assert_eq!((code, status.code()), (0, Some(78)));
    let warning = "warning: hookgate.yaml:3:16: rollout: no revision of the config has the version";
    assert!(checked.contains(warning), "{checked}");
}

#[test]
fn check_accepts_a_rollout_and_stores_no_revision() {
    let next = "upstreams: { gemini: { url: \"http://127.0.0.1:1\" } }\n";
    let folder = rollout_folder("next.yaml", &[("next.yaml", next)]);

    let (code, out, err) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(!folder.path().join("revisions").exists());
}

#[test]
fn steps_that_never_happen_are_a_warning_of_check() {
    let next = "upstreams: { gemini: { url: \"http://127.0.0.1:1\" } }\n";
    let folder = rollout_folder("next.yaml, steps: [1]", &[("next.yaml", next)]);

    let (code, _, err) = run(&["check", "hookgate.yaml"], folder.path());

    let warning = "no step is larger than `percent`, so the share stays 1 %";
    assert!(code == 0 && err.contains(warning), "{code}: {err}");
}

#[test]
fn check_proves_the_guards_of_a_rollout() {
    let next = "upstreams: { gemini: { url: \"http://127.0.0.1:1\" } }\n\
        policies: [{ policy: prompt_guard, deny: [apple], must_deny: [{ prompt: a pear }] }]\n";
    let folder = rollout_folder("next.yaml", &[("next.yaml", next)]);

    let (code, _, err) = run(&["check", "--prove", "hookgate.yaml"], folder.path());

    assert_eq!(code, 78, "{err}");
    assert!(err.contains("next.yaml:2:"), "{err}");
    assert!(err.contains("must deny"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_of_the_new_config_that_stops_working_is_unproven() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let guard = "hooks: { BeforeModel: [{ hooks: [{ name: words, command: bash guard.sh, \
                 on_failure: closed, must_deny: [{ prompt: banana }] }] }] }\n";
    let rest = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nrevisions: {{ path: revisions }}\n",
        upstream.addr
    );
    write("guard.sh", "grep -q banana && exit 2; exit 0");
    write(
        "next.yaml",
        &format!("proof: {{ every: 200ms }}\n{guard}{rest}"),
    );
    write(
        "hookgate.yaml",
        &format!("{rest}rollout: {{ to: next.yaml, percent: 100 }}\n"),
    );
    let mut served = ServerProcess::folder(folder.path());
    let (agent, operator) = (Agent::at(served.addr()), Agent::at(served.operators()));
    assert!(is_denied(&agent, "banana").await);
    assert!(!is_denied(&agent, "hello").await);

    write("guard.sh", "exit 0");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !is_denied(&agent, "banana").await {
        assert!(Instant::now() < deadline, "the guard is still proven");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let ready = operator.get("/readyz").await;
    assert_eq!(ready.json()["status"], "ok; guards not proven: words");
    assert_eq!(
        operator
            .metric("hookgate_guard_proven{hook=\"words\"}")
            .await,
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_of_both_configs_is_unproven_if_its_proof_fails_in_the_new_one() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let config = |cases: &str| {
        format!(
            "hooks: {{ BeforeModel: [{{ hooks: [{{ name: words, command: bash guard.sh, \
             on_failure: closed, must_deny: [{cases}] }}] }}] }}\nproof: {{ every: 200ms }}\n\
             upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nrevisions: {{ path: revisions }}\n",
            upstream.addr
        )
    };
    write("guard.sh", "grep -qE 'apple|banana' && exit 2; exit 0");
    write(
        "hookgate.yaml",
        &config("{ prompt: apple }, { prompt: banana }"),
    );
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    let operator = Agent::at(served.operators());
    let version = operator.get("/config").await.json()["version"].clone();
    let rollout = format!("rollout: {{ to: {version}, percent: 50 }}\n");
    write("hookgate.yaml", &(config("{ prompt: apple }") + &rollout));
    let reloaded = operator.post("/reload", "").await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());

    write("guard.sh", "grep -q apple && exit 2; exit 0");
    let deadline = Instant::now() + TEST_TIMEOUT;
    let unproven = "guards not proven: words";
    while !operator.get("/readyz").await.text().contains(unproven) {
        assert!(Instant::now() < deadline, "the guard is still proven");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    for path in ["/rules", "/hooks"] {
        let hooks = operator.get(path).await.json();
        assert_eq!(hooks.as_array().unwrap().len(), 1, "{path}: {hooks:#}");
        assert_eq!(hooks[0]["proof"]["proven"], false, "{path}: {hooks:#}");
    }
    let rules = operator.get("/rules").await.json();
    assert_eq!(rules[0]["remarks"][0], "not_proven", "{rules:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_lists_the_upstreams_of_both_configs() {
    let gateway = Rollout::start("{ to: next.yaml, percent: 50 }").await;
    let addr = gateway.upstream.addr;
    let next = format!(
        "upstreams: {{ gemini: {{ url: \"http://{addr}\" }}, vertex: {{ url: \"http://{addr}\" }} }}\n\
         audit: {{ path: audit.jsonl, mode: best_effort }}\n\
         revisions: {{ path: revisions }}\n"
    );
    fs::write(gateway.folder.path().join("next.yaml"), next).unwrap();
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);

    let overview = gateway.operator.get("/overview").await.json();

    let upstreams = overview["upstreams"].as_array().unwrap().iter();
    let names: Vec<&str> = upstreams
        .map(|upstream| upstream["name"].as_str().unwrap())
        .collect();
    let expected = ["gemini", "vertex", "code_assist", "anthropic", "openai"];
    assert_eq!(names, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_circuit_of_the_new_config_is_shown() {
    let upstream = Upstream::mock().await;
    let unused = closed_port();
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let config = |addr| {
        format!(
            "upstreams: {{ gemini: {{ url: \"http://{addr}\", circuit: {{ failures: 1 }} }} }}\n\
             revisions: {{ path: revisions }}\n"
        )
    };
    write("next.yaml", &config(unused.local_addr().unwrap()));
    let rollout = "rollout: { to: next.yaml, percent: 100 }\n";
    write("hookgate.yaml", &(config(upstream.addr) + rollout));
    let mut served = ServerProcess::folder(folder.path());
    let (agent, operator) = (Agent::at(served.addr()), Agent::at(served.operators()));
    let metric = "hookgate_circuit_breaker_open{upstream=\"gemini\"}";
    assert_eq!(operator.metric(metric).await, 0);

    let answer = agent.generate("m", &prompt("hello")).await;

    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(operator.metric(metric).await, 1);
    let ready = operator.get("/readyz").await;
    assert_eq!(ready.json()["status"], "ok; circuit breaker open: gemini");
    let overview = operator.get("/overview").await.json();
    assert_eq!(
        overview["upstreams"],
        json!([{ "name": "gemini", "circuit_open": true }])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_the_new_config_are_recorded_with_its_patterns() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let rest = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nrevisions: {{ path: revisions }}\n\
         record: {{ path: recordings }}\n",
        upstream.addr
    );
    let patterns = "policies: [{ policy: redact, patterns: { ticket: 'TCK-[0-9]{6}' } }]\n";
    write("next.yaml", &format!("{patterns}{rest}"));
    write(
        "hookgate.yaml",
        &format!("{rest}rollout: {{ to: next.yaml, percent: 100 }}\n"),
    );
    let mut served = ServerProcess::folder(folder.path());
    let (agent, operator) = (Agent::at(served.addr()), Agent::at(served.operators()));

    assert!(!is_denied(&agent, "hello").await);

    let deadline = Instant::now() + TEST_TIMEOUT;
    while operator.metric("hookgate_recording_exchanges_total").await == 0 {
        assert!(Instant::now() < deadline, "nothing is recorded");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_see_the_rules_of_both_configs() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let rest = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nrevisions: {{ path: revisions }}\n",
        upstream.addr
    );
    let next = "hooks: { BeforeModel: [{ hooks: [{ name: newguard, command: exit 1 }] }] }\n";
    write("next.yaml", &format!("{next}{rest}"));
    let current = "policies: [{ policy: prompt_guard, name: words, deny: [apple] }]\n";
    let rollout = "rollout: { to: next.yaml, percent: 100 }\n";
    write("hookgate.yaml", &format!("{current}{rest}{rollout}"));
    let mut served = ServerProcess::folder(folder.path());
    let (agent, operators) = (Agent::at(served.addr()), served.operators());

    assert!(!is_denied(&agent, "apple").await);

    let rules = Agent::at(operators).get("/rules").await.json();
    let rules = rules.as_array().unwrap().iter();
    let seen: Vec<Value> = rules
        .map(|rule| json!([rule["name"], rule["candidate"], rule["failed"]]))
        .collect();
    assert_eq!(
        seen,
        [json!(["words", null, 0]), json!(["newguard", true, 1])]
    );
    let browser = Browser::at_address(operators);
    let page = browser.get("/console/rules").await.html;
    assert!(page.contains("newguard"), "{page}");
    let page = browser.get("/console/").await.html;
    assert!(!page.contains("No hook failed in 24 h."), "{page}");
    assert!(page.contains("newguard × 1"), "{page}");
    assert!(page.contains("failing × 1 in the rollout"), "{page}");
}

/// Returns mode, `candidate` and number of runs of each rule.
async fn runs_of_rules(operator: &Agent) -> Vec<Value> {
    let rules = operator.get("/rules").await.json();
    let rules = rules.as_array().unwrap().iter();
    rules
        .map(|rule| json!([rule["mode"], rule["candidate"], rule["asked"]]))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_with_another_mode_in_a_kept_revision_is_counted_apart() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let write = |first: &str, mode: &str, rollout: &str| {
        let config = format!(
            "{first}hooks: {{ BeforeModel: [{{ hooks: [{{ name: words, command: exit 2, mode: {mode} }}] }}] }}\n\
             upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nrevisions: {{ path: revisions }}\n{rollout}",
            upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    };
    write("", "enforce", "");
    let mut served = ServerProcess::folder(folder.path());
    let (agent, operator) = (Agent::at(served.addr()), Agent::at(served.operators()));
    let version = operator.get("/config").await.json()["version"].clone();
    let rollout = format!("rollout: {{ to: {version}, percent: 100 }}\n");

    write("", "observe", &rollout);
    assert_eq!(operator.post("/reload", "").await.status, 200);
    for _ in 0..3 {
        assert!(is_denied(&agent, "hello").await);
    }
    let runs = runs_of_rules(&operator).await;
    // A reload moves the hook in use to another line.
    write("ask: allow\n", "observe", &rollout);
    assert_eq!(operator.post("/reload", "").await.status, 200);
    let runs_after_reload = runs_of_rules(&operator).await;

    let expected = [json!(["observe", null, 0]), json!(["enforce", true, 3])];
    assert_eq!(runs, expected);
    assert_eq!(runs_after_reload, expected);
}

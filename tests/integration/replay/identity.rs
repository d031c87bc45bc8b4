//! Replay under the recorded config: streams, denied tools, secrets split over chunks, resumed and
//! forked sessions, in every dialect.

use std::{collections::BTreeMap, io::Write, time::Duration};

use data_encoding::HEXLOWER;
use flate2::{Compression, write::GzEncoder};
use hookgate::recording::RecordedExchange;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    changes::base,
    conversations::{Call, SECRET, Topic, TurnKind, sessions, split_secrets},
    recorded::RecordedCalls,
};
use crate::{
    families::family::{ALL, Family, Turn},
    harness::{Agent, prompt},
};

/// Hooks on all events of a session; their outputs are recorded.
const HOOKS: &str = "hooks:
  SessionStart: [{ hooks: [{ name: start, command: \"cat > /dev/null; echo '{\\\"hookSpecificOutput\\\":{\\\"additionalContext\\\":\\\"remember\\\"}}'\" }] }]
  BeforeAgent: [{ hooks: [{ name: agent, command: cat > /dev/null }] }]
  BeforeTool: [{ hooks: [{ name: tool, command: cat > /dev/null }] }]
  AfterTool: [{ hooks: [{ name: result, command: \"cat > /dev/null; echo '{\\\"decision\\\":\\\"deny\\\",\\\"reason\\\":\\\"hidden\\\"}'\" }] }]
";

/// Features that the calls of each dialect must have, and their minimum counts.
const MIN_FEATURE_COUNTS: &[(&str, usize)] = &[
    ("stream", 40),
    ("denied tool", 4),
    ("masked answer", 20),
    ("new", 20),
    ("continued", 6),
    ("rolled_back", 2),
    ("forked", 1),
];

#[track_caller]
fn assert_unchanged(report: &Value, calls: usize) {
    let counts = &report["counts"];
    assert_eq!(counts["calls"], calls, "{report:#}");
    assert_eq!(counts["unchanged"], calls, "{report:#}");
    assert_eq!(report["samples"], serde_json::json!({}), "{report:#}");
    assert_eq!(report["damaged"]["count"], 0, "{report:#}");
}

/// Counts the features of the calls of each dialect.
fn count_features(exchanges: &[RecordedExchange]) -> BTreeMap<&str, BTreeMap<String, usize>> {
    let mut features = BTreeMap::<_, BTreeMap<_, _>>::new();
    for exchange in exchanges {
        let line = serde_json::to_string(exchange).unwrap();
        let answer = serde_json::to_string(&exchange.answer).unwrap();
        let count = features.entry(exchange.dialect.as_str()).or_default();
        let mut add = |feature: &str| *count.entry(feature.to_owned()).or_default() += 1;
        add(&exchange.session.as_ref().unwrap().match_kind);
        if exchange.outcome.tool_denied {
            add("denied tool");
        }
        if line.contains("event-stream") {
            add("stream");
        }
        if answer.contains("[REDACTED:aws_key]") && !answer.contains(SECRET) {
            add("masked answer");
        }
    }
    features
}

/// Number of repetitions of all calls; `HOOKGATE_REPLAYS=40` makes more than 10,000 calls.
fn repetitions() -> usize {
    let number = std::env::var("HOOKGATE_REPLAYS").ok();
    number.map_or(1, |number| number.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_under_the_recorded_config_changes_nothing() {
    let mut calls = Vec::new();
    for number in 0..repetitions() {
        for mut call in [Call::every(), split_secrets(), sessions()].concat() {
            for (_, text) in &mut call.turns {
                text.insert_str(0, &format!("{number} "));
            }
            if !call.session.is_empty() {
                call.session = format!("{number}{}", call.session);
            }
            calls.push(call);
        }
    }
    let count = calls.len();

    let recorded = RecordedCalls::record(&base(), calls).await;

    let exchanges = recorded.exchanges();
    let features = count_features(&exchanges);
    assert_eq!(features.len(), ALL.len(), "{features:#?}");
    for (dialect, counts) in &features {
        for (feature, minimum) in MIN_FEATURE_COUNTS {
            let number = counts.get(*feature).copied().unwrap_or_default();
            assert!(number >= *minimum, "{dialect}: {feature}: {counts:#?}");
        }
    }
    assert_unchanged(&recorded.report("base.yaml", &[]), count);
    assert_unchanged(
        &recorded.report("base.yaml", &["--against", "base.yaml"]),
        count,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_two_keys_with_one_name_are_replayed_apart() {
    let config = "policies: [{ policy: request_limits, max_calls: 3 }]\n";
    let send = async |agent: &Agent| {
        for number in 0..3 {
            for key in ["k1", "k2"] {
                let agent = Agent::at_base(&agent.base)
                    .sending("x-goog-api-key", key)
                    .sending("x-hookgate-session", "S1");
                let answer = agent.generate("m", &prompt(&format!("{number}"))).await;
                assert_eq!(answer.header("x-hookgate-action"), "pass");
            }
        }
    };

    let recorded = RecordedCalls::record_requests("", config, send).await;

    let exchanges = recorded.exchanges();
    let keys = exchanges.iter().map(|exchange| &exchange.caller_key);
    let keys: std::collections::BTreeSet<_> = keys.collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert_unchanged(&recorded.report("base.yaml", &[]), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_for_the_key_of_a_caller_without_a_name_are_replayed() {
    let key = HEXLOWER.encode(&Sha256::digest("k1"));
    let config = |denied: &str| {
        let guard = format!("policy: prompt_guard, name: words, deny: [{denied}]");
        format!("policies: [{{ {guard}, when: 'caller.key == \"{key}\"' }}]\n")
    };
    let send = async |agent: &Agent| {
        for (key, word, action) in [
            ("k1", "forbidden", "deny"),
            ("k2", "forbidden", "pass"),
            ("k1", "aurora", "pass"),
            ("k2", "aurora", "pass"),
        ] {
            let agent = agent.clone().sending("x-goog-api-key", key);
            let answer = agent.generate("m", &prompt(word)).await;
            assert_eq!(answer.header("x-hookgate-action"), action, "{key} {word}");
        }
    };
    let recorded = RecordedCalls::record_requests("", &config("forbidden"), send).await;
    recorded.write_config("next.yaml", &config("forbidden, aurora"));

    assert_unchanged(&recorded.report("base.yaml", &[]), 4);
    let arguments: [&[&str]; 2] = [&[], &["--against", "base.yaml"]];
    for arguments in arguments {
        let report = recorded.report("next.yaml", arguments);
        assert_eq!(report["counts"]["newly_denied"], 1, "{report:#}");
        assert_eq!(report["counts"]["unchanged"], 3, "{report:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_with_recorded_hook_outputs_changes_nothing() {
    let config = format!("{}{HOOKS}", base());
    let calls = sessions();
    let count = calls.len();

    let recorded = RecordedCalls::record(&config, calls).await;

    assert_unchanged(
        &recorded.report("base.yaml", &["--hooks", "recorded"]),
        count,
    );
    assert_unchanged(&recorded.report("base.yaml", &[]), count);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_adds_the_recorded_feedback_of_hooks_of_claude_code() {
    for command in [
        "echo 'run the tests' >&2; exit 2",
        r#"echo '{"decision":"block","reason":"run the tests","hookSpecificOutput":{"additionalContext":"one file"}}'"#,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        let command = format!("cat > /dev/null; {command}");
        let hook = json!({ "type": "command", "name": "linter", "command": command });
        let settings = json!({ "hooks": { "PostToolUse": [{ "hooks": [hook] }] } });
        std::fs::write(&path, settings.to_string()).unwrap();
        let file = json!({ "path": path, "protocol": "claude" });
        let config = format!("{}hook_files: [{file}]\n", base());
        let calls = sessions();
        let count = calls.len();

        let recorded = RecordedCalls::record(&config, calls).await;

        let exchanges = serde_json::to_string(&recorded.exchanges()).unwrap();
        assert!(exchanges.contains("run the tests"), "{command}");
        assert_unchanged(&recorded.report("base.yaml", &[]), count);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_body_did_not_arrive_completely_is_unknown() {
    let send_cut_body = async |agent: &Agent| {
        let agent = agent.clone().sending("x-hookgate-key", "ci");
        let agent = agent.sending("content-encoding", "gzip");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let body = prompt(&"hello ".repeat(100)).to_string();
        encoder.write_all(body.as_bytes()).unwrap();
        let mut body = encoder.finish().unwrap();
        body.truncate(body.len() - 9);
        let answer = agent.post(Family::Gemini.path(false), body).await;
        assert!(answer.text().contains("BODY_BROKEN"), "{}", answer.text());
    };
    let recorded = RecordedCalls::record_requests("", &base(), send_cut_body).await;

    let report = recorded.report("base.yaml", &[]);

    assert_eq!(report["counts"]["unknown"], 1, "{report:#}");
    assert_eq!(report["unknown"]["request_not_recorded"], 1, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_an_unsupported_encoding_is_unknown() {
    let send = async |agent: &Agent| {
        let agent = agent.clone().sending("x-hookgate-key", "ci");
        let agent = agent.sending("content-encoding", "br");
        let answer = agent.post(Family::Gemini.path(false), "{}").await;
        assert_eq!(answer.status, 415, "{}", answer.text());
    };
    let recorded = RecordedCalls::record_requests("", &base(), send).await;

    let report = recorded.report("base.yaml", &[]);

    assert_eq!(report["unknown"]["request_not_recorded"], 1, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_continues_a_response_which_is_not_recorded_is_unknown() {
    let config = format!("{}coverage: {{ allow: [responses.state] }}\n", base());
    let send = async |agent: &Agent| {
        let agent = agent.clone().sending("x-hookgate-key", "ci");
        for previous in [Value::Null, "resp_1".into()] {
            let mut body = Family::Responses.request(false, &[Turn::User("hello [[text|ok]]")]);
            body["store"] = true.into();
            body["previous_response_id"] = previous;
            let path = Family::Responses.path(false);
            let answer = agent.post(path, body.to_string()).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            // The first call is older than the time from which on calls are replayed.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let recorded = RecordedCalls::record_requests("", &config, send).await;
    let since = recorded.exchanges()[1].time.clone();

    let all = recorded.report("base.yaml", &[]);
    let second = recorded.report("base.yaml", &["--since", &since]);

    assert_eq!(all["counts"]["newly_denied"], 0, "{all:#}");
    assert_eq!(second["counts"]["calls"], 1, "{second:#}");
    assert_eq!(second["unknown"]["session_incomplete"], 1, "{second:#}");
}

/// Returns `base` with hashes under a random key in the place of masks.
fn hashing() -> String {
    base().replace("detect: [aws_key]", "detect: [aws_key], action: hash")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashes_under_a_random_key_are_equal_in_replays_and_unknown_beside_a_recording() {
    let calls = Call::every();
    let count = calls.len();
    let recorded = RecordedCalls::record(&hashing(), calls).await;

    let against = recorded.report("base.yaml", &["--against", "base.yaml"]);
    let report = recorded.report("base.yaml", &[]);

    assert_unchanged(&against, count);
    let counts = &report["counts"];
    assert_eq!(counts["edited"], 0, "{report:#}");
    let unknown = &report["unknown"]["hash_key_unknown"];
    assert_eq!(unknown, &counts["unknown"], "{report:#}");
    assert!(unknown.as_u64().unwrap() > 0, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masked_calls_are_unknown_where_redaction_differs() {
    let topics = [Topic::SecretPrompt, Topic::SecretAnswer, Topic::Text];
    let calls = topics.map(|topic| Call::single(Family::Gemini, true, topic, "ci"));
    let recorded = RecordedCalls::record_with(", redact: all", &base(), calls).await;
    recorded.write_config("next.yaml", &base().replace("aws_key", "email"));
    recorded.write_config("same.yaml", &base().replace("deny: [rm]", "deny: [look]"));

    let next = recorded.report("next.yaml", &["--against", "base.yaml"]);
    let same = recorded.report("same.yaml", &["--against", "base.yaml"]);

    assert_eq!(next["counts"]["masked"], 2, "{next:#}");
    assert_eq!(next["unknown"]["masked"], 2, "{next:#}");
    assert_eq!(next["counts"]["unchanged"], 1, "{next:#}");
    assert_eq!(same["counts"]["unchanged"], 3, "{same:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_setting_ask_is_part_of_the_replayed_config() {
    let hook = "hooks:
  BeforeTool: [{ matcher: look, hooks: [{ name: asker, command: \"cat > /dev/null; echo '{\\\"decision\\\":\\\"ask\\\",\\\"reason\\\":\\\"not here\\\"}'\" }] }]\n";
    for (before, after, difference) in [
        ("deny", "allow", "newly_allowed"),
        ("allow", "deny", "newly_denied"),
    ] {
        let config = |ask: &str| format!("{}ask: {ask}\n{hook}", base());
        let call = Call::single(Family::Gemini, true, Topic::Look, "ci");
        let recorded = RecordedCalls::record(&config(before), [call]).await;
        recorded.write_config("next.yaml", &config(after));

        assert_unchanged(&recorded.report("base.yaml", &[]), 1);
        let report = recorded.report("next.yaml", &[]);
        assert_eq!(report["counts"][difference], 1, "{report:#}");
        assert_eq!(report["rules"]["asker"][difference], 1, "{report:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_allows_a_chunk_and_denies_a_later_one_is_replayed_unchanged() {
    let hook = r#"hooks:
  AfterModel: [{ hooks: [{ name: guard, command: "case \"$(cat)\" in *llm_response*forbidden*) echo '{\"decision\":\"deny\",\"reason\":\"no\"}';; *) echo '{\"decision\":\"allow\"}';; esac" }] }]
"#;
    let prompt = "one [[text|fine|still fine|forbidden]]".to_owned();
    let call = Call {
        turns: vec![(TurnKind::User, prompt)],
        ..Call::single(Family::Gemini, true, Topic::Text, "ci")
    };
    let recorded = RecordedCalls::record(hook, [call]).await;
    let exchange = recorded.exchanges().remove(0);
    let runs = exchange.events.iter().flat_map(|event| &event.hooks);
    let decisions: Vec<&Value> = runs.map(|run| &run.output["decision"]).collect();
    assert_eq!(decisions, ["allow", "allow", "deny"]);

    assert_unchanged(&recorded.report("base.yaml", &[]), 1);
    assert_unchanged(&recorded.report("base.yaml", &["--hooks", "run"]), 1);
}

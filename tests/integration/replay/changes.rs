//! Config changes, and the calls whose outcome each of them changes.

mod cases;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use self::cases::{content_and_callers, models_and_prompts, tools};
use super::{
    commands::fail_on_of_job,
    conversations::{Call, REASON, Topic, TurnKind, sessions, upstream},
    recorded::{RecordedCalls, UPSTREAMS},
};
use crate::{
    families::family::{ALL, Family},
    harness::{Agent, ServerProcess, TEST_TIMEOUT, prompt},
};

const MASK: &str = "{ policy: redact, name: mask, detect: [aws_key] }";

fn guard(settings: &str) -> String {
    format!("{{ policy: tool_guard, name: guard, reason: {REASON}, {settings} }}")
}

/// A config with these callers and policies.
fn config(callers: &[(&str, &str)], policies: &[&str]) -> String {
    let callers = callers.iter().map(|(name, grant)| {
        let hash = HEXLOWER.encode(&Sha256::digest(name));
        format!("    - {{ name: {name}, sha256: \"{hash}\", {grant} }}\n")
    });
    let policies = policies.iter().map(|policy| format!("  - {policy}\n"));
    let lines: Vec<String> = ["auth:\n  keys:\n".to_owned()]
        .into_iter()
        .chain(callers)
        .chain(["policies:\n".to_owned()])
        .chain(policies)
        .collect();
    lines.concat()
}

const CALLERS: &[(&str, &str)] = &[("ci", ""), ("dev", "")];

/// The config under which all calls are recorded.
pub fn base() -> String {
    config(CALLERS, &[MASK, &guard("deny: [rm]")])
}

/// Kinds of differences that a report counts.
const KINDS: &[&str] = &["newly_denied", "newly_allowed", "edited"];

/// Returns the kind of difference of each changed call in the samples of a report.
fn sampled_changes(report: &Value) -> BTreeMap<String, String> {
    let samples = report["samples"].as_object().unwrap();
    let calls = samples.iter().flat_map(|(kind, samples)| {
        let samples = samples.as_array().unwrap().iter();
        samples.map(move |sample| (sample["request"].as_str().unwrap().to_owned(), kind.clone()))
    });
    calls.collect()
}

/// Samples of one kind that a report has at most.
const MAX_SAMPLES: usize = 20;

/// Checks that the report has exactly these changed calls. A kind with more calls than samples has
/// all calls of some callers and none of the others, so the counts per caller are compared.
#[track_caller]
fn assert_changed_calls(
    name: &str,
    report: &Value,
    expected: &BTreeMap<&str, &str>,
    all: &RecordedCalls,
) {
    let found = sampled_changes(report);
    for kind in KINDS {
        let is_kind = |id: &&str| {
            expected
                .get(id)
                .is_some_and(|expected_kind| expected_kind == kind)
        };
        let ids = all.calls.keys().map(String::as_str);
        let expected: BTreeSet<&str> = ids.filter(is_kind).collect();
        let found = found.iter().filter(|(_, found_kind)| found_kind == kind);
        let found: BTreeSet<&str> = found.map(|(id, _)| id.as_str()).collect();
        if expected.len() <= MAX_SAMPLES {
            assert_eq!(found, expected, "{name}: {kind}: {report:#}");
            continue;
        }
        for caller in ["ci", "dev"] {
            let of_caller = all.calls.iter().filter(|(_, call)| call.caller == caller);
            let (changed, unchanged): (Vec<_>, Vec<_>) =
                of_caller.partition(|(id, _)| expected.contains(id.as_str()));
            assert!(
                changed.is_empty() || unchanged.is_empty(),
                "{name}: {caller}"
            );
            let count = report["callers"][caller][*kind]
                .as_u64()
                .unwrap_or_default();
            assert_eq!(count, changed.len() as u64, "{name}: {caller}: {report:#}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_change_affects_exactly_the_expected_calls() {
    let recorded = RecordedCalls::record(&base(), Call::every()).await;
    let changes = [models_and_prompts(), tools(), content_and_callers()].concat();
    assert!(changes.len() >= 40, "{}", changes.len());
    for (number, (name, config, expected)) in changes.into_iter().enumerate() {
        recorded.write_config("next.yaml", &config);
        let report = recorded.report("next.yaml", &[]);
        let calls = recorded.calls.iter();
        let expected: BTreeMap<&str, &str> = calls
            .filter_map(|(id, call)| Some((id.as_str(), expected(call)?)))
            .collect();
        let count = |kind: &str| {
            expected
                .values()
                .filter(|expected_kind| **expected_kind == kind)
                .count()
        };
        for kind in KINDS {
            assert_eq!(
                report["counts"][*kind],
                count(kind),
                "{name}: {kind}: {report:#}"
            );
        }
        assert_eq!(report["counts"]["unknown"], 0, "{name}: {report:#}");
        assert_changed_calls(name, &report, &expected, &recorded);
        if number.is_multiple_of(8) {
            // A comparison with a replay of the recorded config has the same result.
            let against = recorded.report("next.yaml", &["--against", "base.yaml"]);
            assert_eq!(against["counts"], report["counts"], "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_policy_of_a_gateway_denies_calls_of_named_sessions() {
    let calls = sessions();
    let count = calls.len();
    let recorded = RecordedCalls::record("", calls).await;
    recorded.write_config(
        "next.yaml",
        "policies: [{ policy: model_allow, models: [other] }]\n",
    );

    let report = recorded.report("next.yaml", &[]);

    assert_eq!(report["counts"]["newly_denied"], count, "{report:#}");
    assert_eq!(report["counts"]["unknown"], 0, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_difference_in_a_session_of_another_caller_hides_no_edit() {
    let calls = [(Topic::Aurora, "ci"), (Topic::SecretPrompt, "dev")].map(|(topic, caller)| Call {
        session: "main".to_owned(),
        ..Call::single(Family::Gemini, true, topic, caller)
    });
    let recorded = RecordedCalls::record(&base(), calls).await;
    let prompts = "{ policy: prompt_guard, name: prompts, deny: [aurora] }";
    let next = config(CALLERS, &[prompts, &guard("deny: [rm]")]);
    recorded.write_config("next.yaml", &next);

    let report = recorded.report("next.yaml", &[]);

    let counts = &report["counts"];
    assert_eq!(counts["newly_denied"], 1, "{report:#}");
    assert_eq!(counts["edited"], 1, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_of_a_declared_tool_is_newly_denied_in_calls_of_the_tool() {
    let call = |family: Family, answer: &str| Call {
        turns: vec![(TurnKind::User, format!("hello [[{answer}]]"))],
        session: format!("{family:?}{}", answer.len()),
        ..Call::single(family, true, Topic::Tools, "ci")
    };
    let calls = ALL.iter().flat_map(|family| {
        let answers = ["call|look|a", "text|ok"];
        answers.map(|answer| call(*family, answer))
    });
    let recorded = RecordedCalls::record(&base(), calls).await;
    recorded.write_config(
        "next.yaml",
        &config(CALLERS, &[MASK, &guard("deny: [look, rm]")]),
    );

    let none: &[&str] = &[];
    for against in [none, &["--against", "base.yaml"]] {
        let report = recorded.report("next.yaml", against);

        let counts = &report["counts"];
        assert_eq!(counts["newly_denied"], ALL.len(), "{report:#}");
        assert_eq!(counts["edited"], ALL.len(), "{report:#}");
        let tool = &report["tools"]["look"]["newly_denied"];
        assert_eq!(*tool, ALL.len(), "{report:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jobs_for_ci_find_a_tool_that_is_not_declared_any_more() {
    let call = Call::single(Family::Gemini, true, Topic::Tools, "ci");
    let recorded = RecordedCalls::record(&base(), [call]).await;
    recorded.write_config(
        "next.yaml",
        &config(CALLERS, &[MASK, &guard("deny: [look, rm]")]),
    );

    for job in ["github", "gitlab"] {
        let condition = fail_on_of_job(job);
        let arguments = ["--against", "base.yaml", "--fail-on", &condition];
        let (code, out, err) = recorded.replay("next.yaml", &arguments);
        assert_eq!(code, 1, "{out}{err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_a_session_begin_anew_where_the_gateway_restarted() {
    let limits = "policies: [{ policy: request_limits, max_calls: 3 }]\n";
    let hooks = "hooks: { AfterTool: [{ hooks: [{ command: 'cat > /dev/null' }] }] }\n";
    // Hooks on tools need the state of the session, so that the second gateway finds none.
    for config in [limits.to_owned(), format!("{limits}{hooks}")] {
        let model = upstream().await;
        let folder = TempDir::new().unwrap();
        let record = "record: { path: recordings, what: { sample: 1 }, redact: none }\n";
        let url = format!("http://{}", model.addr);
        let served = format!("{UPSTREAMS}{record}{config}").replace("{upstream}", &url);
        fs::write(folder.path().join("hookgate.yaml"), served).unwrap();
        for _ in 0..2 {
            let mut gateway = ServerProcess::folder(folder.path());
            let agent = Agent::at(gateway.addr()).sending("x-hookgate-session", "main");
            for number in 0..3 {
                let body = prompt(&format!("task {number} [[text|ok]]"));
                assert_eq!(agent.generate("m", &body).await.status, 200);
            }
            gateway.terminate();
            gateway.ended(TEST_TIMEOUT);
        }
        let recorded = RecordedCalls {
            folder,
            calls: BTreeMap::new(),
        };
        recorded.write_config("base.yaml", &config);

        let report = recorded.report("base.yaml", &[]);

        assert_eq!(report["counts"]["unchanged"], 6, "{report:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_array_stream_that_a_slow_hook_delayed_is_unchanged() {
    let config = "timeouts: { keep_alive: 100ms }
hooks: { BeforeModel: [{ hooks: [{ command: \"cat > /dev/null; sleep 1\" }] }] }\n";
    let send = async |agent: &Agent| {
        let answer = agent.array("m", &prompt("hello [[text|ok]]")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let recorded = RecordedCalls::record_requests("", config, send).await;
    let target = &recorded.exchanges()[0].rounds[0].target;
    assert!(target.contains("alt=sse"), "{target}");

    let report = recorded.report("base.yaml", &[]);

    assert_eq!(report["counts"]["unchanged"], 1, "{report:#}");
}

//! Shadow reports: equal to those of a replay, in metrics, the decision log and the command.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{AMPLE_BUDGET, ShadowGateway, make_calls, write_config};
use crate::{
    harness::{hookgate, prompt, run},
    replay::{
        changes::base,
        conversations::{Call, sessions},
    },
};

/// Returns a report without fields that differ from run to run, and with sorted samples.
fn without_volatile_fields(report: &Value) -> Value {
    let mut report = report.clone();
    let fields = report.as_object_mut().unwrap();
    fields.remove("before");
    fields.remove("times");
    fields.remove("effort");
    let samples = fields["samples"].as_object_mut().unwrap();
    for samples in samples.values_mut() {
        let samples = samples.as_array_mut().unwrap();
        samples.sort_by_key(ToString::to_string);
    }
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_report_equals_that_of_a_replay_of_the_same_calls() {
    let candidates = [
        base(),
        base().replace("deny: [rm]", "allow: [rm]"),
        base().replace("detect: [aws_key]", "detect: [aws_key], on: [answer]"),
        format!(
            "{}  - {{ policy: prompt_guard, name: words, deny: [aurora] }}\n",
            base()
        ),
    ];
    for (number, next) in candidates.into_iter().enumerate() {
        // Each config evaluates other calls, because an unoptimised build is slow.
        let single = Call::every().into_iter().skip(number).step_by(12);
        let calls: Vec<Call> = single.chain(sessions()).collect();
        let gateway =
            ShadowGateway::start(&base(), &next, &format!("sample: 1, {AMPLE_BUDGET}")).await;

        make_calls(&gateway.agent, &calls).await;
        gateway.wait_until_evaluated(calls.len()).await;
        let status = gateway.end_shadow().await;
        let upstream = gateway.upstream.addr;
        let (folder, ..) = gateway.stop();

        assert_eq!(status["dropped"], 0, "{status:#}");
        let config = std::fs::read_to_string(folder.path().join("next.yaml")).unwrap();
        assert!(config.contains(&upstream.to_string()), "{config}");
        let arguments = [
            "replay",
            "--config",
            "next.yaml",
            "--format",
            "json",
            "recordings",
        ];
        let (code, out, err) = run(&arguments, folder.path());
        assert_eq!(code, 0, "{err}");
        let replayed: Value = serde_json::from_str(&out).unwrap();
        let is_few = |samples: &Value| samples.as_array().unwrap().len() < 20;
        let samples = replayed["samples"].as_object().unwrap();
        let (mut reported, mut of_replay) = (
            without_volatile_fields(&status["report"]),
            without_volatile_fields(&replayed),
        );
        if !samples.values().all(is_few) {
            // The order of the calls determines which of many samples are kept.
            reported["samples"].take();
            of_replay["samples"].take();
        }
        assert_eq!(reported, of_replay);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_the_agent_reported_are_not_derived_again() {
    let guard =
        "hooks: { BeforeTool: [{ hooks: [{ type: builtin, policy: tool_guard, deny: [rm] }] }] }\n";
    let gateway = ShadowGateway::start(guard, guard, &format!("sample: 1, {AMPLE_BUDGET}")).await;
    let agent = gateway.agent.clone().sending("x-hookgate-session", "main");
    agent.generate("m", &prompt("hello [[text|ok]]")).await;
    let event = json!({
        "hook_event_name": "BeforeTool", "session_id": "main", "tool_name": "look",
        "tool_input": {},
    });
    assert_eq!(gateway.agent.report(&event, "").await.status, 200);
    for number in 0..2 {
        let body = prompt(&format!("task {number} [[call|rm|x]]"));
        let answer = agent.generate("m", &body).await;
        assert!(answer.text().contains("functionCall"), "{}", answer.text());
    }

    let status = gateway.wait_until_evaluated(3).await;
    let (folder, ..) = gateway.stop();
    let arguments = ["replay", "--config", "next.yaml", "--format", "json"];
    let arguments = [&arguments[..], &["recordings"]].concat();
    let (_, out, err) = run(&arguments, folder.path());

    let replayed: Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
    for report in [&status["report"], &replayed] {
        assert_eq!(report["counts"]["unchanged"], 3, "{report:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sampling_selects_whole_sessions() {
    let calls: Vec<Call> = (0..40)
        .flat_map(|number| {
            sessions().into_iter().take(3).map(move |mut call| {
                call.session = format!("session-{number}");
                call
            })
        })
        .collect();
    let gateway =
        ShadowGateway::start(&base(), &base(), &format!("sample: 0.5, {AMPLE_BUDGET}")).await;

    make_calls(&gateway.agent, &calls).await;
    // The hash of a session's name selects it, so the number is the same in every run.
    let all_evaluated =
        |status: &Value| status["held_bytes"] == 0 && super::evaluated_calls(status) > 0;
    let status = gateway.wait_until("a sample", all_evaluated).await;

    let evaluated = super::evaluated_calls(&status);
    assert_eq!(evaluated % 3, 0, "{evaluated}");
    assert!((45..=75).contains(&evaluated), "{evaluated}");
    assert_eq!(status["report"]["counts"]["unknown"], 0, "{status:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_and_the_decision_log_have_the_counts() {
    let next = base().replace("deny: [rm]", "deny: [look]");
    let calls: Vec<Call> = Call::every().into_iter().take(16).collect();
    let gateway = ShadowGateway::start(&base(), &next, &format!("sample: 1, {AMPLE_BUDGET}")).await;

    make_calls(&gateway.agent, &calls).await;
    let status = gateway.wait_until_evaluated(calls.len()).await;
    let operator = &gateway.operator;
    let series =
        |change| format!("hookgate_shadow_verdicts_total{{rule=\"guard\",change=\"{change}\"}}");
    let denied = operator.metric(&series("newly_denied")).await;
    let allowed = operator.metric(&series("newly_allowed")).await;
    assert_eq!(operator.metric("hookgate_shadow_running").await, 1);
    assert_eq!(status["report"]["rules"]["guard"]["newly_denied"], denied);
    assert_eq!(status["report"]["rules"]["guard"]["newly_allowed"], allowed);
    assert!(denied > 0 && allowed > 0, "{status:#}");
    let ended = gateway.end_shadow().await;
    assert_eq!(gateway.operator.metric("hookgate_shadow_running").await, 0);
    let (_folder, lines, logged) = gateway.stop();

    let lines: Vec<&Value> = lines
        .iter()
        .filter(|line| line["kind"] == "shadow")
        .collect();
    let [start, end] = lines.as_slice() else {
        panic!("{lines:#?}");
    };
    assert_eq!(
        (&start["action"], &end["action"]),
        (&"start".into(), &"end".into())
    );
    assert_eq!(
        (&start["to"], &end["reason"]),
        (&status["to"], &"operator".into())
    );
    let counts = &ended["report"]["counts"];
    for count in [
        "calls",
        "newly_denied",
        "newly_allowed",
        "edited",
        "unchanged",
        "unknown",
    ] {
        assert_eq!(end[count], counts[count], "{count}: {end:#}");
    }
    assert!(
        logged.contains("shadow started") && logged.contains("shadow ended"),
        "{logged}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shadow_command_evaluates_a_config_on_live_calls() {
    let gateway = ShadowGateway::start(&base(), &base(), "").await;
    let next = base().replace("deny: [rm]", "deny: [look]");
    write_config(
        gateway.folder.path(),
        &gateway.upstream,
        "tried.yaml",
        &next,
    );
    let command = |arguments: &[&str]| {
        let mut command = hookgate(&["shadow", "--config", "tried.yaml", "--sample", "1"]);
        command.args(["--url", &gateway.operator.base]);
        command.args(arguments).current_dir(gateway.folder.path());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        async {
            let output = output.await.unwrap();
            let text = |bytes| String::from_utf8(bytes).unwrap();
            (
                output.status.code().unwrap(),
                text(output.stdout),
                text(output.stderr),
            )
        }
    };
    let calls: Vec<Call> = Call::every().into_iter().take(16).collect();

    let expression = "newly_denied > 0";
    let outcome = command(&[
        "--duration",
        "3s",
        "--format",
        "json",
        "--fail-on",
        expression,
    ]);
    gateway
        .wait_until("a shadow", |status| status["state"] == "running")
        .await;
    make_calls(&gateway.agent, &calls).await;
    let (code, out, err) = outcome.await;

    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("`--fail-on` holds"), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert!(report["counts"]["newly_denied"].as_u64() > Some(0), "{out}");
    let forms: BTreeSet<String> = {
        let mut forms = BTreeSet::new();
        for format in ["text", "markdown", "html"] {
            let (code, out, err) = command(&["--duration", "1s", "--format", format]).await;
            assert_eq!(code, 0, "{err}");
            assert!(out.contains("live"), "{out}");
            assert!(!out.to_lowercase().contains("replay"), "{out}");
            forms.insert(out);
        }
        forms
    };
    assert_eq!(forms.len(), 3);
    let (code, _, err) = command(&["--duration", "1d"]).await;
    assert_eq!(code, 2);
    assert!(err.contains("for '--duration <DURATION>'"), "{err}");
}

//! Formats, partial failures and masked fields of the HTTP sink.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use hookgate::config::MASKABLE_FIELDS;
use serde_json::{Value, json};

use super::{Sink, array_items, gunzip, wait_for_metric, wait_until_caught_up};
use crate::harness::{ReceivedRequest, TestGateway, Upstream, prompt, respond, run_with_input};

/// Runs a gateway with this endpoint for three calls, until all their lines are sent; returns the
/// lines of its log.
async fn send_three_calls(
    endpoint: &Upstream,
    settings: &str,
    files: &[(&str, &str)],
) -> Vec<String> {
    let upstream = Upstream::mock().await;
    let sink = format!(
        "sink: {{ url: \"http://{}/in?a=b\"{settings} }}",
        endpoint.addr
    );
    let config = format!("audit: {{ path: audit.jsonl, {sink} }}\n");
    let gate = TestGateway::with_files(&upstream, &config, files).await;
    for number in 0..3 {
        gate.agent()
            .generate("m", &prompt(&format!("{number}")))
            .await;
    }
    wait_until_caught_up(&gate.operator()).await;
    let folder = gate.stop_and_keep_files().await;
    let file = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    file.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn splunk_receives_events_with_its_token() {
    let endpoint = Upstream::answering(&json!({})).await;
    let settings = ", format: splunk_hec, token: { file: token }";

    let file = send_three_calls(&endpoint, settings, &[("token", "a-token\n")]).await;

    let asked = endpoint.requests();
    let mut events = Vec::new();
    for asked in &asked {
        assert_eq!(asked.header("authorization"), "Splunk a-token");
        assert_eq!(asked.header("content-type"), "application/json");
        assert_eq!((asked.path.as_str(), asked.query.as_str()), ("/in", "a=b"));
        events.extend(gunzip(asked).lines().map(str::to_owned));
    }
    assert_eq!(events.len(), file.len());
    for (event, line) in events.iter().zip(&file) {
        let value: Value = serde_json::from_str(event).unwrap();
        assert!(event.ends_with(&format!("\"event\":{line}}}")), "{event}");
        assert!(value["time"].as_f64().unwrap() > 1_700_000_000.0);
        assert_eq!(value["sourcetype"], "hookgate:audit");
    }
}

/// Handler of the bulk API of Elasticsearch: keeps one document for each id, and refuses documents
/// that contain `refused`.
fn elasticsearch(
    documents: Arc<Mutex<BTreeMap<String, String>>>,
    refused: &'static str,
) -> impl Fn(ReceivedRequest) -> http::Response<axum::body::Body> + Clone {
    move |asked| {
        let mut documents = documents.lock().unwrap();
        let body = gunzip(&asked);
        let lines: Vec<&str> = body.lines().collect();
        let items: Vec<Value> = lines
            .chunks(2)
            .map(|pair| {
                let action: Value = serde_json::from_str(pair[0]).unwrap();
                let id = action["create"]["_id"].as_str().unwrap();
                let status = if pair[1].contains(refused) {
                    400
                } else if documents
                    .insert(id.to_owned(), pair[1].to_owned())
                    .is_some()
                {
                    409
                } else {
                    201
                };
                json!({ "create": { "_id": id, "status": status } })
            })
            .collect();
        let errors = items.iter().any(|item| item["create"]["status"] != 201);
        let answer = json!({ "took": 1, "errors": errors, "items": items });
        respond(200, "application/json", answer.to_string())
    }
}

#[tokio::test]
async fn elasticsearch_receives_each_line_as_one_document() {
    let documents = Arc::default();
    let endpoint = Upstream::with(elasticsearch(Arc::clone(&documents), "nothing")).await;
    let settings = ", format: elastic_bulk, token: { file: token }";

    let file = send_three_calls(&endpoint, settings, &[("token", "a-key\n")]).await;

    let asked = endpoint.requests();
    assert_eq!(asked[0].header("authorization"), "ApiKey a-key");
    assert_eq!(asked[0].header("content-type"), "application/x-ndjson");
    let mut copy: Vec<String> = documents.lock().unwrap().values().cloned().collect();
    copy.sort_by_key(|line| file.iter().position(|entry| entry == line));
    assert_eq!(copy, file);
}

#[tokio::test]
async fn a_line_that_elasticsearch_refuses_is_counted_and_skipped() {
    let documents = Arc::default();
    let kind = "\"kind\":\"start\"";
    let endpoint = Upstream::with(elasticsearch(Arc::clone(&documents), kind)).await;
    let upstream = Upstream::mock().await;
    let sink = format!(
        "sink: {{ url: \"http://{}/\", format: elastic_bulk }}",
        endpoint.addr
    );
    let config = format!("audit: {{ path: audit.jsonl, {sink} }}\n");
    let gate = TestGateway::start(&upstream, &config).await;
    gate.agent().generate("m", &prompt("hi")).await;

    let refused = "hookgate_audit_sink_lines_total{outcome=\"refused\"}";
    wait_for_metric(&gate.operator(), refused, 1).await;
    wait_until_caught_up(&gate.operator()).await;

    gate.stop().await;
    assert_eq!(documents.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_sent_in_parts() {
    let taken: Arc<Mutex<Vec<String>>> = Arc::default();
    let accepted = Arc::clone(&taken);
    let endpoint = Upstream::with(move |asked| {
        let lines = array_items(&gunzip(&asked));
        let is_too_large = lines.len() > 2 || lines[0].contains("\"kind\":\"start\"");
        if !is_too_large {
            accepted.lock().unwrap().extend(lines);
        }
        respond(if is_too_large { 413 } else { 200 }, "text/plain", "")
    })
    .await;

    let file = send_three_calls(&endpoint, "", &[]).await;

    // The first line is too large even alone.
    assert_eq!(*taken.lock().unwrap(), file[1..]);
}

#[tokio::test]
async fn a_batch_with_a_response_that_is_too_large_is_sent_in_parts() {
    let documents = Arc::default();
    let store = elasticsearch(Arc::clone(&documents), "nothing");
    let endpoint = Upstream::with(move |asked| {
        let is_too_large = gunzip(&asked).lines().count() > 4;
        let answer = store(asked);
        if is_too_large {
            respond(200, "application/json", " ".repeat(9 << 20))
        } else {
            answer
        }
    })
    .await;

    let file = send_three_calls(&endpoint, ", format: elastic_bulk", &[]).await;

    assert_eq!(documents.lock().unwrap().len(), file.len());
}

/// Asserts that `mask` accepts each field, except those of the hash chain.
fn assert_maskable(pointer: &str, value: &Value) {
    let unmaskable = ["/seq", "/prev", "/time", "/kind", "/hash"];
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                assert_maskable(&format!("{pointer}/{name}"), field);
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| assert_maskable(&format!("{pointer}/*"), item)),
        _ => assert!(
            unmaskable.contains(&pointer) || MASKABLE_FIELDS.contains(&pointer),
            "{pointer}"
        ),
    }
}

#[tokio::test]
async fn masked_fields_are_never_sent_and_the_copy_still_verifies() {
    let sink = Sink::start().await;
    let upstream = Upstream::mock().await;
    let mask = "{ drop: [/received/text, /response/text, /caller/agent], hash: [/session] }";
    let setting = sink.setting(&format!(", mask: {mask}"));
    let config = format!("audit: {{ path: audit.jsonl, content: true, {setting} }}\n");
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("user-agent", "a-secret-agent");
    let agent = agent.sending("x-hookgate-session", "a-secret-session");
    agent.generate("m", &prompt("a secret prompt")).await;
    wait_until_caught_up(&gate.operator()).await;
    let folder = gate.stop_and_keep_files().await;

    let file = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    assert!(file.contains("a secret prompt") && file.contains("a-secret-session"));
    for line in file.lines() {
        assert_maskable("", &serde_json::from_str(line).unwrap());
    }
    let copy = sink.lines();
    assert!(!copy.concat().contains("secret"), "{copy:?}");
    let line: Value = serde_json::from_str(&copy[1]).unwrap();
    assert_eq!(line["session"], super::super::hash("a-secret-session"));
    let masked = line["masked"].as_array().unwrap();
    assert!(masked.contains(&json!("/session")), "{line}");
    let out = sink.verified();
    assert!(
        out.contains("of 2 lines with masked fields only the place is verified"),
        "{out}"
    );

    // If `masked` does not list a removed field, or lists what is there or cannot be masked, the
    // line counts as changed.
    for (from, to) in [
        (",\"masked\":", ",\"mask\":"),
        (",\"masked\":[", ",\"masked\":[\"/kind\","),
        (",\"masked\":[", ",\"masked\":[\"/nosuch\","),
        (",\"masked\":[", ",\"status\":200,\"masked\":[\"/status\","),
    ] {
        let mut changed = copy.clone();
        changed[1] = changed[1].replacen(from, to, 1);
        let copy = changed.join("\n");
        let (code, _, error) = run_with_input(&["audit", "verify", "--stdin"], &copy);
        assert!(
            code == 1 && error.contains("input line 2: hash mismatch"),
            "{to}: {error}"
        );
    }
}

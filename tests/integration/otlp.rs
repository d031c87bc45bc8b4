//! Export of calls to an OTLP collector, without delaying them.

mod collector;
mod records;
mod spans;

use serde_json::{Value, json};

use crate::harness::Upstream;

/// A collector that accepts every export.
async fn collector() -> Upstream {
    Upstream::answering(&json!({})).await
}

fn telemetry(collector: &Upstream, more: &str) -> String {
    let endpoint = format!("http://{}/", collector.addr);
    format!("telemetry: {{ otlp: {{ endpoint: \"{endpoint}\"{more} }} }}\n")
}

/// All items under `names` in the requests to `path`.
fn items(collector: &Upstream, path: &str, names: [&str; 3]) -> Vec<Value> {
    let seen = collector
        .requests()
        .into_iter()
        .filter(|request| request.path == path);
    let mut level: Vec<Value> = seen.map(|request| request.json()).collect();
    for name in names {
        let children = level
            .iter()
            .flat_map(|parent| parent[name].as_array().unwrap());
        level = children.cloned().collect();
    }
    level
}

fn spans(collector: &Upstream) -> Vec<Value> {
    let names = ["resourceSpans", "scopeSpans", "spans"];
    items(collector, "/v1/traces", names)
}

fn records(collector: &Upstream) -> Vec<Value> {
    let names = ["resourceLogs", "scopeLogs", "logRecords"];
    items(collector, "/v1/logs", names)
}

/// The only span with this name.
#[track_caller]
fn only<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    let mut found = spans.iter().filter(|span| span["name"] == name);
    let first = found
        .next()
        .unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    assert!(found.next().is_none(), "{spans:#?}");
    first
}

/// The value of an attribute as text; empty if it is absent.
fn attribute<'a>(item: &'a Value, name: &str) -> &'a str {
    let attributes = item["attributes"].as_array().unwrap();
    let Some(found) = attributes.iter().find(|entry| entry["key"] == name) else {
        return "";
    };
    let value = found["value"].as_object().unwrap().values().next();
    value.unwrap().as_str().unwrap()
}

//! Records as documents of the Elastic Common Schema (ECS) 8.17.

use serde_json::{Map, Value, json};

const SCHEMA_VERSION: &str = "8.17.0";

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// Fields that have the value of a field of the record: names, and pointers into it.
const FIELDS: &[(&str, &str)] = &[
    ("@timestamp", "/time"),
    ("event.sequence", "/seq"),
    ("event.hash", "/hash"),
    ("event.code", "/error"),
    ("user.name", "/caller/name"),
    ("user.name", "/by"),
    ("user.id", "/caller/key"),
    ("user_agent.original", "/caller/agent"),
    ("source.ip", "/peer"),
    ("http.request.id", "/request"),
    ("http.request.body.bytes", "/received/bytes"),
    ("http.response.body.bytes", "/response/bytes"),
    ("trace.id", "/trace/id"),
    ("span.id", "/trace/span"),
    ("gen_ai.request.model", "/requested_model"),
    ("gen_ai.response.model", "/model"),
    ("gen_ai.usage.input_tokens", "/usage/prompt"),
    ("gen_ai.usage.output_tokens", "/usage/candidates"),
];

/// Classification of a record: `event.category`, and the list of `event.type`.
type Classification = (&'static str, &'static [&'static str]);

/// Returns the document of a record. `hookgate` holds the whole record.
pub(super) fn ecs_document(line: &Value) -> Value {
    let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or("unknown");
    let verdict = text("/verdict").or_else(|| text("/action"));
    let verdict = verdict.unwrap_or_default();
    let is_denied = matches!(verdict, "deny" | "stop") || is_refused(line);
    let (category, types) = if is_undecided(line) {
        ("api", ["info"].as_slice())
    } else {
        classification(kind, is_denied)
    };
    let mut document = json!({
        "ecs": { "version": SCHEMA_VERSION },
        "event": {
            "kind": if is_denied && kind == "event" { "alert" } else { "event" },
            "module": "hookgate",
            "dataset": "hookgate.audit",
            "provider": "hookgate",
            "category": [category],
            "type": types,
            "action": kind,
            "outcome": outcome(line, kind),
        },
    });
    for (name, pointer) in FIELDS {
        // The user of a view is its operator, not the caller of the session.
        if kind == "viewed" && pointer.starts_with("/caller/") {
            continue;
        }
        if let Some(value) = line.pointer(pointer) {
            set(&mut document, name, value.clone());
        }
    }
    if let Some(milliseconds) = line.get("duration_ms").and_then(Value::as_u64) {
        let nanoseconds = milliseconds.saturating_mul(NANOSECONDS_PER_MILLISECOND);
        set(&mut document, "event.duration", nanoseconds.into());
    }
    let status = line.get("status").and_then(Value::as_u64);
    if let Some(status) = status.filter(|status| *status > 0) {
        set(&mut document, "http.response.status_code", status.into());
    }
    if kind == "rejected"
        && let Some(method) = text("/method")
    {
        set(&mut document, "http.request.method", method.into());
    }
    if let Some(rule) = denying_rule(line) {
        set(&mut document, "rule.name", rule.into());
    }
    set(&mut document, "hookgate", line.clone());
    document
}

/// Returns category and types; each pair is one that ECS allows.
const fn classification(kind: &str, is_denied: bool) -> Classification {
    match (kind.as_bytes(), is_denied) {
        (b"event", true) => ("intrusion_detection", &["denied"]),
        (b"rejected", _) | (b"outcome", true) => ("api", &["access", "denied"]),
        (b"outcome", false) => ("api", &["access", "allowed"]),
        (b"viewed", _) => ("api", &["access"]),
        (b"reload" | b"promoted" | b"rollout" | b"shadow", _) => ("configuration", &["change"]),
        (b"start", _) => ("process", &["start"]),
        (b"stop", _) => ("process", &["end"]),
        _ => ("api", &["info"]),
    }
}

fn outcome(line: &Value, kind: &str) -> &'static str {
    let status = line.get("status").and_then(Value::as_u64);
    let is_applied = line.get("outcome").and_then(Value::as_str) == Some("applied");
    match (kind, status) {
        ("reload", _) if !is_applied => "failure",
        // An error may break off a stream whose status was sent.
        ("outcome", _) if line.get("error").is_some() => "failure",
        ("reload" | "promoted" | "start" | "stop", _) | ("outcome", Some(200..400)) => "success",
        ("rejected" | "outcome", _) => "failure",
        _ => "unknown",
    }
}

/// Returns whether a record is the outcome of a call that hookgate refused with an error: no
/// request went upstream.
pub(super) fn is_refused(line: &Value) -> bool {
    line["action"] == "error" && line["rounds"] == 0
}

/// Returns whether a record is the outcome of a call that ended before it was decided, because the
/// agent disconnected or a shutdown aborted it.
pub(super) fn is_undecided(line: &Value) -> bool {
    let is_open = matches!(line["action"].as_str(), Some("pass" | "edit"));
    is_open && line["rounds"] == 0 && line["status"] == 0
}

/// Returns the name of the hook or policy that denied an event.
pub(super) fn denying_rule(line: &Value) -> Option<&str> {
    let hooks = line.get("hooks")?.as_array()?;
    let denies = |hook: &&Value| {
        let verdict = hook.get("verdict").and_then(Value::as_str);
        matches!(verdict, Some("deny" | "stop"))
    };
    hooks.iter().find(denies)?.get("name")?.as_str()
}

/// Sets a field of a document by its dotted name.
fn set(document: &mut Value, name: &str, value: Value) {
    let mut target = document;
    for part in name.split('.') {
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        let Some(fields) = target.as_object_mut() else {
            return;
        };
        target = fields.entry(part).or_insert(Value::Null);
    }
    *target = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_document_with_the_fields_of_the_schema() {
        let line = json!({ "seq": 7, "time": "2026-11-25T10:00:00.007Z", "kind": "outcome",
            "request": "r", "caller": { "name": "team-a", "agent": "cli/1" }, "action": "pass",
            "status": 200, "duration_ms": 5, "usage": { "prompt": 3 },
            "response": { "bytes": 9 }, "hash": "H" });

        let document = ecs_document(&line);

        let expected = json!({
            "ecs": { "version": SCHEMA_VERSION },
            "event": { "kind": "event", "module": "hookgate", "dataset": "hookgate.audit",
                "provider": "hookgate", "category": ["api"], "type": ["access", "allowed"],
                "action": "outcome", "outcome": "success", "sequence": 7, "hash": "H",
                "duration": 5_000_000 },
            "@timestamp": "2026-11-25T10:00:00.007Z",
            "user": { "name": "team-a" },
            "user_agent": { "original": "cli/1" },
            "http": { "request": { "id": "r" },
                "response": { "body": { "bytes": 9 }, "status_code": 200 } },
            "gen_ai": { "usage": { "input_tokens": 3 } },
            "hookgate": line,
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn the_user_of_a_watch_is_its_operator_and_not_the_caller_of_the_session() {
        let line = json!({ "kind": "viewed", "by": "ivan", "caller": { "key": "k" } });

        assert_eq!(ecs_document(&line)["user"], json!({ "name": "ivan" }));
    }

    #[test]
    fn a_call_that_ended_before_it_was_decided_is_not_allowed() {
        let line = json!({ "kind": "outcome", "action": "edit", "rounds": 0, "status": 0,
            "ended": "client_disconnected" });

        let event = &ecs_document(&line)["event"];

        assert_eq!(
            (&event["type"], &event["outcome"]),
            (&json!(["info"]), &json!("failure"))
        );
    }

    #[test]
    fn a_denied_event_is_an_alert_of_its_rule() {
        let line = json!({ "kind": "event", "verdict": "deny",
            "hooks": [{ "name": "a", "status": "ok" }, { "name": "guard", "verdict": "deny" }] });

        let document = ecs_document(&line);

        assert_eq!(document["event"]["kind"], "alert");
        assert_eq!(
            document["event"]["category"],
            json!(["intrusion_detection"])
        );
        assert_eq!(document["rule"]["name"], "guard");
    }
}

//! Records as events of the Open Cybersecurity Schema Framework (OCSF) 1.3: calls and
//! rejected requests as API Activity, denials as Detection Finding.

use std::num::NonZeroUsize;

use jiff::Timestamp;
use lru::LruCache;
use serde_json::{Value, json};

use super::ecs::{denying_rule, is_refused, is_undecided};

const SCHEMA_VERSION: &str = "1.3.0";

/// Calls in flight whose operation is known.
const MAX_CALLS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Severity of an event, with the numbers of `severity_id`.
#[derive(Debug, Clone, Copy)]
enum Severity {
    Informational = 1,
    Low = 2,
    Medium = 3,
}

/// Disposition of the security control profile, with the numbers of `disposition_id`.
#[derive(Debug, Clone, Copy)]
enum Disposition {
    Unknown = 0,
    Allowed = 1,
    Blocked = 2,
    Corrected = 11,
    Detected = 15,
    Rejected = 25,
}

/// Converts the records of a log, in their order.
#[derive(Debug)]
pub(super) struct OcsfExport {
    /// Operation and service of calls, from their `request` records: `outcome` has none.
    calls: LruCache<String, (String, String)>,
}

impl OcsfExport {
    pub(super) fn new() -> Self {
        Self {
            calls: LruCache::new(MAX_CALLS),
        }
    }

    /// Returns the event of a record; `None` if it has no class.
    pub(super) fn convert(&mut self, line: &Value) -> Option<Value> {
        let event = match text(line, "/kind") {
            "request" => {
                let call = (owned(line, "/method"), owned(line, "/dialect"));
                self.calls.put(owned(line, "/request"), call);
                None
            }
            "outcome" => {
                let call = self.calls.pop(text(line, "/request"));
                let (operation, service) = call.unwrap_or_default();
                Some(api_activity(line, &operation, &service))
            }
            "rejected" => Some(api_activity(line, text(line, "/operation"), "")),
            "event" => finding(line),
            _ => None,
        };
        event.map(without_empty)
    }
}

/// Returns the API Activity (6003) of a call or a rejected request.
fn api_activity(line: &Value, operation: &str, service: &str) -> Value {
    let status = line.get("status").and_then(Value::as_u64).unwrap_or(0);
    let disposition = match (text(line, "/kind"), text(line, "/action")) {
        ("rejected", _) => Disposition::Rejected,
        _ if is_refused(line) => Disposition::Rejected,
        _ if is_undecided(line) => Disposition::Unknown,
        (_, "deny" | "stop") => Disposition::Blocked,
        (_, "edit") => Disposition::Corrected,
        _ => Disposition::Allowed,
    };
    let severity = match disposition {
        Disposition::Unknown | Disposition::Allowed | Disposition::Corrected => {
            Severity::Informational
        }
        _ => Severity::Low,
    };
    let is_success = (200..400).contains(&status) && line.get("error").is_none();
    let mut event = base(line, (6003, 6, 99), severity, disposition);
    extend(
        &mut event,
        json!({
            "class_name": "API Activity",
            "category_name": "Application Activity",
            "activity_name": "Model call",
            "type_name": "API Activity: Other",
            "status_id": if is_success { 1 } else { 2 },
            "status": if is_success { "Success" } else { "Failure" },
            "status_code": status.to_string(),
            "status_detail": line.get("error"),
            "duration": line.get("duration_ms"),
            "actor": actor(line),
            "api": {
                "operation": or_unknown(operation),
                "service": { "name": service },
                "request": { "uid": text(line, "/request") },
                "response": { "code": status, "error": line.get("error") },
            },
            "src_endpoint": source(line),
            "http_response": { "code": status, "length": line.pointer("/response/bytes") },
        }),
    );
    event
}

/// Returns the Detection Finding (2004) of an event that was denied or stopped, or would
/// have been; `None` for others.
fn finding(line: &Value) -> Option<Value> {
    let is_denied = matches!(text(line, "/verdict"), "deny" | "stop");
    let (rule, verb, severity, disposition) = if is_denied {
        let rule = denying_rule(line).unwrap_or_else(|| text(line, "/hooks/0/name"));
        (rule, "denied", Severity::Medium, Disposition::Blocked)
    } else {
        let would = |hook: &&Value| matches!(text(hook, "/would"), "would_deny" | "would_stop");
        let rule = text(line.get("hooks")?.as_array()?.iter().find(would)?, "/name");
        (
            rule,
            "would be denied",
            Severity::Low,
            Disposition::Detected,
        )
    };
    let rule = or_unknown(rule);
    let (event_name, subject) = (text(line, "/event"), text(line, "/subject"));
    let mut event = base(line, (2004, 2, 1), severity, disposition);
    extend(
        &mut event,
        json!({
            "class_name": "Detection Finding",
            "category_name": "Findings",
            "activity_name": "Create",
            "type_name": "Detection Finding: Create",
            "status_id": 1,
            "status": "New",
            "is_alert": is_denied,
            "finding_info": {
                "uid": text(line, "/hash"),
                "title": format!("{event_name} {verb} by {rule}"),
                "created_time": time(line),
                "analytic": { "name": rule, "type": "Rule", "type_id": 1 },
            },
            "actor": actor(line),
            "resources": (!subject.is_empty()).then(|| json!([{ "name": subject }])),
        }),
    );
    Some(event)
}

/// Returns the attributes that every event has. `class` is class, category and activity.
fn base(
    line: &Value,
    class: (u32, u32, u32),
    severity: Severity,
    disposition: Disposition,
) -> Value {
    let (class, category, activity) = class;
    let action = match disposition {
        Disposition::Unknown => 0,
        Disposition::Allowed | Disposition::Corrected | Disposition::Detected => 1,
        Disposition::Blocked | Disposition::Rejected => 2,
    };
    json!({
        "class_uid": class,
        "category_uid": category,
        "activity_id": activity,
        "type_uid": class * 100 + activity,
        "time": time(line),
        "severity_id": severity as u8,
        "severity": format!("{severity:?}"),
        "action_id": action,
        "disposition_id": disposition as u8,
        "metadata": {
            "version": SCHEMA_VERSION,
            "product": {
                "name": "hookgate",
                "vendor_name": "hookgate",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "profiles": ["security_control"],
            "log_name": "decision log",
            "original_time": text(line, "/time"),
            "uid": text(line, "/hash"),
            "sequence": line.get("seq"),
            "correlation_uid": text(line, "/request"),
        },
        "unmapped": line,
    })
}

/// Returns who made the call: caller, agent and session, as far as they are known.
fn actor(line: &Value) -> Value {
    json!({
        "app_name": or_unknown(text(line, "/caller/agent")),
        "user": { "name": text(line, "/caller/name"), "uid": text(line, "/caller/key") },
        "session": { "uid": text(line, "/session") },
    })
}

/// Returns the agent's address, if the line has it, or its name.
fn source(line: &Value) -> Value {
    match text(line, "/peer") {
        "" => json!({ "name": or_unknown(text(line, "/caller/agent")) }),
        peer => json!({ "ip": peer }),
    }
}

/// Returns the time of a line in milliseconds since 1970.
fn time(line: &Value) -> i64 {
    let time = text(line, "/time").parse::<Timestamp>();
    time.map_or(0, Timestamp::as_millisecond)
}

/// Adds fields to an object.
fn extend(object: &mut Value, fields: Value) {
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
}

/// Removes values that are null or an empty text, and objects without any other; not from the
/// whole line.
fn without_empty(mut event: Value) -> Value {
    let line = event.get_mut("unmapped").map(Value::take);
    remove_empty(&mut event);
    if let (Some(event), Some(line)) = (event.as_object_mut(), line) {
        event.insert("unmapped".to_owned(), line);
    }
    event
}

fn remove_empty(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.values_mut().for_each(remove_empty);
        fields.retain(|_, value| !(value.is_null() || *value == json!("") || *value == json!({})));
    }
}

fn text<'a>(line: &'a Value, pointer: &str) -> &'a str {
    let value = line.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default()
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

fn owned(line: &Value, pointer: &str) -> String {
    text(line, pointer).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attributes that a class requires, by JSON pointer.
    const REQUIRED: [&str; 10] = [
        "/activity_id",
        "/category_uid",
        "/class_uid",
        "/severity_id",
        "/time",
        "/type_uid",
        "/metadata/version",
        "/metadata/product/name",
        "/metadata/product/vendor_name",
        "/actor/app_name",
    ];
    const REQUIRED_OF_CALLS: [&str; 4] =
        ["/api/operation", "/src_endpoint", "/actor", "/status_id"];
    const REQUIRED_OF_FINDINGS: [&str; 3] = [
        "/finding_info/uid",
        "/finding_info/title",
        "/finding_info/analytic/type_id",
    ];

    fn line(fields: Value) -> Value {
        let mut line = json!({ "seq": 7, "prev": "P", "time": "2026-11-25T10:00:00.007Z" });
        extend(&mut line, fields);
        extend(&mut line, json!({ "hash": "H" }));
        line
    }

    #[track_caller]
    fn assert_has(event: &Value, required: &[&str]) {
        for pointer in REQUIRED.iter().chain(required) {
            let value = event.pointer(pointer);
            assert!(
                value.is_some_and(|value| !value.is_null()),
                "{pointer}: {event:#}"
            );
        }
        let number = |name: &str| event[name].as_u64().unwrap();
        assert_eq!(
            number("type_uid"),
            number("class_uid") * 100 + number("activity_id")
        );
        assert_eq!(number("time"), number("time") / 1000 * 1000 + 7);
    }

    #[test]
    fn calls_and_rejections_are_api_activities() {
        let mut export = OcsfExport::new();
        let request = line(
            json!({ "kind": "request", "request": "r", "method": "generateContent",
            "dialect": "gemini" }),
        );
        let outcome = line(json!({ "kind": "outcome", "request": "r", "action": "deny",
            "status": 403, "error": "DENIED", "duration_ms": 5,
            "caller": { "name": "team-a", "key": "k", "agent": "cli/1" } }));
        let rejected = line(
            json!({ "kind": "rejected", "status": 401, "peer": "10.0.0.1",
            "error": "UNAUTHENTICATED", "caller": {} }),
        );

        assert!(export.convert(&request).is_none());
        let call = export.convert(&outcome).unwrap();
        let rejection = export.convert(&rejected).unwrap();

        for event in [&call, &rejection] {
            assert_has(event, &REQUIRED_OF_CALLS);
            assert_eq!(
                (&event["class_uid"], &event["status_id"]),
                (&json!(6003), &json!(2))
            );
        }
        assert_eq!(call["api"]["operation"], "generateContent");
        assert_eq!(call["api"]["service"]["name"], "gemini");
        assert_eq!(
            (&call["action_id"], &call["disposition_id"]),
            (&json!(2), &json!(2))
        );
        assert_eq!(call["actor"]["user"]["name"], "team-a");
        let failed = line(json!({ "kind": "outcome", "action": "error", "rounds": 1 }));
        let failed = export.convert(&failed).unwrap();
        assert_eq!(failed["disposition_id"], 1);
        let aborted = json!({ "kind": "outcome", "action": "pass", "rounds": 0, "status": 0 });
        let undecided = export.convert(&line(aborted)).unwrap();
        assert_eq!(
            (&undecided["action_id"], &undecided["disposition_id"]),
            (&json!(0), &json!(0))
        );
        assert_eq!(rejection["src_endpoint"]["ip"], "10.0.0.1");
        assert_eq!(rejection["api"]["operation"], "unknown");
        assert_eq!(rejection.pointer("/api/service"), None);
        assert_eq!(rejection["http_response"], json!({ "code": 401 }));
        let by_key = line(json!({ "kind": "rejected", "caller": { "name": "", "key": "k" } }));
        let by_key = export.convert(&by_key).unwrap();
        assert_eq!(by_key["actor"]["user"], json!({ "uid": "k" }));
    }

    #[test]
    fn denials_are_findings_of_the_rule_that_denied() {
        let mut export = OcsfExport::new();
        let event = |verdict: &str, hook: Value| {
            line(
                json!({ "kind": "event", "event": "BeforeTool", "subject": "rm", "verdict": verdict,
                "hooks": [{ "name": "first", "status": "ok" }, hook], "caller": {} }),
            )
        };
        let guard = json!({ "name": "guard", "status": "block", "verdict": "deny" });
        let watcher = json!({ "name": "watcher", "status": "ok", "would": "would_deny" });

        let denied = export.convert(&event("deny", guard)).unwrap();
        let observed = export.convert(&event("proceed", watcher)).unwrap();

        for event in [&denied, &observed] {
            assert_has(event, &REQUIRED_OF_FINDINGS);
            assert_eq!(event["type_uid"], 200_401);
        }
        assert_eq!(
            denied["finding_info"]["title"],
            "BeforeTool denied by guard"
        );
        assert_eq!(denied["disposition_id"], 2);
        assert_eq!(observed["finding_info"]["analytic"]["name"], "watcher");
        assert_eq!(observed["disposition_id"], 15);
        let allowed = event("proceed", json!({ "name": "guard", "status": "ok" }));
        assert!(export.convert(&allowed).is_none());
    }
}

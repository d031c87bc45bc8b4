//! Records of an audit log as text and as CSV.

use serde_json::Value;

use super::ecs::denying_rule;

/// The columns of CSV: names, and pointers into a record.
const COLUMNS: &[(&str, &str)] = &[
    ("seq", "/seq"),
    ("time", "/time"),
    ("kind", "/kind"),
    ("request", "/request"),
    ("session", "/session"),
    ("caller", "/caller/name"),
    ("caller_key", "/caller/key"),
    ("agent", "/caller/agent"),
    ("peer", "/peer"),
    ("listener", "/listener"),
    ("operation", "/operation"),
    ("event", "/event"),
    ("origin", "/origin"),
    ("subject", "/subject"),
    ("verdict", "/verdict"),
    ("action", "/action"),
    ("error", "/error"),
    ("status", "/status"),
    ("ended", "/ended"),
    ("dialect", "/dialect"),
    ("method", "/method"),
    ("requested_model", "/requested_model"),
    ("model", "/model"),
    ("upstream", "/upstream"),
    ("prompt_tokens", "/usage/prompt"),
    ("candidates_tokens", "/usage/candidates"),
    ("total_tokens", "/usage/total"),
    ("duration_ms", "/duration_ms"),
    ("config", "/config"),
    ("hash", "/hash"),
];

/// Names and pointers of what administrative lines are about. Their columns come last.
const ADMIN_VALUES: [(&str, &str); 7] = [
    ("from", "/from"),
    ("to", "/to"),
    ("by", "/by"),
    ("percent", "/percent"),
    ("measure", "/measure"),
    ("because", "/because"),
    ("reason", "/reason"),
];

/// Name of the column in front of them: the policy or hook that denied an event.
const RULE: &str = "rule";

/// Returns the names of the columns.
pub(super) fn csv_header() -> String {
    let names = |columns: &[(&'static str, _)]| columns.iter().map(|column| column.0).collect();
    let names: [Vec<&str>; 3] = [names(COLUMNS), vec![RULE], names(&ADMIN_VALUES)];
    names.concat().join(",")
}

/// Keys whose values begin a line of text, without their names.
const LEADING_KEYS: [&str; 6] = ["kind", "event", "subject", "verdict", "action", "outcome"];

/// Names and pointers of the values that follow.
const LABELLED_VALUES: [(&str, &str); 15] = [
    ("error", "/error"),
    ("status", "/status"),
    ("method", "/method"),
    ("operation", "/operation"),
    ("path", "/path"),
    ("requests", "/requests"),
    ("model", "/model"),
    ("upstream", "/upstream"),
    ("tokens", "/usage/total"),
    ("lines", "/lines"),
    ("bytes", "/bytes"),
    ("caller", "/caller/name"),
    ("key", "/caller/key"),
    ("session", "/session"),
    ("request", "/request"),
];

/// Returns a record as a row of CSV.
pub(super) fn csv_row(line: &Value) -> String {
    let cells = |columns: &[(_, &str)]| {
        let cells = columns.iter();
        cells
            .map(|(_, pointer)| cell(&text(line, pointer)))
            .collect()
    };
    let rule = cell(denying_rule(line).unwrap_or_default());
    let cells: [Vec<String>; 3] = [cells(COLUMNS), vec![rule], cells(&ADMIN_VALUES)];
    cells.concat().join(",")
}

/// Returns a record as a line of text.
pub(super) fn text_line(line: &Value) -> String {
    let mut line_text = format!("{} #{}", text(line, "/time"), text(line, "/seq"));
    for key in LEADING_KEYS {
        let value = text(line, &format!("/{key}"));
        if !value.is_empty() {
            line_text = format!("{line_text} {}", quoted(&value));
        }
    }
    let hooks = line.get("hooks").and_then(Value::as_array);
    for hook in hooks.into_iter().flatten() {
        let part = |key: &str| text(hook, &format!("/{key}"));
        let ms = format!("{} ms", part("ms"));
        let mut words = vec![part("status"), part("verdict"), part("would"), ms];
        words.retain(|word| !word.is_empty());
        line_text = format!("{line_text} {}({})", escape(&part("name")), words.join(" "));
    }
    for (name, pointer) in ADMIN_VALUES.iter().chain(&LABELLED_VALUES) {
        let value = text(line, pointer);
        if !value.is_empty() {
            line_text = format!("{line_text} {name}={}", quoted(&value));
        }
    }
    line_text
}

/// Returns a value as text. Of an object, such as the reason of a denial, its `text` counts.
fn text(line: &Value, pointer: &str) -> String {
    match line.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::Object(_)) => text(line, &format!("{pointer}/text")),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Escapes a value, and quotes it if it has white space: it may look like other fields.
fn quoted(text: &str) -> String {
    if text.contains(char::is_whitespace) {
        format!("{text:?}")
    } else {
        escape(text)
    }
}

/// Escapes control characters, since agents choose some of the names.
fn escape(text: &str) -> String {
    text.escape_debug().to_string()
}

/// Quotes a cell of CSV. Texts that spreadsheets interpret as formulas are prefixed by
/// an apostrophe, since agents choose some of the names.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        assert_eq!(cell("a"), "a");
        assert_eq!(cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(cell("=1+1"), "'=1+1");
    }

    #[test]
    fn a_record_is_one_line_of_text() {
        let line = json!({ "seq": 7, "time": "T", "kind": "event", "event": "BeforeTool",
            "subject": "evil\n\u{1b}[2Jtool", "verdict": "deny",
            "hooks": [{ "name": "guard", "status": "ok", "verdict": "deny", "ms": 3 }], "session": "s" });

        let text = text_line(&line);

        let expected =
            r#"T #7 event BeforeTool "evil\n\u{1b}[2Jtool" deny guard(ok deny 3 ms) session=s"#;
        assert_eq!(text, expected);
        let row = csv_row(&line);
        assert_eq!(row.matches(',').count(), csv_header().matches(',').count());
        assert!(row.contains(",guard,"), "{row}");
    }
}

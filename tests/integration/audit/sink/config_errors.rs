//! Config errors and warnings of the HTTP sink.

use hookgate::{config::Config, hook as hooks};

const URL: &str = "url: 'https://x/logs'";

fn parse(audit: &str) -> (String, String) {
    let text = format!(
        "upstreams: {{ gemini: {{ url: 'http://x' }} }}\naudit: {{ path: a.jsonl{audit} }}\n"
    );
    match Config::parse(&text, "hookgate.yaml".as_ref(), &hooks::registry()) {
        Ok(config) => {
            let warnings = config.warnings.iter().map(ToString::to_string);
            (String::new(), warnings.collect::<Vec<_>>().join("\n"))
        }
        Err(problems) => (problems.to_string(), String::new()),
    }
}

#[test]
fn an_invalid_sink_setting_is_reported_with_its_line() {
    let cases = [
        ("format: json_array".to_owned(), "url"),
        ("url: nowhere".to_owned(), "must be an http or https URL"),
        (format!("{URL}, format: xml"), "json_array"),
        (
            format!("{URL}, token: plain"),
            "the config cannot contain the secret",
        ),
        (
            format!("{URL}, token: {{ env: NOT_THERE_AT_ALL }}"),
            "is not set",
        ),
        (
            format!("{URL}, token: {{ env: HOME }}, headers: {{ Authorization: {{ env: HOME }} }}"),
            "set the same header",
        ),
        (
            format!("{URL}, headers: {{ content-encoding: {{ env: HOME }} }}"),
            "already set",
        ),
        (
            format!("{URL}, mask: {{ drop: [/caller/agnet] }}"),
            "did you mean `/caller/agent`?",
        ),
        (
            format!("{URL}, mask: {{ drop: [/hash] }}"),
            "no field `/hash`",
        ),
        (
            format!("{URL}, mask: {{ drop: [/session], hash: [/session] }}"),
            "listed twice",
        ),
        (
            format!("{URL}, mask: {{ drop: [/caller], hash: [/caller/name] }}"),
            "dropped with what contains it",
        ),
        (format!("{URL}, batch: {{ lines: 0 }}"), "from 1 to 1000000"),
        (format!("{URL}, batch: {{ bytes: 10 }}"), "at least 1KiB"),
        (format!("{URL}, timeout: never"), "must be a duration"),
    ];

    for (sink, message) in cases {
        let (problems, _) = parse(&format!(", sink: {{ {sink} }}"));

        assert!(problems.contains("hookgate.yaml:2:"), "{sink}: {problems}");
        assert!(problems.contains(message), "{sink}: {problems}");
    }
}

#[test]
fn unmasked_content_and_plain_http_cause_warnings() {
    let content = ", content: true, sink: { url: 'http://siem.example/logs' }";
    let (problems, warnings) = parse(content);
    assert_eq!(problems, "");
    assert!(
        warnings.contains("prompts and answers are sent"),
        "{warnings}"
    );
    assert!(warnings.contains("without encryption"), "{warnings}");

    let masked = format!(
        ", content: true, sink: {{ {URL}, mask: {{ drop: [/received, /sent/text, /response, \
         /input] }} }}"
    );
    assert_eq!(parse(&masked), (String::new(), String::new()));
}

//! Hooks from several sources: comments, switches, disabled names, order.

use std::{fs, time::Duration};

use insta::assert_snapshot;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    config::{
        BundleCapability, BundleTrust, Config, ConfigError, FailureMode, HookMode, HookSpec,
        Overrides, PolicyLayer, SystemMessages, tests::REGISTRY,
    },
    event::{EventName, MatcherSubject},
};

/// Loads a config of `text` beside which these settings files are; all of them
/// are hook files unless `text` names some.
fn load(text: &str, settings: &[(&str, &str)]) -> (TempDir, Result<Config, ConfigError>) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in settings {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let mut text = format!("upstreams: {{ gemini: {{ url: http://a }} }}\n{text}");
    if !text.contains("hook_files") {
        let paths: Vec<_> = settings
            .iter()
            .map(|(name, _)| json!({ "path": name }))
            .collect();
        text = format!("{text}\nhook_files: {}\n", json!(paths));
    }
    let path = directory.path().join("hookgate.yaml");
    fs::write(&path, text).unwrap();
    let config = Config::load(&path, &Overrides::default(), &REGISTRY);
    (directory, config)
}

/// Returns all errors or warnings of a config without the name of its directory.
fn messages(text: &str, settings: &[(&str, &str)]) -> String {
    let (directory, config) = load(text, settings);
    let messages = match config {
        Err(error) => error.to_string(),
        Ok(config) => {
            let lines: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
            lines.join("\n")
        }
    };
    messages.replace(&format!("{}/", directory.path().display()), "")
}

fn hooks(config: &Config) -> Vec<(EventName, &HookSpec)> {
    let groups = config.hooks.iter().flat_map(|(event, groups)| {
        let hooks = groups.iter().flat_map(|group| &group.hooks);
        hooks.map(move |hook| (*event, hook))
    });
    groups.collect()
}

/// The labels of the hooks that run, in order.
fn running(text: &str, settings: &[(&str, &str)]) -> Vec<String> {
    let (_directory, config) = load(text, settings);
    let config = config.unwrap();
    hooks(&config)
        .iter()
        .map(|(_, hook)| hook.label().to_owned())
        .collect()
}

const SETTINGS: &str = r#"{
	// gemini-cli allows comments
	"ui": { "theme": "x//y" }, /* and
	these */ "tools": { "core": [] },
	"hooks": {
		"BeforeTool": [
			{ "matcher": "write_*", "sequential": true, "hooks": [
				{ "type": "command", "command": "cat a.js", "name": "first", "timeout": 5000 },
				{ "command": "cat \ud83d\ude00", "env": { "K": "v" } }
			] }
		]
	}
}"#;

#[test]
fn a_settings_file_is_read_with_its_comments() {
    let (directory, config) = load("", &[("settings.json", SETTINGS)]);
    let config = config.unwrap();

    let hooks = hooks(&config);
    let (event, first) = hooks[0];
    assert_eq!(event, EventName::BeforeTool);
    assert_eq!(first.identity(), ("first", "cat a.js", "gemini"));
    assert_eq!(first.timeout, Duration::from_secs(5));
    assert_eq!(first.protocol, "gemini");
    let path = directory.path().join("settings.json");
    assert_eq!(first.span.to_string(), format!("{}:8:5", path.display()));
    let (_, second) = hooks[1];
    assert_eq!(second.identity(), ("", "cat 😀", "gemini"));
    assert_eq!(second.label(), "cat 😀");
    assert_eq!(second.settings.0["env"], json!({ "K": "v" }));
    assert_eq!(second.timeout, Duration::from_mins(1));
    let group = &config.hooks[&EventName::BeforeTool][0];
    assert!(group.sequential);
    assert!(group.matcher.matches(MatcherSubject::Tool("write_file")));
    assert!(config.files.contains(&path));
    assert!(config.warnings.is_empty());
}

#[test]
fn errors_in_a_settings_file_have_their_position_in_it() {
    let settings = r#"{
  // one
  "hooks": {
    "BeforeToool": [],
    "AfterTool": [{ "hooks": [
      { "type": "plugin", "command": "x", "name": "p" }, /* two */ { "type": "command" }
    ] }],
    "enabled": "yes"
  }
}"#;
    assert_snapshot!(messages("", &[("s.json", settings)]), @r"
    s.json:4:5: unknown event `BeforeToool`; did you mean `BeforeTool`?
    s.json:6:17: hook `p` on AfterTool: `type` must be `command` or `http` or `worker` or `builtin`, not `plugin`
    s.json:6:68: a hook on AfterTool: `command` is missing
    s.json:8:16: `hooks.enabled` must be true or false, not `yes`
    ");
}

#[test]
fn events_of_another_protocol_are_reported_with_their_names() {
    let settings = r#"{ "hooks": { "PreToolUse": [], "Stop": [] } }"#;

    let named = messages(
        "hook_files: [{ path: s.json, protocol: gemini }]",
        &[("s.json", settings)],
    );
    let misspelled = messages(
        "hook_files: [{ path: s.json, protocol: calude }]",
        &[("s.json", settings)],
    );

    assert_snapshot!(named, @r"
    s.json:1:14: unknown event `PreToolUse` of the protocol `claude`: here it is `BeforeTool`; a file under `hook_files` with `protocol: claude` may have it
    s.json:1:32: unknown event `Stop` of the protocol `claude`: here it is `AfterAgent`; a file under `hook_files` with `protocol: claude` may have it
    ");
    assert_snapshot!(misspelled, @r"hookgate.yaml:2:40: `hook_files[0].protocol` must be `gemini` or `terminai` or `tabnine` or `llxprt` or `claude` or `codex`, not `calude`");
}

#[test]
fn timeouts_that_are_probably_seconds_are_warned_of() {
    let hook = |timeout: &str| {
        let hooks = format!("[{{ command: cat, timeout: {timeout} }}]");
        messages(
            &format!("hooks: {{ AfterTool: [{{ hooks: {hooks} }}] }}"),
            &[],
        )
    };

    assert_snapshot!(hook("60"), @r"hookgate.yaml:2:57: the timeout is 60 milliseconds: in seconds it would be 60000");
    for timeout in ["60ms", "60s", "100"] {
        assert_eq!(hook(timeout), "", "{timeout}");
    }
}

#[test]
fn keys_of_other_products_are_warned_of() {
    let settings = r#"{ "hooks": { "AfterTool": [{ "hooks": [
        { "command": "cat", "async": true, "timeot": 5 }
    ] }] }, "hooksConfig": { "future": 1 } }"#;

    assert_snapshot!(messages("", &[("s.json", settings)]), @r"
    s.json:2:29: hook `cat` on AfterTool: unknown key `async`
    s.json:2:44: hook `cat` on AfterTool: unknown key `timeot`; did you mean `timeout`?
    s.json:3:30: unknown key `hooksConfig.future`
    ");
    assert_eq!(running("", &[("s.json", settings)]), ["cat"]);
}

#[test]
fn hooks_of_files_come_first_and_in_order() {
    let file = |label: &str| {
        let hook = json!({ "command": label });
        json!({ "hooks": { "AfterTool": [{ "hooks": [hook] }] } }).to_string()
    };
    let (one, two) = (file("one"), file("two"));
    let text = "hooks: { AfterTool: [{ hooks: [{ command: own }] }] }";

    assert_eq!(
        running(text, &[("1.json", &one), ("2.json", &two)]),
        ["one", "two", "own"]
    );
}

#[test]
fn the_settings_of_a_hook_come_from_its_source_and_the_defaults() {
    let text = "\
hook_defaults: { on_failure: closed, timeout: 2s }
hook_files: [{ path: s.json, protocol: llxprt, system_messages: true }]
hooks:
  BeforeModel:
    - hooks:
        - { command: a, on_failure: open, mode: observe, document: true, timeout: 500ms }
";
    let settings = r#"{ "hooks": { "AfterModel": [{ "hooks": [{ "command": "b" }] }] } }"#;
    let (_directory, config) = load(text, &[("s.json", settings)]);
    let config = config.unwrap();

    let (_, own) = hooks(&config)[0];
    assert_eq!(own.protocol, "gemini");
    assert_eq!(own.system_messages, SystemMessages::Hidden);
    assert_eq!(
        (own.on_failure, own.mode),
        (FailureMode::Open, HookMode::Observe)
    );
    assert!(own.document);
    assert_eq!(own.timeout, Duration::from_millis(500));
    let (_, other) = hooks(&config)[1];
    assert_eq!(other.protocol, "llxprt");
    assert_eq!(other.system_messages, SystemMessages::Shown);
    assert_eq!(
        (other.on_failure, other.mode),
        (FailureMode::Closed, HookMode::Enforce)
    );
    assert!(!other.document);
    assert_eq!(other.timeout, Duration::from_secs(2));
}

#[test]
fn a_false_in_a_settings_file_switches_off_the_hooks_of_that_file() {
    let own = "hooks: { AfterTool: [{ hooks: [{ command: cat }] }] }";
    let block = r#""AfterTool": [{ "hooks": [{ "command": "theirs" }] }]"#;
    let switches = [
        format!(r#"{{ "hooks": {{ "enabled": false, {block} }} }}"#),
        format!(r#"{{ "hooks": {{ {block} }}, "hooksConfig": {{ "enabled": false }} }}"#),
        format!(r#"{{ "hooks": {{ {block} }}, "tools": {{ "enableHooks": false }} }}"#),
        format!(
            r#"{{ "hooks": {{ "enabled": true, {block} }}, "tools": {{ "enableHooks": false }} }}"#
        ),
    ];
    for settings in &switches {
        assert_eq!(running(own, &[("s.json", settings)]), ["cat"], "{settings}");
    }

    assert_snapshot!(messages(own, &[("s.json", &switches[1])]), @r"s.json:1:99: the hooks of this file are disabled here");
}

#[test]
fn a_false_in_the_config_switches_off_all_hooks() {
    let settings =
        r#"{ "hooks": { "enabled": true, "AfterTool": [{ "hooks": [{ "command": "a" }] }] } }"#;
    let own = "AfterTool: [{ hooks: [{ command: own }] }]";
    let switches = [
        format!("hooks: {{ {own} }}\nhooksConfig: {{ enabled: false }}"),
        format!("hooks: {{ enabled: false, {own} }}"),
    ];
    for text in &switches {
        assert!(running(text, &[("s.json", settings)]).is_empty(), "{text}");
    }
}

#[test]
fn hooks_are_on_and_switches_are_no_events() {
    let settings = r#"{ "hooks": { "enabled": true, "notifications": false, "disabled": [],
        "AfterTool": [{ "hooks": [{ "command": "cat" }] }] },
        "hooksConfig": { "enabled": true, "notifications": true }, "tools": { "enableHooks": true } }"#;

    assert_eq!(running("", &[("s.json", settings)]), ["cat"]);
    assert_eq!(messages("", &[("s.json", settings)]), "");
}

#[test]
fn names_that_a_settings_file_disables_count_for_settings_files_only() {
    let settings = r#"{ "hooks": { "disabled": ["own"],
        "AfterTool": [{ "hooks": [{ "command": "a", "name": "named" }, { "command": "cut" }] }],
        "SessionEnd": [{ "hooks": [{ "command": "c" }] }] },
        "hooksConfig": { "disabled": ["c"] } }"#;
    let text = "\
hooks: { AfterTool: [{ hooks: [{ name: own, command: cat }] }] }
hooksConfig: { disabled: [named, a, typo] }
";
    let settings = [("s.json", settings)];

    assert_eq!(running(text, &settings), ["cut", "own"]);
    let (_directory, config) = load(text, &settings);
    let events: Vec<_> = config.unwrap().hooks.into_keys().collect();
    assert_eq!(events, [EventName::AfterTool]);
    assert_snapshot!(messages(text, &settings), @r"
    s.json:1:27: hook `own` of the config cannot be disabled by a settings file
    hookgate.yaml:3:34: no hook is named `a`, so none is disabled
    hookgate.yaml:3:37: no hook is named `typo`, so none is disabled
    ");
}

#[test]
fn a_matcher_that_is_no_expression_is_warned_of() {
    let text = "\
hooks:
  BeforeTool:
    - { matcher: '*_file', hooks: [{ command: cat }] }
    - { matcher: 'write_*', hooks: [{ command: cut }] }
";
    assert_snapshot!(messages(text, &[]), @"hookgate.yaml:4:18: matcher `*_file` is not a JavaScript regular expression (nothing to repeat), so it is a glob");
}

#[test]
fn a_hook_file_that_is_missing_broken_or_named_twice_is_a_problem() {
    let text = "\
hook_files:
  - { path: gone.json }
  - { path: s.json }
  - { path: broken.json }
  - { path: s.json }
";
    assert_snapshot!(messages(text, &[("s.json", "{}"), ("broken.json", "{\n  \"a\": [\n}")]), @r"
    hookgate.yaml:3:13: `gone.json` cannot be read: No such file or directory (os error 2)
    hookgate.yaml:6:13: `s.json` is named twice
    broken.json:2:8: neither YAML nor JSON: mismatched bracket '[' closed by '}'
    ");
}

#[test]
fn settings_files_without_hooks_are_reported() {
    let without = "the settings file has no hooks, so none of it runs";
    for (settings, expected) in [
        ("", "s.json:1:1: the settings file is empty"),
        ("null", "s.json:1:1: the settings file is empty"),
        ("{}", "s.json:1:1: WITHOUT"),
        ("{\"hooks\": {}}", "s.json:1:1: WITHOUT"),
        ("{\"ui\": {}}", "s.json:1:1: WITHOUT"),
        (
            "{\"ui\": {}, \"hook\": {}}",
            "s.json:1:12: WITHOUT; did you mean `hooks`?",
        ),
        (
            "{\"Hooks\": {}}",
            "s.json:1:2: WITHOUT; did you mean `hooks`?",
        ),
        (
            "{\"hooksconfig\": {}}",
            "s.json:1:2: WITHOUT; did you mean `hooksConfig`?",
        ),
        (
            "{\"BeforeModel\": []}",
            "s.json:1:2: WITHOUT; events belong under `hooks`",
        ),
        (
            "{\"PreToolUse\": []}",
            "s.json:1:2: WITHOUT; events belong under `hooks`",
        ),
        ("{\"hooksConfig\": {\"enabled\": false}}", ""),
    ] {
        let expected = expected.replace("WITHOUT", without);
        assert_eq!(
            messages("", &[("s.json", settings)]),
            expected,
            "{settings}"
        );
    }
}

#[test]
fn equal_hooks_with_other_strictness_are_warned_of_in_all_groups_and_files() {
    let text = "\
hooks:
  BeforeTool:
    - hooks: [{ name: g, command: cat, mode: observe }, { name: h, command: cut }]
    - { matcher: rm, hooks: [{ name: g, command: cat, on_failure: closed }, { name: h, command: cut }] }
";
    let file = r#"{ "hooks": { "BeforeTool": [{ "hooks": [
        { "name": "g", "command": "cat", "on_failure": "closed" }
    ] }] } }"#;
    let with_file = messages(text, &[("s.json", file)]);

    assert_snapshot!(messages(text, &[]), @"hookgate.yaml:5:30: hook `g` on BeforeTool is also at hookgate.yaml:4:15, with other settings: where both match, only one runs, the strictest or else the first; give them different names to run both");
    assert_snapshot!(with_file, @r"
    hookgate.yaml:4:15: hook `g` on BeforeTool is also at s.json:2:9, with other settings: where both match, only one runs, the strictest or else the first; give them different names to run both
    hookgate.yaml:5:30: hook `g` on BeforeTool is also at hookgate.yaml:4:15, with other settings: where both match, only one runs, the strictest or else the first; give them different names to run both
    ");
}

/// Loads a config with the policies of a bundle, which has these files.
fn load_bundle(trust: BundleTrust, files: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let (gateway, bundle) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, text) in files {
        fs::write(bundle.path().join(name), text).unwrap();
    }
    let path = gateway.path().join("hookgate.yaml");
    fs::write(&path, "upstreams: { gemini: { url: http://a } }\n").unwrap();
    let layer = PolicyLayer {
        name: "org".to_owned(),
        directory: bundle.path().to_owned(),
        digest: String::new(),
        bundle: None,
        trust,
        allowed: BundleCapability::all(),
    };
    let overrides = Overrides {
        layers: vec![layer],
        ..Overrides::default()
    };
    Config::load(&path, &overrides, &REGISTRY)
}

#[test]
fn an_unsigned_bundle_refers_to_no_secret() {
    let files = [
        (
            "hookgate.yaml",
            "\
hooks:
  BeforeModel:
    - hooks: [{ type: http, url: 'http://a', bearer: { env: CARGO_MANIFEST_DIR } }]
hook_files: [{ path: settings.json }]
",
        ),
        (
            "settings.json",
            r#"{ "hooks": { "BeforeModel": [{ "hooks": [
                { "type": "http", "url": "http://b", "bearer": { "file": "/nowhere/token" } }
            ] }] } }"#,
        ),
    ];

    let error = load_bundle(BundleTrust::Unsigned, &files).unwrap_err();

    let lines: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    let message = "the setting refers to a secret, but the bundle is not signed";
    for (line, position) in lines.iter().zip(["hookgate.yaml:3:", "settings.json:2:"]) {
        assert!(line.contains(position) && line.ends_with(message), "{line}");
    }
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn the_version_changes_with_a_case_file() {
    let config = "\
hook_files: []
policies: [{ policy: model_allow, models: [a], must_deny: [cases.yaml] }]
";
    let version = |cases| load(config, &[("cases.yaml", cases)]).1.unwrap().version;

    assert_eq!(version("cases: [one]"), version("cases: [one]"));
    assert_ne!(version("cases: [one]"), version("cases: [one, two]"));
}

#[test]
fn an_invalid_list_of_groups_is_reported_beside_another_event_of_its_meaning() {
    let invalid = r#""Stop": { "hooks": [{ "type": "command", "command": "a" }] }"#;
    let valid = r#""SubagentStop": [{ "hooks": [{ "type": "command", "command": "b" }] }]"#;
    let config = "hook_files: [{ path: s.json, protocol: claude }]";

    for (first, second, position) in [(invalid, valid, "s.json:2:"), (valid, invalid, "s.json:3:")]
    {
        let settings = format!("{{ \"hooks\": {{\n{first},\n{second}\n}} }}");
        let (directory, config) = load(config, &[("s.json", &settings)]);
        let error = config.map(|config| hooks(&config).len()).unwrap_err();
        let error = error.to_string();
        let error = error.replace(&format!("{}/", directory.path().display()), "");
        assert!(error.starts_with(position), "{error}");
        assert!(error.contains("must be a list"), "{error}");
    }
}

#[test]
fn a_missing_secret_is_reported_beside_wrong_values_of_its_settings_file() {
    let settings = r#"{ "hooks": { "BeforeModel": [{ "hooks": [
        { "command": "a", "timeout": "soon" },
        { "type": "http", "url": "http://a", "bearer": { "file": "absent" } }
    ] }] } }"#;

    let messages = messages("", &[("s.json", settings)]);

    let lines: Vec<&str> = messages.lines().collect();
    let [wrong, missing] = lines.as_slice() else {
        panic!("{messages}");
    };
    assert!(
        wrong.starts_with("s.json:2:") && wrong.contains("`timeout`"),
        "{wrong}"
    );
    assert!(
        missing.starts_with("s.json:3:") && missing.contains("`absent`"),
        "{missing}"
    );
}

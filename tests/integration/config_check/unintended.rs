//! Settings that are valid, and probably have another effect than intended.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;
use tempfile::TempDir;

use super::check;
use crate::harness::run;

const UPSTREAM: &str = "upstreams: { gemini: { url: https://a.example } }\n";

/// Lines of stderr of a `check` that succeeds, but for hooks that fail open.
fn warnings(config: &str) -> Vec<String> {
    let (code, _, stderr) = check(&format!("{UPSTREAM}{config}"));
    assert_eq!(code, 0, "{config}: {stderr}");
    let lines = stderr.lines().filter(|line| !line.contains("fails open"));
    lines.map(str::to_owned).collect()
}

#[test]
fn yaml_tags_without_an_effect_are_warnings() {
    let found = warnings(
        "\
log: !settings
  level: !env info
!key denials: error
coverage: { allow: [!!python/name files.create] }
",
    );

    assert_eq!(
        found,
        [
            "warning: hookgate.yaml:4:6: the YAML tag `!key` is unknown, and has no effect",
            "warning: hookgate.yaml:3:3: the YAML tag `!settings` is unknown, and has no effect",
            "warning: hookgate.yaml:3:15: the YAML tag `!env` is unknown, and has no effect",
            "warning: hookgate.yaml:5:35: the YAML tag `!!python/name` is unknown, and has no effect",
        ]
    );
}

#[test]
fn core_tags_have_their_effect() {
    let tagged = "listen: !!str 127.0.0.1:8787\nlimits: !!map { in_flight: !!int \"3\" }\ncoverage: { allow: !!seq [! files.create] }\n";
    assert_eq!(warnings(tagged), [""; 0]);

    for (setting, problem) in [
        (
            "limits: { in_flight: !!str 3 }",
            "2:28: `limits.in_flight` must be a whole number",
        ),
        (
            "limits: { in_flight: !!int x }",
            "2:28: neither YAML nor JSON",
        ),
        (
            "limits: !!seq { in_flight: 3 }",
            "2:15: neither YAML nor JSON",
        ),
        (
            "listen: !!timestamp 2026-01-01",
            "2:21: neither YAML nor JSON",
        ),
    ] {
        let (code, _, stderr) = check(&format!("{UPSTREAM}{setting}\n"));

        assert_eq!(code, 78, "{setting}");
        let problem = format!("hookgate.yaml:{problem}");
        assert!(stderr.starts_with(&problem), "{setting}: {stderr}");
    }
}

/// Makes a folder with programs of hooks, some of whose first lines end with CRLF.
fn folder_of_programs() -> TempDir {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str, mode| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::create_dir(folder.path().join("hooks")).unwrap();
    write("hooks/guard.sh", "#!/bin/sh\n", 0o755);
    write("hooks/plain.sh", "#!/bin/sh\n", 0o644);
    for (name, first_line) in [
        ("crlf.sh", "/bin/sh"),
        ("env.py", " /usr/bin/env python3"),
        ("option.sh", "/bin/sh -e"),
        ("perl.pl", "/usr/bin/perl"),
        ("argument.pl", "/usr/bin/perl -w"),
        ("split.py", "/usr/bin/env -S python3 -u"),
    ] {
        let text = format!("#!{first_line}\r\nexit 0\r\n");
        write(&format!("hooks/{name}"), &text, 0o755);
    }
    folder
}

#[test]
fn missing_programs_of_hooks_are_warnings() {
    let folder = folder_of_programs();
    let config = "\
hook_directory: hooks
hooks:
  BeforeModel:
    - hooks:
        - { name: a, command: ./guard.sh --strict }
        - { name: b, command: hooks/guard.sh }
        - { name: c, command: ./plain.sh }
        - { name: d, command: /nowhere/guard }
        - { name: e, command: no-such-guard | cat }
        - { name: f, command: cat; ./gone.sh }
        - { name: g, command: 'exit 0' }
        - { name: h, command: '\"$CLAUDE_PROJECT_DIR\"/gone.sh', env: { CLAUDE_PROJECT_DIR: /opt } }
        - { name: i, command: no-such-guard, env: { PATH: /opt } }
        - { name: j, type: worker, command: ./gone.py }
        - { name: k, command: ./crlf.sh }
        - { name: l, command: ./env.py }
        - { name: m, command: ./argument.pl }
        - { name: n, command: ./split.py }
        - { name: o, command: ./option.sh }
        - { name: p, command: ./perl.pl }
";
    fs::write(
        folder.path().join("hookgate.yaml"),
        format!("{UPSTREAM}{config}"),
    )
    .unwrap();

    let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 0, "{stderr}");
    let lines = stderr.lines().filter(|line| line.contains("program"));
    let found: Vec<&str> = lines.collect();
    assert_eq!(
        found,
        [
            "warning: hookgate.yaml:7:11: hook `b` on BeforeModel: there is no program `hooks/guard.sh` in `hook_directory`",
            "warning: hookgate.yaml:8:11: hook `c` on BeforeModel: the program `./plain.sh` is not executable",
            "warning: hookgate.yaml:9:11: hook `d` on BeforeModel: there is no program `/nowhere/guard`",
            "warning: hookgate.yaml:10:11: hook `e` on BeforeModel: there is no program `no-such-guard` in `PATH`",
            "warning: hookgate.yaml:15:11: hook `j` on BeforeModel: there is no program `./gone.py` in `hook_directory`",
            "warning: hookgate.yaml:16:11: hook `k` on BeforeModel: the first line of the program `./crlf.sh` ends with CRLF, so its interpreter is not found, or refuses its argument",
            "warning: hookgate.yaml:17:11: hook `l` on BeforeModel: the first line of the program `./env.py` ends with CRLF, so its interpreter is not found, or refuses its argument",
            "warning: hookgate.yaml:20:11: hook `o` on BeforeModel: the first line of the program `./option.sh` ends with CRLF, so its interpreter is not found, or refuses its argument",
            "warning: hookgate.yaml:21:11: hook `p` on BeforeModel: the first line of the program `./perl.pl` ends with CRLF, so its interpreter is not found, or refuses its argument",
        ]
    );
}

#[test]
fn a_missing_program_of_a_settings_file_names_the_directory_of_hooks() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["config", "project/.claude/hooks"] {
        fs::create_dir_all(path(name)).unwrap();
    }
    let guard = path("project/.claude/hooks/deny.sh");
    fs::write(&guard, "#!/bin/sh\nexit 2\n").unwrap();
    fs::set_permissions(&guard, fs::Permissions::from_mode(0o755)).unwrap();
    let file = ".claude/hooks/deny.sh";
    let commands = [
        format!("\"$CLAUDE_PROJECT_DIR\"/{file} --strict"),
        format!("\"${{CLAUDE_PROJECT_DIR}}/{file}\""),
        format!("$GEMINI_PROJECT_DIR/{file}"),
        format!("${{TABNINE_PROJECT_DIR}}/{file}; true"),
    ];
    let hooks = commands.map(|command| json!({ "type": "command", "command": command }));
    let settings = json!({ "hooks": { "PreToolUse": [{ "hooks": hooks }] } });
    let settings = settings.to_string();
    fs::write(path("project/.claude/settings.json"), settings).unwrap();
    let check = |directory: &str| {
        let files = "hook_files: [{ path: ../project/.claude/settings.json }]\n";
        let config = format!("{UPSTREAM}{files}{directory}");
        fs::write(path("config/hookgate.yaml"), config).unwrap();
        let (code, _, stderr) = run(&["check", "config/hookgate.yaml"], folder.path());
        assert_eq!(code, 0, "{stderr}");
        let lines = stderr.lines().filter(|line| line.contains("program"));
        lines.map(str::to_owned).collect::<Vec<String>>()
    };

    let missing = check("");

    assert_eq!(missing.len(), 4, "{missing:#?}");
    for line in &missing {
        assert!(
            line.contains(
                "_PROJECT_DIR/.claude/hooks/deny.sh`: the variable is `hook_directory` (`/"
            )
        );
        assert!(line.ends_with("/config`)"), "{line}");
    }
    assert_eq!(check("hook_directory: ../project\n"), [""; 0]);
}

#[test]
fn missing_scripts_of_interpreters_are_warnings() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("guard.sh"), "exit 0\n").unwrap();
    let config = "\
hooks:
  BeforeModel:
    - hooks:
        - { name: a, command: sh guard.sh }
        - { name: b, command: bash -c ./gone.sh }
        - { name: c, command: sh gone }
        - { name: d, command: sh gone.sh --strict }
        - { name: e, command: bash /nowhere/gone.sh }
";
    fs::write(
        folder.path().join("hookgate.yaml"),
        format!("{UPSTREAM}{config}"),
    )
    .unwrap();

    let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 0, "{stderr}");
    let lines = stderr.lines().filter(|line| line.contains("there is no"));
    let found: Vec<&str> = lines.collect();
    assert_eq!(
        found,
        [
            "warning: hookgate.yaml:8:11: hook `d` on BeforeModel: there is no script `gone.sh` in `hook_directory`",
            "warning: hookgate.yaml:9:11: hook `e` on BeforeModel: there is no script `/nowhere/gone.sh`",
        ]
    );
}

#[test]
fn an_otlp_endpoint_of_one_signal_is_a_warning() {
    let endpoint = |path: &str| {
        format!("telemetry: {{ otlp: {{ endpoint: 'http://127.0.0.1:4318{path}' }} }}\n")
    };

    for path in ["/v1/traces", "/v1/logs/", "/collector/v1/metrics"] {
        let found = warnings(&endpoint(path));
        assert_eq!(found.len(), 1, "{found:?}");
        let start = "warning: hookgate.yaml:2:32: hookgate appends `/v1/traces` and `/v1/logs`";
        assert!(found[0].starts_with(start), "{found:?}");
    }
    for path in ["", "/", "/collector", "/v1"] {
        assert_eq!(warnings(&endpoint(path)), [""; 0], "{path}");
    }
}

#[test]
fn a_folder_of_recordings_that_is_none_is_refused() {
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("hookgate.yaml");
    for (path, problem) in [
        ("hookgate.yaml", "`record.path` is not a directory"),
        (
            "hookgate.yaml/a/b",
            "a parent of `record.path` is not a directory",
        ),
    ] {
        fs::write(&config, format!("{UPSTREAM}record: {{ path: {path} }}\n")).unwrap();

        let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

        assert_eq!(
            (code, stderr),
            (78, format!("hookgate.yaml:2:17: {problem}: `{path}`\n"))
        );
    }
    for path in [".", "a/b"] {
        assert_eq!(warnings(&format!("record: {{ path: {path} }}\n")), [""; 0]);
    }
}

#[test]
fn a_first_byte_timeout_that_ends_before_a_connection_over_http2_is_a_warning() {
    let expected = "warning: hookgate.yaml:2:25: calls that get no connection over HTTP/2 do not \
                    open the circuit breaker: `timeouts.upstream_connect` is not shorter\n";
    for (http2, first_byte, expected) in
        [(true, "5s", expected), (true, "6s", ""), (false, "5s", "")]
    {
        let config = format!(
            "upstreams: {{ gemini: {{ url: https://a.example, http2: {http2} }} }}\n\
             timeouts: {{ first_byte: {first_byte} }}\n"
        );

        let (code, _, stderr) = check(&config);

        assert_eq!((code, &*stderr), (0, expected), "{http2} {first_byte}");
    }
}

#[test]
fn a_base_url_with_a_version_is_a_warning() {
    let found = |api: &str, path: &str| {
        let url = format!("https://a.example{path}");
        let (code, _, stderr) = check(&format!("upstreams: {{ {api}: {{ url: {url} }} }}\n"));
        assert_eq!(code, 0, "{stderr}");
        stderr
    };

    for (api, path, called, version) in [
        ("openai", "/v1", "/v1/v1/chat/completions", "/v1"),
        (
            "openai",
            "/api/v1/chat/completions/",
            "/api/v1/chat/completions/v1/chat/completions",
            "/v1/chat/completions",
        ),
        (
            "anthropic",
            "/v1/messages",
            "/v1/messages/v1/messages",
            "/v1/messages",
        ),
        ("gemini", "/v1beta/", "/v1beta/v1beta/models", "/v1beta"),
        ("vertex", "/v1", "/v1/v1/projects", "/v1"),
        ("vertex", "/v1alpha1", "/v1alpha1/v1/projects", "/v1alpha1"),
        (
            "code_assist",
            "/v1internal",
            "/v1internal/v1internal",
            "/v1internal",
        ),
    ] {
        let warning = format!("so that it calls `{called}`: leave out `{version}`");
        let stderr = found(api, path);
        assert!(stderr.contains(&warning), "{stderr}");
        assert!(stderr.starts_with("warning: hookgate.yaml:1:"), "{stderr}");
    }
    for (api, path) in [
        ("openai", "/api"),
        ("openai", "/openai/"),
        ("anthropic", "/v1/account/anthropic"),
        ("openai", "/v1-prod"),
        ("openai", "/v100"),
        ("gemini", ""),
    ] {
        assert_eq!(found(api, path), "", "{api} {path}");
    }
}

#[test]
fn matchers_that_no_tool_matches_are_warnings() {
    let group = |matcher: &str| {
        warnings(&format!(
            "hooks: {{ BeforeTool: [{{ matcher: '{matcher}', hooks: [{{ command: cat }}] }}] }}\n"
        ))
    };

    for (matcher, problem) in [
        ("read_file | write_file", "has blanks beside `|`"),
        ("read_file| write_file", "has blanks beside `|`"),
        ("a |b", "has blanks beside `|`"),
        ("Bash(rm *)", "is a permission rule"),
        ("Bash(npm run test:*)", "is a permission rule"),
    ] {
        let found = group(matcher);
        assert_eq!(found.len(), 1, "{found:?}");
        let start = format!("warning: hookgate.yaml:2:34: the matcher {problem}");
        assert!(found[0].starts_with(&start), "{found:?}");
    }
    for matcher in [
        " read_file",
        "read_file ",
        "read_file|write_file",
        "a b",
        "[ |]a",
        "mcp__(a|b)",
        "read(?:_file)",
    ] {
        assert_eq!(group(matcher), [""; 0], "{matcher}");
    }
}

#[test]
fn empty_names_have_no_effect_and_are_warnings() {
    let config = "\
policies: [{ policy: prompt_guard, name: '', deny: [x] }]
hooks:
  BeforeModel:
    - hooks: [{ name: ' ', command: 'false' }, { name: '', command: 'exit 3' }]
";
    let folder = TempDir::new().unwrap();
    let text = format!("{UPSTREAM}{config}");
    fs::write(folder.path().join("hookgate.yaml"), text).unwrap();
    let event = r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#;
    fs::write(folder.path().join("event.json"), event).unwrap();

    let (_, _, checked) = run(&["check", "hookgate.yaml"], folder.path());
    let arguments = ["explain", "--config", "hookgate.yaml", "event.json"];
    let (code, explained, stderr) = run(&arguments, folder.path());

    for position in ["2:42", "5:23", "5:56"] {
        let warning =
            format!("warning: hookgate.yaml:{position}: the name is empty, so it has no effect\n");
        assert!(checked.contains(&warning), "{position}: {checked}");
    }
    assert_eq!(code, 0, "{stderr}");
    for name in ["prompt_guard (", "false (", "exit 3 ("] {
        assert!(explained.contains(name), "{name}: {explained}");
    }
}

#[test]
fn settings_that_others_leave_without_an_effect_are_warnings() {
    let unused = |config: &str| {
        let found = warnings(config).into_iter();
        let found = found.filter_map(|line| Some(line.split_once("no effect: ")?.1.to_owned()));
        found.collect::<Vec<_>>()
    };
    let limits = |more: &str| {
        let key = "a".repeat(64);
        format!("auth: {{ keys: [{{ name: a, sha256: {key} }}], limits: {{ {more} }} }}\n")
    };

    let in_memory = "limits are counted in memory";
    let both = limits("on_store_loss: closed, min_replicas: 3");
    assert_eq!(unused(&both), [in_memory, in_memory]);
    let defaults = limits("on_store_loss: share, min_replicas: 1");
    assert_eq!(unused(&defaults), [""; 0]);
    let store = unused("coverage: { store: never }\n");
    assert_eq!(store, ["`upstreams.openai` is missing"]);
    let compaction = unused("coverage: { compaction: known }\n");
    assert_eq!(compaction, ["no API of `upstreams` has such summaries"]);
    let trace = "trace: { exchanges: 0, content: { reasons: true } }\n";
    assert_eq!(unused(trace), ["`trace.exchanges` is 0"]);
    assert_eq!(unused("trace: { content: { reasons: true } }\n"), [""; 0]);
}

#[test]
fn empty_lists_of_recordings_are_refused() {
    let config = "record: { path: ., what: { callers: [] }, encrypt_to: [] }\n";

    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("hookgate.yaml"),
        format!("{UPSTREAM}{config}"),
    )
    .unwrap();
    let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 78, "{stderr}");
    for name in ["record.what.callers", "record.encrypt_to"] {
        let problem = format!("`{name}` must be a list, but it is empty");
        assert!(stderr.contains(&problem), "{stderr}");
    }
}

#[test]
fn policies_on_events_without_what_they_act_on_are_warnings() {
    let builtin = |event: &str, policy: &str| {
        let found = warnings(&format!(
            "hooks: {{ {event}: [{{ hooks: [{{ type: builtin, policy: {policy} }}] }}] }}\n"
        ));
        found.concat()
    };

    for (event, on) in [
        ("BeforeModel", "answer"),
        ("AfterModel", "request"),
        ("BeforeTool", "tool_results"),
        ("AfterTool", "answer"),
        ("BeforeAgent", "answer"),
    ] {
        let found = builtin(event, &format!("redact, on: [{on}]"));
        let expected =
            format!("policy `redact`: has no effect: nothing in `on` is searched on {event}");
        assert!(found.contains(&expected), "{found}");
        assert!(!builtin(event, "redact").contains("no effect"));
    }
    let found = builtin("BeforeModel", "request_limits, max_tokens: 9");
    assert!(
        found.contains("`max_tokens` has no effect: tokens are counted on AfterModel"),
        "{found}"
    );
    let found = builtin("AfterModel", "request_limits, max_tokens: 9");
    assert!(
        found.contains("has no effect: limits are checked on BeforeModel"),
        "{found}"
    );
    let found = builtin("BeforeModel", "request_limits, max_calls: 9");
    assert!(!found.contains("no effect"), "{found}");
    let hook = "[{ hooks: [{ type: builtin, policy: request_limits, max_tokens: 9 }] }]";
    let both = format!("hooks: {{ BeforeModel: {hook}, AfterModel: {hook} }}\n");
    assert!(!warnings(&both).concat().contains("no effect"));
    let when = "when: event == 'BeforeModel'";
    let limit = format!("policies: [{{ policy: request_limits, max_tokens: 9, {when} }}]\n");
    assert!(
        warnings(&limit)
            .concat()
            .contains("`max_tokens` has no effect")
    );
}

#[test]
fn names_that_no_tool_or_model_has_are_warnings() {
    let found = |policy: &str| warnings(&format!("policies: [{{ policy: {policy} }}]\n")).concat();

    for glob in ["Bash(rm:*)", "", "run shell"] {
        let expected = format!("policy `tool_guard`: `{glob}` cannot be the name of a tool");
        for guard in [
            format!("deny: ['{glob}']"),
            format!("allow: [a, '{glob}']"),
            format!("rules: [{{ tool: '{glob}', argument: /a, matches: b }}]"),
        ] {
            let found = found(&format!("tool_guard, {guard}"));
            assert!(found.contains(&expected), "{guard}: {found}");
        }
    }
    assert_eq!(
        found("tool_guard, deny: ['mcp__*', 'mcp:my files', '{a,b}?']"),
        ""
    );
    let rule = "tool_guard, rules: [{ tool: a, argument: /a, optional: true }]";
    assert!(found(rule).contains("`rules[0]` permits everything"));
    for (swap, expected) in [
        ("swap: { models/a: b }", "`models/a` matches no model"),
        (
            "rules: [{ model: models/a, to: b }]",
            "`models/a` matches no model",
        ),
        (
            "swap: { 'gpt-*': b }",
            "`gpt-*` in `swap` cannot be the name of a model",
        ),
    ] {
        let found = found(&format!("model_swap, {swap}"));
        assert!(found.contains(expected), "{swap}: {found}");
    }
}

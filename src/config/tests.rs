//! What operators can write, and the messages about mistakes.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use insta::assert_snapshot;
use proptest::prelude::*;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::*;
use crate::{event::EventName, hook::registry};

const MINIMAL: &str = "upstreams: { gemini: { url: http://127.0.0.1:9 } }\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("hookgate.yaml"), &registry())
}

/// Parses `text` after the least that a config needs.
fn parse_more(text: &str) -> Result<Config, ConfigError> {
    parse(&format!("{MINIMAL}{text}"))
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

fn warnings(config: &Config) -> String {
    let lines: Vec<String> = config.warnings.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

/// Every hook that runs, as `Event: label`.
fn running(config: &Config) -> Vec<String> {
    let groups = config.hooks.iter().flat_map(|(event, groups)| {
        let hooks = groups.iter().flat_map(|it| &it.hooks);
        hooks.map(move |hook| format!("{event}: {}", hook.label()))
    });
    groups.collect()
}

/// A directory with these files, and the config among them.
fn directory(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let config = directory.path().join("hookgate.yaml");
    (directory, config)
}

fn load(path: &Path) -> Result<Config, ConfigError> {
    Config::load(path, &Overrides::default(), &registry())
}

/// The message of `error` without the directory its files are in.
fn without(directory: &tempfile::TempDir, error: &impl ToString) -> String {
    let directory = format!("{}/", directory.path().display());
    error.to_string().replace(&directory, "")
}

#[test]
fn five_mistakes_in_one_file_are_all_listed() {
    let text = "\
listen: localhost
upstreams:
  gemini: { url: https://example.org?key=1 }
limits:
  hedaers: 1KiB
hooks:
  BeforeModel:
    - hooks:
        - { name: guard, comand: ./guard.sh }
";
    assert_snapshot!(refusal(text), @r"
    hookgate.yaml:1:9: `listen` must be an IP address and a port such as `127.0.0.1:8787`, not `localhost`
    hookgate.yaml:3:18: `upstreams.gemini.url` must be an http or https URL without user, query or fragment
    hookgate.yaml:5:3: unknown key `limits.hedaers`; did you mean `headers`?
    hookgate.yaml:9:11: hook `guard` on BeforeModel: `command` is missing
    hookgate.yaml:9:26: hook `guard` on BeforeModel: unknown key `comand`; did you mean `command`?
    ");
}

#[test]
fn every_kind_of_mistake_is_put_in_words() {
    let text = "\
upstreams: { gemini: {} }
admin: { token: sk-123 }
limits: { body: lots, in_flight: 0, event: -1, headers: 99999999999999999999 }
timeouts: { idle: ~, drain: 5 }
denials: loud
log: []
hooks:
  BeforeModle: []
  BeforeModel:
    - matcher: 5
      hooks:
        - { type: plugin, command: a, timeout: soon, on_failure: maybe }
        - { command: ' ', env: { 1-A: x, B: 2 }, document: yes }
        - { command: '', mode: '' }
        - text
hook_files: [{ path: missing.json, protocol: semaphore }]
hook_directory: missing
session: {}
";
    assert_snapshot!(refusal(text), @r"
    hookgate.yaml:1:14: `upstreams.gemini.url` is missing
    hookgate.yaml:2:17: `admin.token` must be `{ env: NAME }` or `{ file: PATH }`; a secret never stands in the config itself
    hookgate.yaml:3:17: `limits.body` must be a size such as `32MiB`, or a number of bytes, not `lots`
    hookgate.yaml:3:34: `limits.in_flight` must be a number from 1 to 1000000, not `0`
    hookgate.yaml:3:44: `limits.event` must be a size such as `32MiB`, or a number of bytes, not `-1`
    hookgate.yaml:3:57: `limits.headers` must be a size such as `32MiB`, or a number of bytes, not `100000000000000000000`
    hookgate.yaml:4:19: `timeouts.idle` must be a duration such as `30s` or `500ms`, but nothing is here
    hookgate.yaml:4:29: `timeouts.drain` must be a duration such as `30s` or `500ms`, not a number
    hookgate.yaml:5:10: `denials` must be `message` or `error`, not `loud`
    hookgate.yaml:6:6: `log` must be a mapping, not a list
    hookgate.yaml:8:3: unknown event `BeforeModle`; did you mean `BeforeModel`?
    hookgate.yaml:10:16: `hooks.BeforeModel[0].matcher` must be text, not a number
    hookgate.yaml:12:19: hook `a` on BeforeModel: `type` must be `command` or `http` or `worker` or `builtin`, not `plugin`
    hookgate.yaml:12:48: hook `a` on BeforeModel: `timeout` must be a number of milliseconds, or a duration such as `5s`, not `soon`
    hookgate.yaml:12:66: hook `a` on BeforeModel: `on_failure` must be `open` or `closed`, not `maybe`
    hookgate.yaml:13:22: a hook on BeforeModel: `command` must be a command, not ` `
    hookgate.yaml:13:34: a hook on BeforeModel: `env.1-A` must be named like an environment variable
    hookgate.yaml:13:45: a hook on BeforeModel: `env.B` must be text, not a number
    hookgate.yaml:13:60: a hook on BeforeModel: `document` must be true or false, not `yes`
    hookgate.yaml:14:22: a hook on BeforeModel: `command` must be a command, but it is empty
    hookgate.yaml:14:32: a hook on BeforeModel: `mode` must be `enforce` or `observe`, but it is empty
    hookgate.yaml:15:11: a hook on BeforeModel: it must be a mapping, not text
    hookgate.yaml:16:22: `missing.json` cannot be read: No such file or directory (os error 2)
    hookgate.yaml:16:46: `hook_files[0].protocol` must be `gemini` or `terminai` or `tabnine` or `llxprt` or `claude` or `codex`, not `semaphore`
    hookgate.yaml:17:17: `hook_directory` is not a directory: `missing`
    hookgate.yaml:18:1: unknown key `session`; did you mean `sessions`?
    ");
}

#[test]
fn a_hook_has_the_fields_of_its_type() {
    let hooks = "\
hooks:
  BeforeModel:
    - hooks:
        - { type: http, name: a, command: ./a.sh, env: { K: v } }
        - { type: http, url: 'https://u:pw@a/hook', bearer: s3cr3t }
        - { type: worker, name: c, url: http://a, instances: 0 }
        - { name: d, command: ./d.sh, url: http://a, bearer: { env: K }, instances: 2 }
        - { type: worker, name: e, command: ./e.py, instance: 2 }
        - { type: worker, name: f, command: ./f.py, prewarm: 2 }
        - { name: g, command: ./g.py, prewarm: 0 }
        - { type: worker, name: h, command: ./h.py, answer: line }
        - { type: http, name: i, url: http://a, answer: exit }
        - { type: builtin, policy: prompt_guard, deny: [a], name: j, answer: line }
        - { name: k, command: ./k.py, answer: lines }
        - { name: l, command: ./l.py, answer: line, prewarm: 1 }
";
    assert_snapshot!(parse_more(hooks).unwrap_err(), @r"
    hookgate.yaml:5:11: hook `a` on BeforeModel: `url` is missing
    hookgate.yaml:5:34: hook `a` on BeforeModel: `command` is for hooks of another type
    hookgate.yaml:5:51: hook `a` on BeforeModel: `env` is for hooks of another type
    hookgate.yaml:6:30: a hook on BeforeModel: `url` must be an http or https URL without user or fragment
    hookgate.yaml:6:61: a hook on BeforeModel: `bearer` must be `{ env: NAME }` or `{ file: PATH }`; a secret never stands in the config itself
    hookgate.yaml:7:11: hook `c` on BeforeModel: `command` is missing
    hookgate.yaml:7:36: hook `c` on BeforeModel: `url` is for hooks of another type
    hookgate.yaml:7:62: hook `c` on BeforeModel: `instances` must be a number from 1 to 1000000, not `0`
    hookgate.yaml:8:39: hook `d` on BeforeModel: `url` is for hooks of another type
    hookgate.yaml:8:54: hook `d` on BeforeModel: `bearer` is for hooks of another type
    hookgate.yaml:8:62: environment variable `K` is not set
    hookgate.yaml:8:74: hook `d` on BeforeModel: `instances` is for hooks of another type
    hookgate.yaml:9:53: hook `e` on BeforeModel: unknown key `instance`; did you mean `instances`?
    hookgate.yaml:10:53: hook `f` on BeforeModel: `prewarm` is for hooks of another type
    hookgate.yaml:11:48: hook `g` on BeforeModel: `prewarm` must be a number from 1 to 1000000, not `0`
    hookgate.yaml:12:53: hook `h` on BeforeModel: `answer` is for hooks of another type
    hookgate.yaml:13:49: hook `i` on BeforeModel: `answer` is for hooks of another type
    hookgate.yaml:14:70: hook `j` on BeforeModel: `answer` is for hooks of another type
    hookgate.yaml:15:47: hook `k` on BeforeModel: `answer` must be `exit` or `line`, not `lines`
    ");
}

#[test]
fn a_bearer_is_fetched_and_never_shown() {
    let hook = |bearer| {
        let hook = format!("{{ type: http, url: 'http://a/hook?q', bearer: {bearer} }}");
        format!("{MINIMAL}hooks: {{ BeforeModel: [{{ hooks: [{hook}] }}] }}\n")
    };
    let (directory, path) = directory(&[
        ("token", "s3cr3t-from-file\n"),
        ("hookgate.yaml", &hook("{ file: token }")),
        ("missing.yaml", &hook("{ file: none }")),
    ]);

    let config = load(&path).unwrap();
    let missing = load(&path.with_file_name("missing.yaml")).unwrap_err();

    let spec = &config.hooks[&EventName::BeforeModel][0].hooks[0];
    assert_eq!(spec.settings.0["bearer"], "s3cr3t-from-file");
    assert!(!format!("{config:?}").contains("s3cr3t"));
    assert!(config.files.contains(&directory.path().join("token")));
    assert_snapshot!(without(&directory, &missing), @"missing.yaml:2:80: file `none` cannot be read: No such file or directory (os error 2)");
}

#[test]
fn a_url_stands_for_the_command_and_is_not_shown() {
    let hooks = "\
hooks:
  BeforeModel: [{ hooks: [{ type: http, url: http://a/hook }, { type: http, name: b, url: http://b }] }]
  AfterModel: [{ hooks: [{ type: http, url: http://c/hook }] }]
hooksConfig: { disabled: ['http://c/hook', 'http://b'] }
";
    let config = parse_more(hooks).unwrap();

    assert_eq!(running(&config), ["BeforeModel: http", "BeforeModel: b"]);
    let hooks = &config.hooks[&EventName::BeforeModel][0].hooks;
    assert_eq!(hooks[0].identity(), ("", "http://a/hook"));
    assert_eq!(hooks[1].identity(), ("b", "http://b"));
    assert_snapshot!(warnings(&config), @"hookgate.yaml:5:44: no hook is named `http://b`, so none is disabled");
}

#[test]
fn what_is_no_yaml_is_one_problem_with_its_place() {
    let cases = [
        ("a: b: c\n", "hookgate.yaml:1:5: neither YAML nor JSON: "),
        (
            "a: [1,\nb: 2\n",
            "hookgate.yaml:1:4: neither YAML nor JSON: unclosed bracket",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "hookgate.yaml:3:1: neither YAML nor JSON: a second document",
        ),
        (&"[".repeat(100_000), "hookgate.yaml:1:"),
    ];
    for (text, expected) in cases {
        let error = parse(text).unwrap_err();
        assert_eq!(error.problems.len(), 1, "{error}");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn a_document_that_is_no_mapping_is_refused() {
    assert_snapshot!(refusal("text"), @"hookgate.yaml:1:1: the document must be a mapping, not text");
    assert_snapshot!(refusal("# nothing\n"), @"hookgate.yaml:2:1: `upstreams` is missing");
}

#[test]
fn a_key_written_twice_is_a_problem() {
    let text = "\
upstreams: { gemini: { url: http://a, url: http://b } }
denials: error
denials: message
";
    assert_snapshot!(refusal(text), @r"
    hookgate.yaml:1:39: duplicate key `url`, first on line 1
    hookgate.yaml:3:1: duplicate key `denials`, first on line 2
    ");
}

#[test]
fn what_is_not_written_has_its_default() {
    let config = parse(MINIMAL).unwrap();

    assert_eq!(config.listen.to_string(), "127.0.0.1:8787");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8788");
    assert_eq!(config.limits.body, 32 << 20);
    assert_eq!(config.timeouts.stream_idle, Duration::from_mins(2));
    assert_eq!(config.hook_directory, std::env::current_dir().unwrap());
    assert!(config.warnings.is_empty(), "{}", warnings(&config));
    assert!(config.hooks.is_empty());
}

#[test]
fn the_annotated_config_holds_the_defaults() {
    let annotated = load(Path::new("config/hookgate.yaml")).unwrap();
    let gemini = annotated.upstreams.gemini.as_ref();
    let upstream = gemini.map(|it| it.url.clone());
    let overrides = Overrides {
        upstream,
        ..Overrides::default()
    };

    let defaults = Config::without_file(&overrides, &registry()).unwrap();

    let own_parts = |it: Config| Config {
        hook_directory: PathBuf::new(),
        version: String::new(),
        document: std::sync::Arc::default(),
        files: Vec::new(),
        ..it
    };
    let [annotated, defaults] = [annotated, defaults].map(|it| format!("{:?}", own_parts(it)));
    assert_eq!(annotated, defaults);
}

#[test]
fn every_shipped_config_loads_without_warnings() {
    let mut seen = Vec::new();
    for directory in ["config", "config/examples", "config/examples/policies"] {
        let paths = fs::read_dir(directory)
            .unwrap()
            .map(|it| it.unwrap().path());
        for path in paths.filter(|it| it.extension().is_some_and(|it| it == "yaml")) {
            let overrides = Overrides {
                missing_secrets: MissingSecrets::Placeholder,
                ..Overrides::default()
            };
            let config = Config::load(&path, &overrides, &registry()).unwrap();
            assert!(config.warnings.is_empty(), "{}", warnings(&config));
            seen.push(path);
        }
    }
    assert!(seen.len() >= 5, "{seen:?}");
}

/// Runs the hook of that name in `config/examples` as a command hook is run:
/// what it prints, and its exit code.
fn run_example(file: &str, event: EventName, name: &str, input: &Value) -> (Value, i32) {
    let config = load(&Path::new("config/examples").join(file)).unwrap();
    let mut hooks = config.hooks[&event].iter().flat_map(|it| &it.hooks);
    let hook = hooks.find(|it| it.label() == name).unwrap();
    let env = hook.settings.0.get("env").and_then(Value::as_object);
    let env = env.into_iter().flatten();
    let mut child = Command::new("bash")
        .args(["-c", hook.settings.0["command"].as_str().unwrap()])
        .envs(env.map(|(name, text)| (name, text.as_str().unwrap())))
        .current_dir(&config.hook_directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A hook need not read its input to the end.
    stdin.write_all(input.to_string().as_bytes()).ok();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let printed = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (printed, output.status.code().unwrap())
}

#[test]
fn the_model_guard_allows_swaps_and_denies() {
    let guard = |model: &str| {
        let input = json!({ "llm_request": { "model": model, "messages": [] } });
        run_example("model_guard.yaml", EventName::BeforeModel, "models", &input)
    };

    assert_eq!(guard("gemini-2.5-pro"), (json!({}), 0));
    let (swapped, _) = guard("gemini-2.0-flash");
    let request = &swapped["hookSpecificOutput"]["llm_request"];
    assert_eq!(*request, json!({ "model": "gemini-2.5-flash" }));
    assert_eq!(guard("other").0["decision"], "deny");
}

#[test]
fn the_tool_whitelist_names_its_tools_and_refuses_others() {
    let file = "tool_whitelist.yaml";
    let (selected, _) = run_example(
        file,
        EventName::BeforeToolSelection,
        "read-only",
        &json!({}),
    );
    let (_, code) = run_example(file, EventName::BeforeTool, "refuse-others", &json!({}));

    let selection = &selected["hookSpecificOutput"]["toolConfig"];
    assert_eq!(selection["mode"], "AUTO");
    assert_eq!(selection["allowedFunctionNames"][3], "glob");
    assert_eq!(code, 2);
    let matcher = &load(&Path::new("config/examples").join(file))
        .unwrap()
        .hooks[&EventName::BeforeTool][0]
        .matcher;
    for (tool, refused) in [("write_file", true), ("glob", false), ("read_file", false)] {
        let subject = crate::event::MatcherSubject::Tool(tool);
        assert_eq!(matcher.matches(subject), refused, "{tool}");
    }
}

#[test]
fn the_short_reads_keep_every_other_argument() {
    let (file, event) = ("two_families.yaml", EventName::BeforeTool);
    let read = |input: &Value| run_example(file, event, "short-reads", input);

    let (long, _) = read(&json!({ "tool_input": { "path": "a", "offset": 1 } }));
    let short = read(&json!({ "tool_input": { "path": "a", "limit": 10 } }));

    let arguments = &long["hookSpecificOutput"]["tool_input"];
    assert_eq!(
        *arguments,
        json!({ "path": "a", "offset": 1, "limit": 2000 })
    );
    assert_eq!(short, (Value::Null, 0));
    let hooks = &load(&Path::new("config/examples").join(file))
        .unwrap()
        .hooks;
    assert_eq!(hooks[&event][0].hooks[0].protocol, "llxprt");
    assert_eq!(
        hooks[&EventName::BeforeModel][0].hooks[0].protocol,
        "gemini"
    );
}

#[test]
fn the_redaction_masks_secrets_and_nothing_else() {
    let redact = |text: &str| {
        let content = json!({ "role": "model", "parts": [text] });
        let input = json!({ "llm_response": { "candidates": [{ "content": content }] } });
        run_example(
            "redact_answers.yaml",
            EventName::AfterModel,
            "redact",
            &input,
        )
        .0
    };

    assert_eq!(redact("nothing secret"), Value::Null);
    let answer = &redact("ask a.b@example.org")["hookSpecificOutput"]["llm_response"];
    let parts = &answer["candidates"][0]["content"]["parts"];
    assert_eq!(*parts, json!(["ask [REDACTED:email]"]));
}

#[test]
fn the_key_guard_refuses_private_keys() {
    let guard = |text: &str| {
        let input = json!({ "document": { "text": text } });
        run_example(
            "fail_closed.yaml",
            EventName::BeforeModel,
            "no-private-keys",
            &input,
        )
        .1
    };

    assert_eq!(guard("hello"), 0);
    assert_eq!(guard("-----BEGIN RSA PRIVATE KEY-----\nabc"), 2);
}

/// Every mapping of a config that allows no other keys, with one key to put
/// another beside.
const MAPPINGS: &[&str] = &[
    "KEY: 1",
    "admin: { KEY: 1 }",
    "hooks: { KEY: [] }",
    "hooks: { AfterTool: [{ hooks: [], KEY: 1 }] }",
    "hooks: { AfterTool: [{ hooks: [{ command: a, KEY: 1 }] }] }",
    "hooks: { AfterTool: [{ hooks: [{ type: http, url: 'http://a', KEY: 1 }] }] }",
    "hooks: { AfterTool: [{ hooks: [{ type: worker, command: a, KEY: 1 }] }] }",
    "hook_files: [{ path: config/schema.json, KEY: 1 }]",
    "hooksConfig: { KEY: 1 }",
    "hook_defaults: { KEY: 1 }",
    "events: { KEY: 1 }",
    "sessions: { KEY: 1 }",
    "limits: { KEY: 1 }",
    "timeouts: { KEY: 1 }",
    "log: { KEY: 1 }",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_unknown_key_is_refused_wherever_it_stands(
        key in "[a-zA-Z_][a-zA-Z0-9_.]{0,12}",
        mapping in proptest::sample::select(MAPPINGS),
    ) {
        let schema = Config::schema(&registry()).to_string();
        prop_assume!(!schema.contains(&format!("\"{key}\":")));

        let error = parse_more(&mapping.replace("KEY", &format!("\"{key}\""))).unwrap_err();

        let message = error.to_string();
        prop_assert!(message.contains(": unknown ") || message.contains(" unknown "), "{message}");
        prop_assert_eq!(error.problems.len(), 1, "{}", message);
    }

    #[test]
    fn no_text_is_too_strange_to_be_answered(text in "[\\[\\]{}:,&*!|>'\"%@`#\\-? \na-c0-2\t]{0,60}") {
        let shown = parse(&text).map_or_else(|it| it.to_string(), |it| warnings(&it));
        prop_assert!(shown.lines().all(|it| it.starts_with("hookgate.yaml:")), "{shown}");
    }
}

#[test]
fn secrets_are_fetched_and_never_shown() {
    let (directory, path) = directory(&[
        ("key", "s3cr3t-from-file\n"),
        (
            "hookgate.yaml",
            "upstreams: { gemini: { url: http://a, api_key: { file: key } } }\n\
             admin: { token: { env: CARGO_MANIFEST_DIR } }\n",
        ),
    ]);

    let config = load(&path).unwrap();

    let credential = config
        .upstreams
        .gemini
        .as_ref()
        .unwrap()
        .credential
        .as_ref();
    let Some(UpstreamCredential::ApiKey(api_key)) = credential else {
        panic!("{credential:?}");
    };
    assert_eq!(api_key.expose_secret(), "s3cr3t-from-file");
    let token = config.admin.token.as_ref().unwrap().expose_secret();
    assert_eq!(token, env!("CARGO_MANIFEST_DIR"));
    let shown = format!("{config:?}").replace(&format!("{:?}", config.hook_directory), "");
    assert!(
        !shown.contains("s3cr3t") && !shown.contains(token),
        "{shown}"
    );
    assert!(config.files.contains(&directory.path().join("key")));
}

#[test]
fn a_secret_that_cannot_be_had_is_a_problem_without_the_secret() {
    let (directory, path) = directory(&[
        ("blank", "two words"),
        (
            "hookgate.yaml",
            "upstreams: { gemini: { url: http://a, api_key: { file: blank } } }\n\
             admin: { token: { env: HOOKGATE_TEST_UNSET } }\n",
        ),
        (
            "written.yaml",
            "upstreams: { gemini: { url: http://u:pw@a, api_key: { file: none } } }\n\
             admin: { token: s3cr3t }\n",
        ),
    ]);

    let fetched = load(&path).unwrap_err();
    let written = load(&path.with_file_name("written.yaml")).unwrap_err();

    assert_snapshot!(without(&directory, &fetched), @r"
    hookgate.yaml:1:48: file `blank` contains spaces or special characters
    hookgate.yaml:2:17: environment variable `HOOKGATE_TEST_UNSET` is not set
    ");
    assert_snapshot!(without(&directory, &written), @r"
    written.yaml:1:29: `upstreams.gemini.url` must be an http or https URL without user, query or fragment
    written.yaml:1:53: file `none` cannot be read: No such file or directory (os error 2)
    written.yaml:2:17: `admin.token` must be `{ env: NAME }` or `{ file: PATH }`; a secret never stands in the config itself
    ");
}

#[test]
fn the_command_line_outranks_the_file() {
    let settings = r#"{ "hooks": { "AfterTool": [{ "hooks": [{ "command": "late" }] }] } }"#;
    let (directory, path) = directory(&[
        ("settings.json", settings),
        (
            "hookgate.yaml",
            "listen: 127.0.0.1:1\nadmin: { listen: 127.0.0.1:2 }\n",
        ),
    ]);
    let overrides = Overrides {
        listen: Some(([127, 0, 0, 1], 3).into()),
        upstream: Some("http://127.0.0.1:4".parse().unwrap()),
        hooks: vec![directory.path().join("settings.json")],
        ..Overrides::default()
    };

    let config = Config::load(&path, &overrides, &registry()).unwrap();

    assert_eq!(config.listen.port(), 3);
    let gemini = config.upstreams.gemini.as_ref().unwrap();
    assert_eq!(gemini.url.port(), Some(4));
    assert_eq!(running(&config), ["AfterTool: late"]);
}

#[test]
fn an_upstream_is_needed_and_has_one_credential() {
    let (directory, path) = directory(&[("key", "k"), ("hookgate.yaml", "upstreams: {}\n")]);
    let none = load(&path).unwrap_err();
    let both = "upstreams:
  vertex: { url: http://a, api_key: { file: key }, bearer: { file: key } }
  code_asist: { url: http://a }
";
    fs::write(&path, both).unwrap();
    let both = load(&path).unwrap_err();
    fs::write(
        &path,
        "upstreams: { code_assist: { url: http://a, bearer: { file: key } } }",
    )
    .unwrap();
    let config = load(&path).unwrap();

    assert_snapshot!(without(&directory, &none), @r"hookgate.yaml:1:12: `upstreams` must contain `gemini`, `vertex`, `code_assist`, `anthropic` or `openai`");
    assert_snapshot!(without(&directory, &both), @r"
    hookgate.yaml:2:60: an upstream has `api_key` or `bearer`, not both
    hookgate.yaml:3:3: unknown key `upstreams.code_asist`; did you mean `code_assist`?
    ");
    let code_assist = config.upstreams.code_assist.unwrap();
    assert!(matches!(
        code_assist.credential,
        Some(UpstreamCredential::Bearer(_))
    ));
    assert!(config.upstreams.gemini.is_none());
}

#[test]
fn without_a_file_an_upstream_is_needed() {
    let nothing = Config::without_file(&Overrides::default(), &registry()).unwrap_err();
    let overrides = Overrides {
        upstream: Some("ftp://a".parse().unwrap()),
        hooks: vec!["missing.json".into()],
        ..Overrides::default()
    };
    let wrong = Config::without_file(&overrides, &registry()).unwrap_err();
    let upstream = Some("http://a".parse().unwrap());
    let overrides = Overrides {
        upstream,
        ..overrides
    };
    let missing = Config::without_file(&overrides, &registry()).unwrap_err();

    assert_snapshot!(nothing, @r"without a config file, `--upstream` is required");
    assert_snapshot!(wrong, @"`--upstream` must be an http or https URL without user, query or fragment");
    assert_snapshot!(missing, @"`missing.json` cannot be read: No such file or directory (os error 2)");
}

#[test]
fn listeners_that_collide_are_refused_and_open_ones_ask_who_calls() {
    let same = "listen: 0.0.0.0:80\nadmin: { listen: 127.0.0.1:80 }\nauth: { anonymous: true }\n";
    let open = "listen: 0.0.0.0:80\nadmin: { listen: '[::]:81' }\n";
    let meant = "listen: 0.0.0.0:80\nauth: { anonymous: true }\n";
    let free = "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\n";
    let admin_listen = Some(([0, 0, 0, 0], 3).into());
    let overrides = Overrides {
        upstream: Some("http://a".parse().unwrap()),
        admin_listen,
        ..Overrides::default()
    };
    let by_option = Config::without_file(&overrides, &registry()).unwrap_err();

    assert_snapshot!(parse_more(same).unwrap_err(), @r#"hookgate.yaml:3:18: agents and operators cannot share the address `0.0.0.0:80`"#);
    assert_snapshot!(parse_more(open).unwrap_err(), @r"
    hookgate.yaml:2:9: agents on other machines can connect without authentication: configure callers in `auth`, or allow this by `auth: { anonymous: true }`
    hookgate.yaml:3:18: operators on other machines can connect: `admin.token` or `admin.users` is missing
    ");
    assert_snapshot!(warnings(&parse_more(meant).unwrap()), @r"hookgate.yaml:2:9: agents on other machines can connect without authentication");
    assert_snapshot!(by_option, @r#":1:1: operators on other machines can connect: `admin.token` or `admin.users` is missing"#);
    assert_eq!(warnings(&parse_more(free).unwrap()), "");
}

#[test]
fn who_calls_is_said_in_one_way_only() {
    let zeros = "a".repeat(64);
    let refused = |auth: &str| {
        parse_more(&format!("auth: {auth}\n"))
            .unwrap_err()
            .to_string()
    };
    let doubles = format!(
        "{{ keys: [{{ name: a, sha256: {zeros} }}, {{ name: a, sha256: {zeros}, tokens_per_day: 0 }}] }}"
    );
    let same =
        format!("{{ keys: [{{ name: a, sha256: {zeros} }}, {{ name: a, sha256: {zeros} }}] }}");
    let wrong = format!(
        "{{ keys: [{{ name: 'jwt:a', sha256: {zeros} }}, {{ name: b, sha256: my-password, model: [x] }}, {{ name: c, sha256: {zeros}, models: ['a['] }}] }}"
    );
    let jwt = |jwks: &str| format!("{{ jwt: {{ issuer: i, audience: a, jwks: {jwks} }} }}");

    assert_snapshot!(refused("{}"), @r"hookgate.yaml:2:7: `auth` has no method: it needs `keys`, `jwt`, `mtls` or `anonymous: true`");
    assert_snapshot!(refused(&doubles), @r#"hookgate.yaml:2:204: `auth.keys[1].tokens_per_day` must be a number of tokens from 1, not `0`"#);
    assert_snapshot!(refused(&same), @r#"
    hookgate.yaml:2:111: two callers are named `a`
    hookgate.yaml:2:122: two callers have this key
    "#);
    assert_snapshot!(refused(&wrong), @r#"
    hookgate.yaml:2:24: `auth.keys[0].name` must be 1 to 64 of `A-Z a-z 0-9 . _ -`, and begin with none of the last three, not `jwt:a`
    hookgate.yaml:2:128: `auth.keys[1].sha256` must be a SHA-256 in hex, 64 digits: never the key itself
    hookgate.yaml:2:141: unknown key `auth.keys[1].model`; did you mean `models`?
    hookgate.yaml:2:174: two callers have this key
    hookgate.yaml:2:249: `auth.keys[2].models[0]` is not a valid glob: unclosed character class; missing ']'
    "#);
    let both = format!(
        "{{ anonymous: true, keys: [{{ name: a, sha256: {zeros} }}], limits: {{ in_flight: 1 }} }}"
    );
    assert_snapshot!(refused(&both), @r"
    hookgate.yaml:2:20: `auth` cannot both require authentication and allow anonymous callers
    hookgate.yaml:2:129: `auth.limits` needs authenticated callers
    ");
    assert_snapshot!(refused(&jwt("http://issuer.example/keys")), @r#"hookgate.yaml:2:46: `auth.jwt.jwks` must be an https URL without user or fragment, or `{ file: PATH }`, not `http://issuer.example/keys`"#);
    assert_snapshot!(refused(&jwt("{ file: missing }")), @r#"hookgate.yaml:2:54: file `missing` cannot be read: No such file or directory (os error 2)"#);
    assert_snapshot!(refused("{ jwt: { issuer: i, jwks: https://a, aud: b } }"), @r#"
    hookgate.yaml:2:9: `auth.jwt.audience` is missing
    hookgate.yaml:2:44: unknown key `auth.jwt.aud`; did you mean `audience`?
    "#);
    assert_snapshot!(refused("{ mtls: { name: dns, allow: [] } }"), @r#"
    hookgate.yaml:2:23: `auth.mtls.name` must be `common_name` or `alternative_name`, not `dns`
    hookgate.yaml:2:35: `auth.mtls.allow` must be a list, but it is empty
    "#);
    assert_snapshot!(refused("{ mtls: {} }"), @r"hookgate.yaml:2:15: client certificates are not requested: `auth.mtls` needs `tls.client_ca`");
    assert_snapshot!(parse_more("browsers: { hosts: ['a:80'], origins: [https://a/, a] }").unwrap_err(), @r"
    hookgate.yaml:2:21: `browsers.hosts[0]` must be a host name without a port, not `a:80`
    hookgate.yaml:2:40: `browsers.origins[0]` must be an origin such as `https://console.example`: scheme, host and port, not `https://a/`
    hookgate.yaml:2:52: `browsers.origins[1]` must be an origin such as `https://console.example`: scheme, host and port, not `a`
    ");
}

#[test]
fn a_caller_whose_requests_have_no_key_for_the_model_api_is_named() {
    let keys = format!("keys: [{{ name: a, sha256: {} }}]", "a".repeat(64));
    let config = parse_more(&format!("auth: {{ {keys} }}\n")).unwrap();

    assert_snapshot!(warnings(&config), @r"hookgate.yaml:2:16: `upstreams.gemini` has no key, and the caller's credential is for hookgate: the caller must also send its own key for the model API, and hookgate's as `x-hookgate-key`");
    let auth = &config.auth;
    assert_eq!(auth.keys[0].grant.in_flight, 5000, "half of all");
    assert!(auth.is_required() && !auth.anonymous);
}

#[test]
fn what_a_caller_may_use_becomes_policies() {
    let text = format!(
        "auth: {{ keys: [{{ name: a, sha256: {}, models: [m], tools: [] }}], jwt: {{ issuer: i, audience: a, jwks: https://a, models: [n] }} }}\n",
        "a".repeat(64)
    );
    let config = parse_more(&text).unwrap();
    let policies = config.caller_policies.iter().map(|it| {
        let when = it.when.as_ref().unwrap();
        format!(
            "{} {} {} {:?}",
            it.label(),
            it.policy,
            when.text,
            it.settings.0
        )
    });
    let policies: Vec<String> = policies.collect();

    assert_snapshot!(policies.join("\n"), @r#"
    a models model_allow caller.name == "a" {"models": Array [String("m")]}
    a tools tool_guard caller.name == "a" {"allow": Array []}
    jwt models model_allow caller.name.startsWith("jwt:") {"models": Array [String("n")]}
    "#);
}

#[test]
fn guards_that_fail_open_are_those_that_could_refuse() {
    let hooks = "\
hook_defaults: { on_failure: open }
hooks:
  BeforeModel: [{ hooks: [{ command: a }, { command: b, on_failure: closed }] }]
  AfterModel: [{ hooks: [{ command: c, mode: observe }, { command: d }] }]
  SessionEnd: [{ hooks: [{ command: e }] }]
  BeforeToolSelection: [{ hooks: [{ command: f, on_failure: closed }] }]
";
    let config = parse_more(hooks).unwrap();

    let guards = config.guards_that_fail_open();
    let guards: Vec<_> = guards
        .map(|(event, hook)| format!("{event} {}", hook.label()))
        .collect();
    assert_eq!(guards, ["BeforeModel a", "AfterModel d"]);
    assert_snapshot!(warnings(&config), @r"hookgate.yaml:7:61: hooks cannot deny BeforeToolSelection, so `closed` has no effect");
}

#[test]
fn the_schema_file_is_up_to_date() {
    let schema = format!("{:#}\n", Config::schema(&registry()));
    if std::env::var_os("UPDATE").is_some() {
        fs::write("config/schema.json", &schema).unwrap();
    }

    let file = fs::read_to_string("config/schema.json").unwrap();
    assert!(file == schema, "run `UPDATE=1 cargo test --lib config::`");
}

/// Who has these settings, which are all alike.
const GRANTED: [&str; 3] = ["auth.keys[].", "auth.jwt.", "auth.mtls."];
const GRANT: [&str; 11] = [
    "models",
    "tools",
    "upstream_key",
    "upstream_keys",
    "upstream_keys.gemini",
    "upstream_keys.vertex",
    "upstream_keys.anthropic",
    "upstream_keys.openai",
    "requests_per_minute",
    "tokens_per_day",
    "in_flight",
];

/// The names of all settings, each with the mappings around it: `limits.body`.
/// Those of a hook and its group have no prefix.
fn settings(schema: &Value, node: &Value, prefix: &str, names: &mut Vec<String>) {
    let node = match node["$ref"].as_str() {
        Some(pointer) => schema.pointer(pointer.trim_start_matches('#')).unwrap(),
        None => node,
    };
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        let is_event = EventName::parse(name).is_some();
        let is_grant = GRANT.contains(&name.as_str()) && GRANTED.contains(&prefix);
        // Policies and hooks have the same, and the lists are all alike.
        let is_proof = name.starts_with("must_");
        let name = if is_event || is_proof {
            name.clone()
        } else if is_grant {
            format!("auth.*.{name}")
        } else {
            format!("{prefix}{name}")
        };
        let inner = if prefix == "upstreams." {
            // They are all alike.
            "upstreams.*.".to_owned()
        } else if name == "admin.tls" {
            // As the agents' own.
            "tls.".to_owned()
        } else {
            format!("{name}.")
        };
        settings(schema, child, &inner, names);
        if !child["items"].is_null() {
            let prefix = if is_event || name == "hooks" {
                String::new()
            } else if is_proof {
                "must_*[].".to_owned()
            } else {
                format!("{name}[].")
            };
            settings(schema, &child["items"], &prefix, names);
        }
        names.push(name);
    }
}

#[test]
fn every_setting_has_its_line_in_the_documentation() {
    let page = fs::read_to_string("docs/config.md").unwrap();
    let schema = Config::schema(&registry());
    let mut names = Vec::new();
    settings(&schema, &schema, "", &mut names);

    let is_missing = |it: &String| !page.contains(&format!("`{it}`"));
    let missing: Vec<String> = names.into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "not in docs/config.md: {missing:?}");
}

#[test]
fn numbers_may_be_written_in_any_way_that_yaml_has() {
    let text =
        "limits: { body: 1e3, event: 0x10, in_flight: 1_000 }\nhook_defaults: { timeout: 2e3 }\n";
    let config = parse_more(text).unwrap();

    assert_eq!(config.limits.body, 1000);
    assert_eq!(config.limits.event, 16);
    assert_eq!(config.limits.in_flight, 1000);
}

#[test]
fn events_and_sessions_are_read() {
    let (directory, path) = directory(&[
        ("url", "rediss://hookgate:s3cr3t@localhost:6380/2\n"),
        (
            "hookgate.yaml",
            "upstreams: { gemini: { url: http://a } }\n\
             events: { derive: [AfterTool, BeforeTool], max_denied_rounds: 1 }\n\
             sessions: { idle: 2h, max: 10, store: { redis: { url: { file: url } } }, transcripts: . }\n",
        ),
    ]);

    let config = load(&path).unwrap();

    let sessions = &config.sessions;
    assert!(config.events.derives(EventName::AfterTool));
    assert!(!config.events.derives(EventName::BeforeAgent));
    assert_eq!(config.events.max_denied_rounds, 1);
    assert_eq!(config.events.max_same_denials, 3);
    assert_eq!((sessions.idle, sessions.max), (Duration::from_hours(2), 10));
    assert_eq!(sessions.transcripts.as_deref(), Some(directory.path()));
    let StoreSettings::Redis { url } = &sessions.store else {
        panic!("{:?}", sessions.store);
    };
    assert!(url.expose_secret().starts_with("rediss://hookgate"));
    assert!(!format!("{config:?}").contains("s3cr3t"));
    assert!(config.files.contains(&directory.path().join("url")));
    assert_eq!(*sessions, load(&path).unwrap().sessions);
    fs::write(directory.path().join("url"), "redis://localhost").unwrap();
    assert_ne!(*sessions, load(&path).unwrap().sessions);
}

#[test]
fn all_events_that_can_be_derived_are_unless_the_config_says_otherwise() {
    let config = parse(MINIMAL).unwrap();
    let none = parse_more("events: { derive: [] }\n").unwrap();

    let derived = |config: &Config| {
        let all = EventName::ALL
            .iter()
            .filter(|it| config.events.derives(**it));
        all.map(|it| it.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        derived(&config),
        "SessionStart BeforeAgent BeforeTool AfterTool AfterAgent SessionEnd"
    );
    assert_eq!(derived(&none), "");
    assert_eq!(config.sessions.store, StoreSettings::Memory);
}

#[test]
fn mistakes_about_events_and_sessions_are_put_in_words() {
    let text = "\
events:
  derive: [BeforeTol, Notification, BeforeModel, 3, tool]
  max_denied_rounds: 0
  max_answer_retries: 101
  max_same_denial: 1
sessions: { idle: forever, max: 0, store: disk, transcripts: missing }
";
    let stores = [
        "{ redis: { url: 's3cr3t' } }",
        "{ redis: { ulr: { env: HOME } } }",
        "{ reddis: { url: { env: HOME } } }",
        "{ redis: { url: { env: HOME } } }",
        "{}",
        "redis",
    ];
    let stores = stores.map(|it| refusal(&format!("{MINIMAL}sessions: {{ store: {it} }}\n")));
    let file = parse_more("sessions: { transcripts: Cargo.toml }\n").unwrap_err();

    assert_snapshot!(parse_more(text).unwrap_err(), @r"
    hookgate.yaml:3:12: `events.derive[0]` must be the name of an event, not `BeforeTol`; did you mean `BeforeTool`?
    hookgate.yaml:3:23: `events.derive[1]` cannot be `Notification`: it does not show in model calls, only agents can report it
    hookgate.yaml:3:37: `events.derive[2]` cannot be `BeforeModel`: each model call is one, so there is nothing to derive
    hookgate.yaml:3:50: `events.derive[3]` must be the name of an event, not a number
    hookgate.yaml:3:53: `events.derive[4]` must be the name of an event, not `tool`
    hookgate.yaml:4:22: `events.max_denied_rounds` must be a number from 1 to 100, not `0`
    hookgate.yaml:5:23: `events.max_answer_retries` must be a number from 1 to 100, not `101`
    hookgate.yaml:6:3: unknown key `events.max_same_denial`; did you mean `max_same_denials`?
    hookgate.yaml:7:19: `sessions.idle` must be a duration such as `30s` or `500ms`, not `forever`
    hookgate.yaml:7:33: `sessions.max` must be a number from 1 to 1000000, not `0`
    hookgate.yaml:7:43: `sessions.store` must be `memory` or `{ redis: { url: … } }`
    hookgate.yaml:7:62: `sessions.transcripts` is not a directory: `missing`
    ");
    assert_snapshot!(stores.join("\n"), @r"
    hookgate.yaml:2:36: `sessions.store.redis.url` must be `{ env: NAME }` or `{ file: PATH }`; a secret never stands in the config itself
    hookgate.yaml:2:22: `sessions.store.redis.url` is missing
    hookgate.yaml:2:31: unknown key `sessions.store.redis.ulr`
    hookgate.yaml:2:13: `sessions.store.redis` is missing
    hookgate.yaml:2:22: unknown key `sessions.store.reddis`; did you mean `redis`?
    hookgate.yaml:2:36: the secret is not a URL such as `redis://HOST:PORT` or `rediss://HOST:PORT`
    hookgate.yaml:2:13: `sessions.store.redis` is missing
    hookgate.yaml:2:20: `sessions.store` must be `memory` or `{ redis: { url: … } }`
    ");
    assert_snapshot!(file, @r"hookgate.yaml:2:26: `sessions.transcripts` is not a directory: `Cargo.toml`");
}

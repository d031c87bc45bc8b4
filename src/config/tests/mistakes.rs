//! Messages about mistakes, with their places.

use super::*;

#[test]
fn a_rollout_to_a_file_elsewhere_is_refused_at_its_position() {
    let text = "\
upstreams: { gemini: { url: https://example.org } }
revisions: { path: revisions }
rollout: { to: ../x.yaml, percent: 5 }
";
    assert_snapshot!(refusal(text), @"hookgate.yaml:3:16: `rollout.to` must be a version, or the name of a file in the directory of the config file, not `../x.yaml`");
}

#[test]
fn every_kind_of_error_has_a_message() {
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
    hookgate.yaml:2:17: `admin.token` must be `{ env: NAME }` or `{ file: PATH }`; the config cannot contain the secret itself
    hookgate.yaml:3:17: `limits.body` must be a size such as `32MiB`, or a number of bytes, not `lots`
    hookgate.yaml:3:34: `limits.in_flight` must be a whole number from 1 to 1000000, not `0`
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
fn revisions_need_a_folder_with_a_parent_and_space_for_two() {
    let text = "\
upstreams: { gemini: { url: http://a } }
revisions: { path: missing/revisions, keep: 1 }
";
    let found = refusal(text);
    assert!(
        found.contains("the parent of `revisions.path` is not a directory: `missing/revisions`"),
        "{found}"
    );
    assert!(found.contains("`revisions.keep`"), "{found}");
}

#[test]
fn a_share_is_from_0_to_1() {
    let text = "\
record: { path: ., what: { sample: 3 } }
shadow: { config: next.yaml, sample: -1 }
trace: { content: { sample: 1.5 } }
";
    let found = refusal(text);
    for (key, value) in [
        ("record.what.sample", "3"),
        ("shadow.sample", "-1"),
        ("trace.content.sample", "1.5"),
    ] {
        let problem = format!("`{key}` must be a share from 0 to 1, not `{value}`");
        assert!(found.contains(&problem), "{found}");
    }
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
    hookgate.yaml:6:61: a hook on BeforeModel: `bearer` must be `{ env: NAME }` or `{ file: PATH }`; the config cannot contain the secret itself
    hookgate.yaml:7:11: hook `c` on BeforeModel: `command` is missing
    hookgate.yaml:7:36: hook `c` on BeforeModel: `url` is for hooks of another type
    hookgate.yaml:7:62: hook `c` on BeforeModel: `instances` must be a whole number from 1 to 1000000, not `0`
    hookgate.yaml:8:39: hook `d` on BeforeModel: `url` is for hooks of another type
    hookgate.yaml:8:54: hook `d` on BeforeModel: `bearer` is for hooks of another type
    hookgate.yaml:8:62: environment variable `K` is not set
    hookgate.yaml:8:74: hook `d` on BeforeModel: `instances` is for hooks of another type
    hookgate.yaml:9:53: hook `e` on BeforeModel: unknown key `instance`; did you mean `instances`?
    hookgate.yaml:10:53: hook `f` on BeforeModel: `prewarm` is for hooks of another type
    hookgate.yaml:11:48: hook `g` on BeforeModel: `prewarm` must be a whole number from 1 to 1000000, not `0`
    hookgate.yaml:12:53: hook `h` on BeforeModel: `answer` is for hooks of another type
    hookgate.yaml:13:49: hook `i` on BeforeModel: `answer` is for hooks of another type
    hookgate.yaml:14:70: hook `j` on BeforeModel: `answer` is for hooks of another type
    hookgate.yaml:15:47: hook `k` on BeforeModel: `answer` must be `exit` or `line`, not `lines`
    ");
}

#[test]
fn malformed_yaml_is_one_error_with_its_position() {
    let cases = [
        ("a: b: c\n", "hookgate.yaml:1:5: neither YAML nor JSON: "),
        (
            "a: [1,\nb: 2\n",
            "hookgate.yaml:1:4: neither YAML nor JSON: unclosed bracket",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "hookgate.yaml:3:1: one document is expected; a second one begins here",
        ),
        (
            "a: [*]\n",
            "hookgate.yaml:1:5: neither YAML nor JSON: while scanning an anchor or alias, did not find expected alphabetic or numeric character; quote text that begins with `*`, `&`, `@`, `%` or a backtick",
        ),
        (
            "a: *b*\n",
            "hookgate.yaml:1:4: neither YAML nor JSON: reference to unknown value; quote text",
        ),
        (
            "a: @b\n",
            "hookgate.yaml:1:4: neither YAML nor JSON: unexpected character: `@'; quote text",
        ),
        (
            "a: `b`\n",
            "hookgate.yaml:1:4: neither YAML nor JSON: unexpected character: ``'; quote text that begins with `*`, `&`, `@`, `%` or a backtick",
        ),
        (
            "a: [\"\\d+\"]\n",
            "hookgate.yaml:1:5: neither YAML nor JSON: while parsing a quoted scalar, found unknown escape character; write `\\\\` for a backslash, or use single quotes in YAML",
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
fn a_duplicate_key_is_an_error() {
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

static SCHEMA: LazyLock<String> = LazyLock::new(|| Config::schema(&REGISTRY).to_string());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_unknown_key_is_refused_in_every_mapping(
        key in "[a-zA-Z_][a-zA-Z0-9_.]{0,12}",
        mapping in proptest::sample::select(MAPPINGS),
    ) {
        prop_assume!(!SCHEMA.contains(&format!("\"{key}\":")));

        let error = parse_more(&mapping.replace("KEY", &format!("\"{key}\""))).unwrap_err();

        let message = error.to_string();
        prop_assert!(message.contains(": unknown ") || message.contains(" unknown "), "{message}");
        prop_assert_eq!(error.problems.len(), 1, "{}", message);
    }

    #[test]
    fn every_message_about_a_random_text_has_a_position(text in "[\\[\\]{}:,&*!|>'\"%@`#\\-? \na-c0-2\t]{0,60}") {
        let shown = parse(&text).map_or_else(|error| error.to_string(), |config| warnings(&config));
        prop_assert!(shown.lines().all(|line| line.starts_with("hookgate.yaml:")), "{shown}");
    }
}

#[test]
fn errors_about_events_and_sessions_have_messages() {
    let text = "\
events:
  derive: [BeforeTol, Notification, BeforeModel, 3, tool]
  max_denied_rounds: 0
  max_answer_retries: 1.5
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
    let stores = stores.map(|store| refusal(&format!("{MINIMAL}sessions: {{ store: {store} }}\n")));
    let file = parse_more("sessions: { transcripts: Cargo.toml }\n").unwrap_err();

    assert_snapshot!(parse_more(text).unwrap_err(), @r"
    hookgate.yaml:3:12: `events.derive[0]` must be the name of an event, not `BeforeTol`; did you mean `BeforeTool`?
    hookgate.yaml:3:23: `events.derive[1]` cannot be `Notification`: it does not show in model calls, only agents can report it
    hookgate.yaml:3:37: `events.derive[2]` cannot be `BeforeModel`: each model call is one, so there is nothing to derive
    hookgate.yaml:3:50: `events.derive[3]` must be the name of an event, not a number
    hookgate.yaml:3:53: `events.derive[4]` must be the name of an event, not `tool`
    hookgate.yaml:4:22: `events.max_denied_rounds` must be a whole number from 1 to 100, not `0`
    hookgate.yaml:5:23: `events.max_answer_retries` must be a whole number from 1 to 100, not `1.5`
    hookgate.yaml:6:3: unknown key `events.max_same_denial`; did you mean `max_same_denials`?
    hookgate.yaml:7:19: `sessions.idle` must be a duration such as `30s` or `500ms`, not `forever`
    hookgate.yaml:7:33: `sessions.max` must be a whole number from 1 to 1000000, not `0`
    hookgate.yaml:7:43: `sessions.store` must be `memory` or `{ redis: { url: … } }`
    hookgate.yaml:7:62: `sessions.transcripts` is not a directory: `missing`
    ");
    assert_snapshot!(stores.join("\n"), @r"
    hookgate.yaml:2:36: `sessions.store.redis.url` must be `{ env: NAME }` or `{ file: PATH }`; the config cannot contain the secret itself
    hookgate.yaml:2:22: `sessions.store.redis.url` is missing
    hookgate.yaml:2:31: unknown key `sessions.store.redis.ulr`
    hookgate.yaml:2:13: `sessions.store.redis` is missing
    hookgate.yaml:2:22: unknown key `sessions.store.reddis`; did you mean `redis`?
    hookgate.yaml:2:36: the secret is not a URL such as `redis://HOST:PORT/NUMBER` or `rediss://HOST:PORT`
    hookgate.yaml:2:13: `sessions.store.redis` is missing
    hookgate.yaml:2:20: `sessions.store` must be `memory` or `{ redis: { url: … } }`
    ");
    assert_snapshot!(file, @r"hookgate.yaml:2:26: `sessions.transcripts` is not a directory: `Cargo.toml`");
}

#[test]
fn lists_with_repeated_or_too_many_items_are_reported_as_such() {
    let headers: Vec<String> = (0..33).map(|number| format!("x-{number}")).collect();
    let text = format!(
        "\
upstreams: {{ gemini: {{ url: http://a, forward_headers: [{}] }} }}
policies: [{{ policy: redact, detect: [email, aws_key, email], on: [request, request] }}]
denials: ['error']
limits: []
",
        headers.join(", ")
    );
    assert_snapshot!(refusal(&text), @r"
    hookgate.yaml:1:56: `upstreams.gemini.forward_headers` has more than 32 items
    hookgate.yaml:2:55: policy `redact`: `detect` lists `email` twice
    hookgate.yaml:2:77: policy `redact`: `on` lists `request` twice
    hookgate.yaml:3:10: `denials` must be `message` or `error`, not a list
    hookgate.yaml:4:9: `limits` must be a mapping, not a list
    ");
}

#[test]
fn limits_that_are_never_reached_are_warnings() {
    let key = "a".repeat(64);
    let text = format!(
        "\
limits: {{ memory: 20MiB, in_flight: 10 }}
proof: {{ timeout: 60s }}
auth: {{ keys: [{{ name: a, sha256: {key}, in_flight: 11 }}] }}
upstreams: {{ gemini: {{ url: https://a, api_key: {{ env: PATH }} }} }}
"
    );
    assert_snapshot!(warnings(&parse(&text).unwrap()), @r"
    hookgate.yaml:1:19: `limits.memory` is less than `limits.body`, so a call with a body of that size always fails
    hookgate.yaml:3:112: the limit is never reached: `limits.in_flight` is lower
    hookgate.yaml:2:19: the timeout is never reached: `proof.total_timeout` is shorter
    ");
}

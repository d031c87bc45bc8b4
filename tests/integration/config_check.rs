//! `check`: errors and warnings for a config file.

mod durations;
mod regular_files;
mod unintended;

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use insta::assert_snapshot;
use tempfile::TempDir;

use crate::harness::{hookgate, run};

/// The exit code, stdout and stderr of `check`.
fn check(config: &str) -> (i32, String, String) {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    run(&["check", "hookgate.yaml"], folder.path())
}

#[test]
fn several_errors_are_listed_with_positions_and_hints() {
    let (code, stdout, stderr) = check(
        "\
listen: localhost:8787
upstreams:
  gemini: { url: generativelanguage.googleapis.com, api_key: sk-123 }
denials: massage
denials: error
limits: { body: 32MB+, in_flight: 0 }
timeouts: { drian: 30s }
policies:
  - { policy: model_alow, models: [a] }
hooks:
  BeforeModle: []
  BeforeTool:
    - matcher: write_file
      hooks:
        - { name: guard, comand: ./guard.sh, on_failure: close }
",
    );

    assert_eq!((code, stdout.as_str()), (78, ""));
    assert_snapshot!(stderr, @r"
    hookgate.yaml:1:9: `listen` must be an IP address and a port such as `127.0.0.1:8787`, not `localhost:8787`
    hookgate.yaml:3:18: `upstreams.gemini.url` must be an http or https URL without user, query or fragment
    hookgate.yaml:3:62: `upstreams.gemini.api_key` must be `{ env: NAME }` or `{ file: PATH }`; the config cannot contain the secret itself
    hookgate.yaml:5:1: duplicate key `denials`, first on line 4
    hookgate.yaml:6:17: `limits.body` must be a size such as `32MiB`, or a number of bytes, not `32MB+`
    hookgate.yaml:6:35: `limits.in_flight` must be a whole number from 1 to 1000000, not `0`
    hookgate.yaml:7:13: unknown key `timeouts.drian`; did you mean `drain`?
    hookgate.yaml:9:15: policy `model_alow`: `policy` must be `model_allow` or `model_swap` or `tool_guard` or `prompt_guard` or `redact` or `request_limits` or `respond`, not `model_alow`
    hookgate.yaml:11:3: unknown event `BeforeModle`; did you mean `BeforeModel`?
    hookgate.yaml:15:11: hook `guard` on BeforeTool: `command` is missing
    hookgate.yaml:15:26: hook `guard` on BeforeTool: unknown key `comand`; did you mean `command`?
    hookgate.yaml:15:58: hook `guard` on BeforeTool: `on_failure` must be `open` or `closed`, not `close`
    ");
}

#[test]
fn ineffective_or_unproven_settings_are_warnings() {
    let (code, stdout, stderr) = check(
        "\
upstreams: { gemini: { url: https://example.org } }
hooks:
  BeforeModel:
    - matcher: gemini-2.5-pro
      hooks:
        - { name: a, command: cat, on_failure: closed }
        - { name: a, command: cut, on_failure: closed }
        - { name: a, command: cat, on_failure: closed }
        - { name: b, command: sleep, mode: observe, on_failure: closed }
  SessionStart:
    - matcher: start
      hooks: [{ name: c, command: head }]
  PreCompress:
    - matcher: auto
      hooks: [{ name: d, command: tail, on_failure: closed }]
",
    );

    assert_eq!(
        (code, stdout.as_str()),
        (0, "hookgate.yaml: valid, 6 hooks\n")
    );
    assert_snapshot!(stderr, @r"
    warning: hookgate.yaml:11:16: the matcher matches none of startup, resume, clear, compress, compact, fork, so its hooks never run
    warning: hookgate.yaml:4:16: BeforeModel has nothing to match, so the matcher is ignored and the hooks always run
    warning: hookgate.yaml:9:65: the hook only observes, so `closed` has no effect
    warning: hookgate.yaml:15:53: hooks cannot deny PreCompress, so `closed` has no effect
    warning: hookgate.yaml:7:11: another hook on BeforeModel is named `a`, at hookgate.yaml:6:11: logs do not distinguish them
    warning: hookgate.yaml:8:11: hook `a` on BeforeModel is already at hookgate.yaml:6:11, and runs once
    warning: hookgate.yaml:15:15: hooks on PreCompress run only for agents that report the event: it cannot be derived from model calls
    warning: hookgate.yaml:6:11: hook `a` on BeforeModel fails closed and has no `must_deny` or `must_mask`: nothing proves that it works (docs/proof.md)
    warning: hookgate.yaml:7:11: hook `a` on BeforeModel fails closed and has no `must_deny` or `must_mask`: nothing proves that it works (docs/proof.md)
    warning: hookgate.yaml:8:11: hook `a` on BeforeModel fails closed and has no `must_deny` or `must_mask`: nothing proves that it works (docs/proof.md)
    ");
}

#[test]
fn a_hook_that_another_one_with_other_settings_replaces_is_a_warning() {
    for other in ["env: { RULES: shell }", "context: true", "timeout: 5s"] {
        let (code, _, stderr) = check(&format!(
            "\
upstreams: {{ gemini: {{ url: https://example.org }} }}
hooks:
  BeforeTool:
    - hooks: [{{ command: cat }}]
    - {{ matcher: run_shell_command, hooks: [{{ command: cat, {other} }}] }}
"
        ));

        assert_eq!(code, 0, "{stderr}");
        let warning = "hook `cat` on BeforeTool is also at hookgate.yaml:4:15, with other settings: where both match, only one runs";
        assert!(stderr.contains(warning), "{other}: {stderr}");
    }
}

#[test]
fn policies_of_one_kind_all_run_and_are_only_warned_of_for_their_name() {
    let (code, _, stderr) = check(
        "\
upstreams: { gemini: { url: https://example.org } }
hooks:
  BeforeModel:
    - hooks:
        - { type: builtin, policy: prompt_guard, deny: [a] }
        - { type: builtin, policy: prompt_guard, deny: [b] }
        - { type: builtin, policy: prompt_guard, deny: [c], name: p }
        - { type: builtin, policy: prompt_guard, deny: [d], name: p }
",
    );

    assert_eq!(code, 0, "{stderr}");
    for wrong in ["runs once", "only one runs"] {
        assert!(!stderr.contains(wrong), "{stderr}");
    }
    let warning = "another hook on BeforeModel is named `p`, at hookgate.yaml:7:11: logs do not distinguish them";
    assert!(stderr.contains(warning), "{stderr}");
}

#[test]
fn a_public_address_without_authentication_is_an_error() {
    let (code, stdout, stderr) = check(
        "\
listen: 0.0.0.0:8787
admin: { listen: 0.0.0.0:8788 }
upstreams: { gemini: { url: https://example.org } }
",
    );

    assert_eq!((code, stdout.as_str()), (78, ""));
    assert_snapshot!(stderr, @r"
    hookgate.yaml:1:9: agents on other machines can connect without authentication: configure callers in `auth`, or allow this by `auth: { anonymous: true }`
    hookgate.yaml:2:18: operators on other machines can connect: `admin.token` or `admin.users` is missing
    ");
}

#[test]
fn policies_without_effect_or_that_match_empty_text_are_refused() {
    for (policy, message) in [
        ("redact, detect: []", "has no effect"),
        ("redact, on: []", "has no effect"),
        ("tool_guard", "has no effect"),
        ("tool_guard, deny: [], rules: []", "has no effect"),
        ("prompt_guard, deny: ['']", "matches the empty text"),
        ("prompt_guard, deny: [a, 'x*']", "matches the empty text"),
    ] {
        let upstream = "upstreams: { gemini: { url: https://example.org } }\n";
        let (code, _, stderr) = check(&format!(
            "{upstream}policies:\n  - {{ policy: {policy} }}\n"
        ));

        assert_eq!(code, 78, "{policy}: {stderr}");
        let mut lines = stderr.lines();
        let has_position =
            lines.any(|line| line.starts_with("hookgate.yaml:3:") && line.contains(message));
        assert!(has_position, "{policy}: {stderr}");
    }
    for policy in [
        "redact, detect: [], patterns: { a: b }",
        "tool_guard, allow: []",
        "tool_guard, deny: [a]",
    ] {
        let upstream = "upstreams: { gemini: { url: https://example.org } }\n";
        let (code, _, stderr) = check(&format!(
            "{upstream}policies:\n  - {{ policy: {policy} }}\n"
        ));

        assert_eq!(code, 0, "{policy}: {stderr}");
    }
}

#[test]
fn a_url_that_the_client_of_redis_refuses_is_reported_at_its_setting() {
    let folder = TempDir::new().unwrap();
    let upstream = "upstreams: { gemini: { url: https://example.org } }\n";
    for more in ["/abc", "/?protocol=resp9"] {
        let url = format!("redis://127.0.0.1:6379{more}");
        std::fs::write(folder.path().join("url"), url).unwrap();
        for (store, at) in [("sessions: { store:", 36), ("auth: { limits: { store:", 42)] {
            let end = "}".repeat(store.matches('{').count());
            let config =
                format!("{upstream}{store} {{ redis: {{ url: {{ file: url }} }} }} {end}\n");
            std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

            let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

            let problem = format!("hookgate.yaml:2:{at}: the secret is not a URL such as");
            assert_eq!(code, 78, "{stderr}");
            assert!(stderr.contains(&problem), "{store} {more}: {stderr}");
            assert!(!stderr.contains(more), "{stderr}");
        }
    }
}

#[test]
fn an_upstream_key_sent_unencrypted_is_a_warning() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("key"), "k").unwrap();
    let check_upstream = |upstream: &str| {
        let config = format!("upstreams:\n  gemini: {{ {upstream} }}\n");
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());
        (code, stderr)
    };
    let key = "api_key: { file: key }";
    let warning_at = |column| {
        let position = format!("hookgate.yaml:2:{column}");
        let message = "the key for the model API is sent unencrypted: use https";
        (0, format!("warning: {position}: {message}\n"))
    };
    let none = (0, String::new());

    assert_eq!(
        check_upstream(&format!("url: \"http://a\", {key}")),
        warning_at(18)
    );
    assert_eq!(
        check_upstream(&format!("url: \"http://10.0.0.1\", {key}")),
        warning_at(18)
    );
    for loopback in ["localhost:1", "127.0.0.1:1", "[::1]:1"] {
        assert_eq!(
            check_upstream(&format!("url: \"http://{loopback}\", {key}")),
            none
        );
    }
    assert_eq!(check_upstream(&format!("url: \"https://a\", {key}")), none);
    assert_eq!(check_upstream("url: \"http://a\""), none);
    let fallback = |url| format!("url: \"https://a/b\", fallback: {{ url: \"{url}\", {key} }}");
    assert_eq!(check_upstream(&fallback("http://a/b")), warning_at(50));
    for same in ["https://a/b", "https://A:443/b/"] {
        let message =
            "hookgate.yaml:2:50: the fallback must have another address than the upstream\n";
        assert_eq!(check_upstream(&fallback(same)), (78, message.to_owned()));
    }
    assert_eq!(check_upstream(&fallback("https://a/c")), none);
}

#[test]
fn a_small_rotation_size_of_the_decision_log_is_a_warning() {
    let upstream = "upstreams: { gemini: { url: https://example.org } }\n";
    let warnings = |size: &str| {
        let audit = format!("audit: {{ path: a.jsonl, rotate: {{ size: {size} }} }}\n");
        check(&format!("{upstream}{audit}")).2
    };

    let warning = "warning: hookgate.yaml:2:41: audit log files this small";
    assert!(
        warnings("65535").starts_with(warning),
        "{}",
        warnings("65535")
    );
    assert_eq!(warnings("64KiB"), "");
}

#[test]
fn a_shadow_that_cannot_start_is_a_warning() {
    let upstreams = "upstreams: { gemini: { url: https://example.org } }";

    let (code, _, stderr) = check(&format!("{upstreams}\nshadow: {{ config: other.yaml }}\n"));

    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.starts_with("warning: hookgate.yaml:2:19: the shadow cannot be started: "),
        "{stderr}"
    );
    assert!(stderr.contains("other.yaml"), "{stderr}");
}

#[test]
fn numbers_out_of_range_are_reported_with_their_range() {
    let config = "\
upstreams: { gemini: { url: https://example.org } }
revisions: { path: revisions, keep: 1 }
policies: [{ policy: request_limits, max_temperature: -1, max_calls: 0 }]
";

    let (code, _, stderr) = check(config);

    assert_eq!(code, 78);
    assert_snapshot!(stderr, @r"
    hookgate.yaml:2:37: `revisions.keep` must be a whole number from 2 to 1000, not `1`
    hookgate.yaml:3:55: policy `request_limits`: `max_temperature` must be a number from 0.0 to 2.0, not `-1`
    hookgate.yaml:3:70: policy `request_limits`: `max_calls` must be a whole number from 1, not `0`
    ");
}

#[test]
fn sizes_that_are_too_small_are_reported_with_their_setting() {
    let upstreams = "upstreams: { gemini: { url: https://example.org } }";

    let (code, _, stderr) = check(&format!("{upstreams}\ntrace: {{ memory: 1MiB }}\n"));

    assert_eq!(code, 78);
    assert_eq!(
        stderr,
        "hookgate.yaml:2:18: `trace.memory` must be at least 4MiB\n"
    );
}

#[test]
fn callers_that_no_key_has_are_warnings() {
    let (code, _, stderr) = check(
        "\
upstreams: { gemini: { url: https://example.org } }
auth: { keys: [{ name: ci, sha256: \"0123456789012345678901234567890123456789012345678901234567890123\" }] }
record: { path: recordings, what: { callers: [ci, cd] } }
",
    );

    assert_eq!(code, 0, "{stderr}");
    let warning = "warning: hookgate.yaml:3:51: no key of `auth.keys` has the name `cd`\n";
    assert!(stderr.contains(warning), "{stderr}");
    assert!(!stderr.contains("`ci`"), "{stderr}");
}

#[test]
fn an_upstream_that_is_this_gateway_is_refused() {
    let addresses = [
        ("127.0.0.1:19192", "http://127.0.0.1:19192"),
        ("127.0.0.1:19192", "http://localhost:19192/base"),
        ("0.0.0.0:19192", "http://127.0.0.1:19192"),
        ("'[::1]:19192'", "http://[::1]:19192"),
        ("127.0.0.1:80", "http://127.0.0.1"),
    ];
    for (listen, url) in addresses {
        let config = format!(
            "listen: {listen}\nauth: {{ anonymous: true }}\nupstreams: {{ gemini: {{ url: '{url}' }} }}\n"
        );
        let (code, _, stderr) = check(&config);

        assert_eq!(code, 78, "{listen} {url}: {stderr}");
        assert!(stderr.contains("hookgate.yaml:3:29: `http"), "{stderr}");
        assert!(stderr.contains("is this gateway itself"), "{stderr}");
    }
    let fallback = "admin: { listen: 127.0.0.1:19193 }
upstreams: { gemini: { url: https://a.example, fallback: { url: 'http://127.0.0.1:19193', api_key: { env: PATH } } } }
";
    let (code, _, stderr) = check(fallback);
    assert_eq!(code, 78, "{stderr}");
    assert!(stderr.contains("listens on `127.0.0.1:19193`"), "{stderr}");
    for url in [
        "http://127.0.0.1:19194",
        "http://127.0.0.2:19192",
        "https://a.example:19192",
    ] {
        let (code, _, stderr) = check(&format!(
            "listen: 127.0.0.1:19192\nupstreams: {{ gemini: {{ url: '{url}' }} }}\n"
        ));
        assert_eq!((code, stderr.as_str()), (0, ""), "{url}");
    }
}

#[test]
fn problems_of_options_name_the_option_and_no_position() {
    let serve = |options: &[&str]| {
        let (code, _, stderr) = run(&[&["serve"], options].concat(), ".".as_ref());
        assert_eq!(code, 78, "{stderr}");
        stderr
    };
    let upstream = ["--upstream", "http://127.0.0.1:19192"];

    let open = serve(&[&upstream[..], &["--listen", "0.0.0.0:19194"]].concat());
    let own = serve(&[&upstream[..], &["--listen", "127.0.0.1:19192"]].concat());

    assert_snapshot!(open, @"`--listen` without `--config`: agents on other machines can connect without authentication: configure callers in `auth`, or allow this by `auth: { anonymous: true }`");
    assert_snapshot!(own, @"`http://127.0.0.1:19192/` is this gateway itself, which listens on `127.0.0.1:19192`");
}

#[test]
fn policies_without_an_effect_are_warnings() {
    let key = "a".repeat(64);
    let config = format!(
        "\
upstreams: {{ gemini: {{ url: https://a.example }} }}
auth: {{ keys: [{{ name: a, sha256: {key}, upstream_key: {{ env: PATH }}, models: ['models/m'] }}] }}
policies:
  - {{ policy: request_limits }}
  - {{ policy: model_swap }}
  - {{ policy: model_swap, swap: {{ a: a }} }}
  - {{ policy: model_swap, rules: [{{ larger_than: 10MB, smaller_than: 1MB, to: a }}] }}
  - {{ policy: model_swap, rules: [{{ model: '*', to: a }}, {{ model: b, to: c }}] }}
  - {{ policy: respond, match: '', text: hi }}
  - {{ policy: model_allow, models: ['gemini 2.5', 'gemini-*'] }}
hooks:
  BeforeModel:
    - hooks:
        - {{ type: builtin, policy: prompt_guard, deny: [x], timeout: 5, on_failure: closed }}
"
    );

    let (code, _, stderr) = check(&config);

    assert_eq!(code, 0, "{stderr}");
    for warning in [
        "4:5: policy `request_limits`: has no effect: no limit is set",
        "5:5: policy `model_swap`: has no effect: `swap` and `rules` are empty",
        "6:5: policy `model_swap`: `swap` replaces `a` by itself",
        "7:5: policy `model_swap`: `rules[0]` matches no request",
        "8:5: policy `model_swap`: `rules[0]` matches all requests",
        "9:5: policy `respond`: `match` matches every prompt",
        "10:5: policy `model_allow`: `gemini 2.5` in `models` cannot be",
        "policy `a models`: `models/m` in `models` matches no model of Google's APIs",
        "14:70: `timeout` has no effect on a policy",
        "14:85: `on_failure` has no effect on a policy",
    ] {
        let is_there = |line: &str| line.starts_with("warning: ") && line.contains(warning);
        assert!(stderr.lines().any(is_there), "{warning}: {stderr}");
    }
}

#[test]
fn policies_with_an_effect_have_no_warning() {
    let config = "\
upstreams: { gemini: { url: https://a.example } }
policies:
  - { policy: request_limits, max_calls: 3 }
  - { policy: model_swap, rules: [{ larger_than: 1MB, smaller_than: 2MB, to: a }, { to: b }] }
  - { policy: respond, match: ^$, text: empty }
  - { policy: model_allow, models: ['*'] }
";

    let (code, _, stderr) = check(config);

    assert_eq!(code, 0, "{stderr}");
    assert!(!stderr.contains("warning"), "{stderr}");
}

#[test]
fn allowed_methods_of_an_api_without_an_upstream_are_warnings() {
    let (code, _, stderr) = check(
        "upstreams: { gemini: { url: https://a.example } }\ncoverage: { allow: [messages.mcp, files.create] }\n",
    );

    assert_eq!(code, 0, "{stderr}");
    let warning = "warning: hookgate.yaml:2:21: no API of `upstreams` has `messages.mcp`, so it has no effect\n";
    assert_eq!(stderr, warning);
}

#[test]
fn keys_of_callers_that_are_never_sent_are_warnings() {
    let checked = |keys: &str| {
        let (code, _, stderr) = check(&format!(
            "upstreams: {{ gemini: {{ url: https://a.example }} }}\nauth: {{ keys: [{{ name: a, sha256: {}, {keys} }}] }}\n",
            "a".repeat(64)
        ));
        assert_eq!(code, 0, "{stderr}");
        stderr
    };
    let own = "upstream_keys: { gemini: { env: PATH } }";
    let shared = "upstream_key: { env: PATH }";

    let unused = checked("upstream_keys: { gemini: { env: PATH }, openai: { env: PATH } }");
    assert!(
        unused.contains("`upstreams.openai` is missing, so the key is never sent"),
        "{unused}"
    );
    assert_eq!(unused.lines().count(), 1, "{unused}");
    let replaced = checked(&format!("{own}, {shared}"));
    assert!(
        replaced.contains("the key is never sent: it is for"),
        "{replaced}"
    );
    assert_eq!(checked(own), "");
    assert_eq!(checked(shared), "");
}

#[test]
fn each_upstream_without_a_key_for_callers_is_a_warning() {
    let apis = ["gemini", "anthropic", "openai"];
    let upstreams = apis.map(|api| format!("{api}: {{ url: https://a.example }}"));
    let (code, _, stderr) = check(&format!(
        "upstreams: {{ {} }}\nauth: {{ keys: [{{ name: a, sha256: {} }}] }}\n",
        upstreams.join(", "),
        "a".repeat(64)
    ));

    assert_eq!(code, 0, "{stderr}");
    for api in apis {
        let warning = format!("`upstreams.{api}` has no key");
        assert!(stderr.contains(&warning), "{stderr}");
    }
}

#[test]
fn characters_that_are_invisible_are_printed_as_escapes() {
    let (code, stdout, stderr) = check(
        "upstreams: { gemini: { url: http://a } }\n\"\\e[31ma\\nb\u{202e}c\": 1\nlisten: \"\\u061c\"\n",
    );

    assert_eq!((code, stdout.as_str()), (78, ""));
    assert_snapshot!(stderr, @r"
    hookgate.yaml:2:1: unknown key `\u{1b}[31ma\nb\u{202e}c`
    hookgate.yaml:3:9: `listen` must be an IP address and a port such as `127.0.0.1:8787`, not `\u{61c}`
    ");
}

#[test]
fn a_variable_that_is_not_utf_8_is_not_called_unset() {
    let folder = TempDir::new().unwrap();
    let config = "upstreams: { gemini: { url: http://a, api_key: { env: LATIN_KEY } } }\n";
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut command = hookgate(&["check", "hookgate.yaml"]);
    command.current_dir(folder.path());
    command.env("LATIN_KEY", OsStr::from_bytes(b"k\xe4y"));

    let output = command.output().unwrap();

    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_snapshot!(stderr, @"hookgate.yaml:1:48: environment variable `LATIN_KEY` is not UTF-8");
}

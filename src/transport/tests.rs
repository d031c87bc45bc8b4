use std::{ffi::OsStr, path::PathBuf};

use prometheus_client::metrics::gauge::Gauge;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::{deps::is_inherited, *};

fn deps() -> TransportDeps {
    let slots = Arc::new(ProcessSlots::default());
    let (tasks, running) = (TaskTracker::new(), Gauge::default());
    TransportDeps::new(tasks, slots, running, 1024, PathBuf::from("."))
}

#[track_caller]
fn check_refused(kind: &str, settings: &Value, expected: &str) {
    let settings = settings.as_object().unwrap().clone();
    let deps = deps();
    let config = TransportConfig {
        label: "hook",
        settings,
        deps: &deps,
    };
    let refused = build(kind, config).unwrap_err();
    assert_eq!(refused.to_string(), expected);
}

#[test]
fn commands_that_cannot_run_are_refused() {
    check_refused("pigeon", &json!({}), "unknown transport `pigeon`");
    check_refused("command", &json!({}), "settings: missing field `command`");
    check_refused(
        "command",
        &json!({"comand": "true"}),
        "settings: unknown field `comand`, expected one of `command`, `env`, `prewarm`, `answer`",
    );
    check_refused(
        "command",
        &json!({"command": " \n"}),
        "settings: `command` is empty",
    );
    check_refused(
        "command",
        &json!({"command": "true", "env": {"A=B": ""}}),
        "settings: `env` has an invalid variable name",
    );
    check_refused(
        "command",
        &json!({"command": "true", "env": {"A": "\0"}}),
        "settings: `command` and `env` cannot contain NUL characters",
    );
}

#[test]
fn servers_and_workers_that_cannot_run_are_refused() {
    check_refused("http", &json!({}), "settings: missing field `url`");
    check_refused(
        "http",
        &json!({"url": "/hook"}),
        "settings: relative URL without a base: \"/hook\"",
    );
    check_refused(
        "http",
        &json!({"url": "http://a", "bearer": "TOP\nSECRET"}),
        "settings: `bearer` is not a valid header value",
    );
    check_refused(
        "worker",
        &json!({"command": ""}),
        "settings: `command` is empty",
    );
}

#[test]
fn hooks_inherit_no_key() {
    for inherited in [
        "PATH", "HOME", "LANG", "LC_ALL", "LC_TIME", "TZ", "TMPDIR", "USER", "SHELL",
    ] {
        assert!(is_inherited(OsStr::new(inherited)), "{inherited}");
    }
    for hidden in [
        "GEMINI_API_KEY",
        "HOOKGATE_ADMIN_TOKEN",
        "path",
        "PATHS",
        "LANGUAGE",
        "",
    ] {
        assert!(!is_inherited(OsStr::new(hidden)), "{hidden}");
    }

    let inherited = deps().environment;

    assert!(inherited.iter().any(|(name, _)| name == "PATH"));
    assert!(inherited.iter().all(|(name, _)| is_inherited(name)));
}

#[test]
fn the_directory_of_the_hooks_is_absolute() {
    assert!(deps().directory.is_absolute());
}

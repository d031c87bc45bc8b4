use serde_json::json;

use super::*;

fn toolbox() -> TransportDeps {
    let places = Arc::new(ProcessSlots::default());
    let (tasks, alive) = (TaskTracker::new(), Gauge::default());
    TransportDeps::new(tasks, places, alive, 1024, PathBuf::from(".")).unwrap()
}

#[track_caller]
fn check_refused(kind: &str, settings: &Value, expected: &str) {
    let settings = settings.as_object().unwrap().clone();
    let toolbox = toolbox();
    let setup = Setup {
        label: "hook",
        settings,
        toolbox: &toolbox,
    };
    let refused = build(kind, setup).unwrap_err();
    assert_eq!(refused.to_string(), expected);
}

#[test]
fn what_cannot_run_is_refused_when_it_is_built() {
    check_refused("pigeon", &json!({}), "no transport is named `pigeon`");
    check_refused("command", &json!({}), "settings: missing field `command`");
    check_refused(
        "command",
        &json!({"comand": "true"}),
        "settings: unknown field `comand`, expected one of `command`, `env`, `prewarm`, `answer`, `description`",
    );
    check_refused(
        "command",
        &json!({"command": " \n"}),
        "settings: `command` is empty",
    );
    check_refused(
        "command",
        &json!({"command": "true", "env": {"A=B": ""}}),
        "settings: `env` has a name that no variable can have",
    );
    check_refused(
        "command",
        &json!({"command": "true", "env": {"A": "\0"}}),
        "settings: `command` and `env` cannot hold NUL characters",
    );
}

#[test]
fn servers_and_workers_that_cannot_be_called_are_refused_too() {
    check_refused("http", &json!({}), "settings: missing field `url`");
    check_refused(
        "http",
        &json!({"url": "/hook"}),
        "settings: relative URL without a base: \"/hook\"",
    );
    check_refused(
        "http",
        &json!({"url": "http://a", "bearer": "TOP\nSECRET"}),
        "settings: `bearer` cannot stand in a header",
    );
    check_refused(
        "worker",
        &json!({"command": ""}),
        "settings: `command` is empty",
    );
}

#[test]
fn hooks_see_what_processes_need_and_no_key() {
    for shown in [
        "PATH", "HOME", "LANG", "LC_ALL", "LC_TIME", "TZ", "TMPDIR", "USER", "SHELL",
    ] {
        assert!(is_shown(OsStr::new(shown)), "{shown}");
    }
    for hidden in [
        "GEMINI_API_KEY",
        "HOOKGATE_ADMIN_TOKEN",
        "path",
        "PATHS",
        "LANGUAGE",
        "",
    ] {
        assert!(!is_shown(OsStr::new(hidden)), "{hidden}");
    }

    let inherited = toolbox().environment;

    assert!(inherited.iter().any(|(name, _)| name == "PATH"));
    assert!(inherited.iter().all(|(name, _)| is_shown(name)));
}

#[test]
fn the_folder_of_the_hooks_is_absolute() {
    assert!(toolbox().directory.is_absolute());
}

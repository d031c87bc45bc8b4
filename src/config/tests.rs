//! Tests of configs that operators can write, and of the messages about mistakes.

mod callers;
mod mistakes;
mod secrets;
mod shipped_files;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    time::Duration,
};

use insta::assert_snapshot;
use proptest::prelude::*;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::*;
use crate::{event::EventName, hook::registry};

/// Compiles the schemas of configs once for all tests: that takes longer than most of them.
pub(in crate::config) static REGISTRY: LazyLock<Registry> = LazyLock::new(registry);

const MINIMAL: &str = "upstreams: { gemini: { url: http://127.0.0.1:9 } }\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("hookgate.yaml"), &REGISTRY)
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
        let hooks = groups.iter().flat_map(|group| &group.hooks);
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
    Config::load(path, &Overrides::default(), &REGISTRY)
}

/// The message of `error` without the directory its files are in.
fn without(directory: &tempfile::TempDir, error: &impl ToString) -> String {
    let directory = format!("{}/", directory.path().display());
    error.to_string().replace(&directory, "")
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

    let config = Config::load(&path, &overrides, &REGISTRY).unwrap();

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
    let nothing = Config::without_file(&Overrides::default(), &REGISTRY).unwrap_err();
    let overrides = Overrides {
        upstream: Some("ftp://a".parse().unwrap()),
        hooks: vec!["missing.json".into()],
        ..Overrides::default()
    };
    let wrong = Config::without_file(&overrides, &REGISTRY).unwrap_err();
    let upstream = Some("http://a".parse().unwrap());
    let overrides = Overrides {
        upstream,
        ..overrides
    };
    let missing = Config::without_file(&overrides, &REGISTRY).unwrap_err();

    assert_snapshot!(nothing, @r"give `--config FILE`, or `--upstream URL`");
    assert_snapshot!(wrong, @"`--upstream` must be an http or https URL without user, query or fragment");
    assert_snapshot!(missing, @"`missing.json` cannot be read: No such file or directory (os error 2)");
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
fn all_derivable_events_are_derived_unless_the_config_limits_them() {
    let config = parse(MINIMAL).unwrap();
    let none = parse_more("events: { derive: [] }\n").unwrap();

    let derived = |config: &Config| {
        let all = EventName::ALL
            .iter()
            .filter(|event| config.events.derives(**event));
        all.map(|event| event.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        derived(&config),
        "SessionStart BeforeAgent BeforeTool AfterTool AfterAgent SessionEnd"
    );
    assert_eq!(derived(&none), "");
    assert_eq!(config.sessions.store, StoreSettings::Memory);
}

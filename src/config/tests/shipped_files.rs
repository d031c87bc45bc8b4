//! Files in `config/`, and the documentation of settings.

use super::*;

#[test]
fn absent_settings_have_their_defaults() {
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
    let upstream = gemini.map(|upstream| upstream.url.clone());
    let overrides = Overrides {
        upstream,
        ..Overrides::default()
    };

    let defaults = Config::without_file(&overrides, &REGISTRY).unwrap();

    let [annotated, defaults] = [annotated, defaults].map(own_parts);
    assert_eq!(annotated, defaults);
}

/// Returns the settings without those parts that depend on where they are written.
fn own_parts(mut config: Config) -> String {
    if let Some(jwt) = &mut config.auth.jwt {
        jwt.span = SourceSpan::default();
    }
    let config = Config {
        hook_directory: PathBuf::new(),
        version: String::new(),
        document: std::sync::Arc::default(),
        texts: std::sync::Arc::default(),
        files: Vec::new(),
        listener_spans: ListenerSpans::default(),
        rollout_span: SourceSpan::default(),
        shadow_span: SourceSpan::default(),
        warnings: Vec::new(),
        ..config
    };
    format!("{config:?}")
}

/// A `source` is left out: it does not allow what it replaces, not even with its defaults.
#[test]
fn a_config_with_the_defaults_filled_in_has_the_same_meaning() {
    let sections = "auth: { jwt: { issuer: i, audience: a, jwks: https://127.0.0.1:9/ } }
audit: { path: a.jsonl, sink: { url: http://127.0.0.1:9/ } }
record: { path: r }
telemetry: { otlp: { endpoint: http://127.0.0.1:9 } }
shadow: { config: s.yaml }
";
    let rollout = "revisions: { path: v }\nrollout: { to: 0badcafe, steps: [5] }\n";
    for text in ["", sections, rollout] {
        let written = parse_more(text).unwrap();

        let sections = written.document.sections().iter();
        let filled_in: String = sections.map(ConfigSection::yaml).collect();
        let read = parse(&filled_in).unwrap_or_else(|error| panic!("{error}\n{filled_in}"));

        assert_eq!(own_parts(read), own_parts(written), "{filled_in}");
    }
}

#[test]
fn every_shipped_config_loads_without_warnings() {
    let mut seen = Vec::new();
    for directory in ["config", "config/examples", "config/examples/policies"] {
        let paths = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        for path in paths.filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        }) {
            let overrides = Overrides {
                missing_secrets: MissingSecrets::Placeholder,
                ..Overrides::default()
            };
            let config = Config::load(&path, &overrides, &REGISTRY).unwrap();
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
    let mut hooks = config.hooks[&event].iter().flat_map(|group| &group.hooks);
    let hook = hooks.find(|hook| hook.label() == name).unwrap();
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

#[test]
fn the_schema_file_is_up_to_date() {
    let schema = format!("{:#}\n", Config::schema(&REGISTRY));
    if std::env::var_os("UPDATE").is_some() {
        fs::write("config/schema.json", &schema).unwrap();
    }

    let file = fs::read_to_string("config/schema.json").unwrap();
    assert!(file == schema, "run `UPDATE=1 cargo test --lib config::`");
}

/// Prefixes of the settings that share the names in [`GRANT`].
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

/// The names of all settings, each with the mappings around it (`limits.body`) and with its
/// schema. Those of a hook and its group have no prefix.
fn settings<'a>(
    schema: &'a Value,
    node: &'a Value,
    prefix: &str,
    names: &mut Vec<(String, &'a Value)>,
) {
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
        names.push((name, child));
    }
}

#[test]
fn every_setting_has_its_line_in_the_documentation() {
    let page = fs::read_to_string("docs/config.md").unwrap();
    let schema = Config::schema(&REGISTRY);
    let mut names = Vec::new();
    settings(&schema, &schema, "", &mut names);

    let names = names.into_iter().map(|(name, _)| name);
    let missing: Vec<String> = names
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "not in docs/config.md: {missing:?}");
}

/// Settings of sections. Those of hooks depend on the type, and lists of cases are left out.
#[test]
fn documented_defaults_are_in_the_schema() {
    let page = fs::read_to_string("docs/config.md").unwrap();
    let schema = Config::schema(&REGISTRY);
    let mut names = Vec::new();
    settings(&schema, &schema, "", &mut names);

    let documented = |name: &str| {
        let row = format!("| `{name}` |");
        let row = page.lines().find(|line| line.starts_with(&row))?;
        let default = row.split(" | ").nth(2)?.trim();
        let literal = default.strip_prefix('`')?.strip_suffix('`')?;
        // The default of some settings is another setting.
        let is_setting = literal.contains(char::is_alphabetic)
            && (literal.contains('.') && !literal.contains("..") && !literal.contains(':'));
        (!is_setting).then(|| literal.to_owned())
    };
    let lacking = names.iter().filter_map(|(name, setting)| {
        let is_section = name.contains('.') && !name.starts_with("must_");
        let has_default = setting.get("default").is_some() || name == "tls.client_certificates";
        let default = documented(name).filter(|_| is_section && !has_default)?;
        Some(format!("{name}: {default}"))
    });
    let lacking: Vec<String> = lacking.collect();
    assert!(lacking.is_empty(), "not in the schema: {lacking:#?}");
}

/// Settings of other programs: they are YAML, and name files and fields as the log has them.
#[test]
fn settings_for_siem_agents_are_yaml_that_names_the_log() {
    for (file, names) in [
        ("vector.yaml", ["decisions.jsonl.[0-9]*", "hookgate.hash"]),
        ("fluent-bit.yaml", ["decisions.jsonl.*", "hookgate:audit"]),
        (
            "otel-collector.yaml",
            ["decisions.jsonl.[0-9]*", "hookgate.audit.prev"],
        ),
    ] {
        let text = fs::read_to_string(Path::new("config/siem").join(file)).unwrap();

        let parsed: Value = serde_saphyr::from_str(&text).unwrap();

        assert!(parsed.is_object(), "{file}");
        for name in names {
            assert!(text.contains(name), "{file} has no {name}");
        }
        assert!(text.contains("Not run with"), "{file}");
    }
}

//! Secrets are read from elsewhere, and never shown.

use super::*;

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
fn a_hook_with_a_url_is_named_without_showing_it() {
    let hooks = "\
hooks:
  BeforeModel: [{ hooks: [{ type: http, url: http://a/hook }, { type: http, name: b, url: http://b }] }]
  AfterModel: [{ hooks: [{ type: http, url: http://c/hook }] }]
hooksConfig: { disabled: ['http://c/hook', 'http://b'] }
";
    let config = parse_more(hooks).unwrap();

    assert_eq!(running(&config), ["BeforeModel: http", "BeforeModel: b"]);
    let hooks = &config.hooks[&EventName::BeforeModel][0].hooks;
    assert_eq!(hooks[0].identity(), ("", "http://a/hook", "gemini"));
    assert_eq!(hooks[1].identity(), ("b", "http://b", "gemini"));
    assert_snapshot!(warnings(&config), @"hookgate.yaml:5:44: no hook is named `http://b`, so none is disabled");
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
fn an_unavailable_secret_is_an_error_without_the_secret() {
    let (directory, path) = directory(&[
        ("blank", "two words"),
        (
            "hookgate.yaml",
            "upstreams: { gemini: { url: http://a, api_key: { file: blank } } }\n\
             admin: { token: { env: HOOKGATE_TEST_UNSET } }\n",
        ),
        (
            "written.yaml",
            "upstreams: { gemini: { url: http://u:pw@a, api_key: { file: none } }, vertex: { url: http://a?key=s3cr3t } }\n\
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
    written.yaml:1:86: `upstreams.vertex.url` must be an http or https URL without user, query or fragment
    written.yaml:2:17: `admin.token` must be `{ env: NAME }` or `{ file: PATH }`; the config cannot contain the secret itself
    ");
}

#[test]
fn a_file_without_an_end_is_no_secret() {
    let text = "upstreams: { gemini: { url: https://a, api_key: { file: /dev/zero } } }\n";

    let error = parse(text).unwrap_err();

    assert_snapshot!(error, @"hookgate.yaml:1:49: file `/dev/zero` cannot be read: it is not a regular file");
}

#[test]
fn a_secret_that_cannot_be_used_is_replaced_if_no_service_is_called() {
    let hook = |file| {
        let hook = format!("{{ type: http, url: 'http://a', bearer: {{ file: {file} }} }}");
        format!("{MINIMAL}hooks: {{ BeforeModel: [{{ hooks: [{hook}] }}] }}\n")
    };
    let overrides = Overrides {
        missing_secrets: MissingSecrets::Placeholder,
        ..Overrides::default()
    };

    for (file, text) in [("empty", "\n"), ("blank", "two words")] {
        let (_directory, path) = directory(&[(file, text), ("hookgate.yaml", &hook(file))]);
        let config = Config::load(&path, &overrides, &REGISTRY).unwrap();
        let spec = &config.hooks[&EventName::BeforeModel][0].hooks[0];
        assert_eq!(spec.settings.0["bearer"], PLACEHOLDER_SECRET, "{file}");
    }
}

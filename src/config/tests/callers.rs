//! Listeners, callers and their limits.

use super::*;

#[test]
fn listeners_that_collide_are_refused_and_open_ones_need_authentication() {
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
    let by_option = Config::without_file(&overrides, &REGISTRY).unwrap_err();

    assert_snapshot!(parse_more(same).unwrap_err(), @r#"hookgate.yaml:3:18: agents and operators cannot share the address `0.0.0.0:80`"#);
    assert_snapshot!(parse_more(open).unwrap_err(), @r"
    hookgate.yaml:2:9: agents on other machines can connect without authentication: configure callers in `auth`, or allow this by `auth: { anonymous: true }`
    hookgate.yaml:3:18: operators on other machines can connect: `admin.token` or `admin.users` is missing
    ");
    assert_snapshot!(warnings(&parse_more(meant).unwrap()), @r"hookgate.yaml:2:9: agents on other machines can connect without authentication");
    assert_snapshot!(by_option, @r#"`--admin-listen` without `--config`: operators on other machines can connect: `admin.token` or `admin.users` is missing"#);
    assert_eq!(warnings(&parse_more(free).unwrap()), "");
}

#[test]
fn listeners_that_stay_bound_need_authentication_whatever_address_the_config_has() {
    let bound = (
        "0.0.0.0:80".parse().unwrap(),
        "192.0.2.1:81".parse().unwrap(),
    );
    let checked = |text: &str| {
        let config = parse_more(text).unwrap();
        config.check_bound_addresses(bound.0, bound.1)
    };
    let local = "listen: 127.0.0.1:80\nadmin: { listen: 127.0.0.1:81 }\n";
    let anonymous = format!("{local}auth: {{ anonymous: true }}\n");
    let credentials = format!(
        "listen: 127.0.0.1:80\nadmin: {{ listen: 127.0.0.1:81, token: {{ env: PATH }} }}\n\
         auth: {{ keys: [{{ name: a, sha256: {} }}] }}\n",
        "a".repeat(64)
    );
    let meant = "listen: 0.0.0.0:82\nadmin: { token: { env: PATH } }\nauth: { anonymous: true }\n";

    assert_snapshot!(checked(local).unwrap_err(), @r"
    hookgate.yaml:2:9: agents on other machines can connect without authentication until a restart, because the listener stays at `0.0.0.0:80`: configure callers in `auth`, or restart
    hookgate.yaml:3:18: operators on other machines can connect until a restart, because the listener stays at `192.0.2.1:81`: `admin.token` or `admin.users` is missing
    ");
    assert_eq!(checked(&anonymous).unwrap_err().problems.len(), 2);
    assert!(checked(&credentials).is_ok());
    assert!(checked(meant).is_ok());
}

#[test]
fn callers_are_configured_in_one_way_only() {
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
    assert_snapshot!(refused(&jwt("http://issuer.example/keys")), @r#"hookgate.yaml:2:46: `auth.jwt.jwks` must be an https URL without user or fragment, or `{ file: PATH }`"#);
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
    hookgate.yaml:2:40: `browsers.origins[0]` must be an origin such as `https://console.example`: scheme, host and port
    hookgate.yaml:2:52: `browsers.origins[1]` must be an origin such as `https://console.example`: scheme, host and port
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
fn the_models_and_tools_of_a_caller_become_policies() {
    let text = format!(
        "auth: {{ keys: [{{ name: a, sha256: {}, models: [m], tools: [] }}], jwt: {{ issuer: i, audience: a, jwks: https://a, models: [n] }} }}\n",
        "a".repeat(64)
    );
    let config = parse_more(&text).unwrap();
    let policies = config.caller_policies.iter().map(|policy| {
        format!(
            "{} {} {} {:?}",
            policy.label(),
            policy.policy,
            policy.condition().unwrap(),
            policy.settings.0
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
  BeforeModel: [{ hooks: [{ command: cat }, { command: cut, on_failure: closed }] }]
  AfterModel: [{ hooks: [{ command: head, mode: observe }, { command: tail }] }]
  SessionEnd: [{ hooks: [{ command: sort, on_failure: closed }] }]
  BeforeToolSelection: [{ hooks: [{ command: wc }, { command: nl, on_failure: closed }] }]
";
    let config = parse_more(hooks).unwrap();

    let guards = config.guards_that_fail_open();
    let guards: Vec<_> = guards
        .map(|(event, hook)| format!("{event} {}", hook.label()))
        .collect();
    assert_eq!(
        guards,
        [
            "BeforeModel cat",
            "BeforeToolSelection wc",
            "AfterModel tail"
        ]
    );
    assert_snapshot!(warnings(&config), @r"hookgate.yaml:6:55: hooks cannot deny SessionEnd, so `closed` has no effect");
    let unproven = config.guards_without_proof();
    let unproven: Vec<&str> = unproven.map(|(_, hook)| hook.label()).collect();
    assert_eq!(unproven, ["cut"]);
}

//! Settings that are valid, and probably have another effect than intended.

use super::check;

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
            "2:28: `limits.in_flight` must be a number",
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

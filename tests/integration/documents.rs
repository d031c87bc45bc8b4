//! Documents that are checked against the code: `OpenAPI`, errors, configs, metrics, policies.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use hookgate::{api::openapi, error::ErrorReason};
use regex::Regex;
use serde_json::Value;

use crate::harness::run;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: impl AsRef<Path>) -> String {
    let path = repository().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Markdown pages of the documentation.
fn pages() -> Vec<PathBuf> {
    let folders = ["docs", "docs/agents", "docs/policies"].map(|folder| repository().join(folder));
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let pages = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.chain([repository().join("README.md")]).collect()
}

/// Returns the code blocks of this language in a page.
fn blocks(page: &Path, language: &str) -> Vec<String> {
    let (mut blocks, mut block) = (Vec::new(), None::<(usize, String)>);
    for line in read(page).lines() {
        let code = line.trim_start();
        match &mut block {
            None if code == format!("```{language}") => {
                block = Some((line.len() - code.len(), String::new()));
            }
            None => (),
            Some(_) if code == "```" => blocks.extend(block.take().map(|(_, text)| text)),
            Some((indent, text)) => {
                text.push_str(line.get(*indent..).unwrap_or_default());
                text.push('\n');
            }
        }
    }
    blocks
}

#[test]
fn the_openapi_document_matches_the_code() {
    let stored = read("openapi/hookgate.yaml");

    let generated = openapi::yaml().unwrap();

    assert!(
        stored.trim_end() == generated.trim_end(),
        "outdated; run: cargo run -- openapi > openapi/hookgate.yaml"
    );
}

#[test]
fn every_error_reason_is_documented() {
    let page = read("docs/errors.md");

    for reason in ErrorReason::ALL {
        let (status, canonical, name) = (reason.status(), reason.canonical_code(), reason.as_str());
        let line = page
            .lines()
            .find(|line| line.contains(&format!("`{name}`")));
        let line = line.unwrap_or_else(|| panic!("docs/errors.md does not explain `{name}`"));
        assert!(line.contains(status.as_str()), "{status}: {line}");
        assert!(line.contains(canonical), "{canonical}: {line}");
    }
}

#[test]
fn every_config_in_the_documentation_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path(".gemini")).unwrap();
    fs::create_dir_all(path("gate")).unwrap();
    fs::write(path(".gemini/settings.json"), "{}").unwrap();
    fs::create_dir_all(path(".claude")).unwrap();
    fs::write(path(".claude/settings.json"), "{}").unwrap();
    fs::create_dir_all(path("gate/policies")).unwrap();
    fs::write(path("gate/policies/codex-hooks.json"), "{}").unwrap();
    let event = r#"{"hook_event_name":"SessionEnd","reason":"exit"}"#;
    fs::write(path("event.json"), event).unwrap();
    let mut checked = 0;

    for page in pages() {
        let blocks = blocks(&page, "yaml").into_iter();
        for block in blocks.filter(|block| !block.contains("cases:")) {
            let config = if block.starts_with("- {") {
                format!(
                    "hooks:\n  BeforeModel:\n  - hooks:\n    {}",
                    block.replace('\n', "\n    ")
                )
            } else {
                block
            };
            fs::write(path("gate/hookgate.yaml"), &config).unwrap();
            // `explain --dry-run` builds the config without an upstream and without secrets.
            let explain = [
                "explain",
                "--dry-run",
                "--config",
                "gate/hookgate.yaml",
                "event.json",
            ];
            let (code, _, stderr) = run(&explain, folder.path());
            assert_eq!(code, 0, "{}: {config}{stderr}", page.display());
            checked += 1;
        }
    }

    assert!(checked >= 15, "{checked}");
}

#[test]
fn commented_out_settings_of_the_annotated_config_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let annotated = read("config/hookgate.yaml").replace("../.gemini/", "");
    let next_lines = annotated.lines().skip(1).chain([""]);
    let lines = annotated.lines().zip(next_lines);
    let uncommented = lines.map(|(line, next)| match line.strip_prefix("  # ") {
        Some(commented_out) => format!("  {commented_out}\n"),
        // The commented-out value follows.
        None if next.starts_with("  # ") => line.replace(": {}", ":").replace(": []", ":") + "\n",
        None => format!("{line}\n"),
    });
    let uncommented: String = uncommented.collect();
    write("hookgate.yaml", &uncommented);
    write("settings.json", "{}");
    write(
        "event.json",
        r#"{"hook_event_name":"SessionEnd","reason":"exit"}"#,
    );
    fs::create_dir(folder.path().join("transcripts")).unwrap();

    let explain = [
        "explain",
        "--dry-run",
        "--config",
        "hookgate.yaml",
        "event.json",
    ];
    let (code, _, stderr) = run(&explain, folder.path());

    assert_eq!(code, 0, "{stderr}");
    assert!(
        uncommented.contains("\n        - type: builtin"),
        "{uncommented}"
    );
}

/// Returns the paths of all settings in a config, including those that are commented out.
fn annotated_paths(config: &str) -> BTreeSet<String> {
    let setting = Regex::new(r"^( *(?:- )?)(?:([A-Za-z_]\w*):(?: |$)|\{ )").unwrap();
    let flow = Regex::new(r"([A-Za-z_]\w*):(?: |$)|\{|\}").unwrap();
    let mut paths = BTreeSet::new();
    let mut parents: Vec<(usize, String)> = Vec::new();
    for line in config.lines() {
        let line = match line.trim_start().strip_prefix("# ") {
            Some(text) => line.replacen(&format!("# {text}"), text, 1),
            None => line.to_owned(),
        };
        let Some(found) = setting.captures(&line) else {
            continue;
        };
        let column = found[1].len();
        parents.retain(|(parent, _)| *parent < column);
        // A mapping in braces: the keys on this line that contain the next one.
        let mut path: Vec<String> = parents.iter().map(|(_, key)| key.clone()).collect();
        let mut last_key = Vec::new();
        for token in flow.captures_iter(&line) {
            match token.get(1).map(|key| key.as_str()) {
                // `or: { … }` in a comment is another form of the value.
                Some("or") => (),
                Some(key) => {
                    last_key = vec![key.to_owned()];
                    paths.insert([path.as_slice(), &last_key].concat().join("."));
                }
                None if &token[0] == "{" => path.push(last_key.concat()),
                None => last_key = path.pop().into_iter().collect(),
            }
        }
        if let Some(key) = found.get(2) {
            parents.push((column, key.as_str().to_owned()));
        }
    }
    paths.iter().map(|path| path.replace("..", ".")).collect()
}

/// Adds the paths of the settings of a schema, by the setting's key and schema: a setting that
/// several mappings have in common has several paths.
fn add_settings(
    settings: &mut BTreeMap<(String, String), Vec<String>>,
    root: &Value,
    schema: &Value,
    path: &str,
) {
    if let Some(reference) = schema["$ref"].as_str() {
        // docs/proof.md has the fields of cases, docs/hooks.md the events.
        if !reference.ends_with("/ProofCase") {
            let definition = root.pointer(reference.trim_start_matches('#')).unwrap();
            add_settings(settings, root, definition, path);
        }
    }
    for alternative in ["anyOf", "oneOf", "allOf"] {
        for schema in schema[alternative].as_array().into_iter().flatten() {
            add_settings(settings, root, schema, path);
        }
    }
    if schema["items"].is_object() {
        add_settings(settings, root, &schema["items"], path);
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let below = format!("{path}.{key}");
        if path != ".hooks" {
            let setting = (key.clone(), schema.to_string());
            let paths = settings.entry(setting).or_default();
            paths.push(below.trim_start_matches('.').to_owned());
        }
        add_settings(settings, root, schema, &below);
    }
}

#[test]
fn the_annotated_config_has_every_setting() {
    let schema = serde_json::from_str(&read("config/schema.json")).unwrap();
    let mut settings = BTreeMap::new();
    add_settings(&mut settings, &schema, &schema, "");
    let annotated = annotated_paths(&read("config/hookgate.yaml"));

    let missing = settings
        .values()
        .filter(|paths| !paths.iter().any(|path| annotated.contains(path)))
        .map(|paths| paths[0].as_str());

    let missing: Vec<&str> = missing.collect();
    assert!(missing.is_empty(), "not in the file: {missing:#?}");
    assert!(settings.len() > 150, "{}", settings.len());
}

#[test]
fn the_test_cases_in_the_documentation_pass() {
    let folder = tempfile::tempdir().unwrap();
    let examples = repository().join("config/examples");
    let blocks = blocks(&repository().join("docs/testing.md"), "yaml");
    let cases = blocks[0].replace("../demo.yaml", examples.join("demo.yaml").to_str().unwrap());
    fs::write(folder.path().join("cases.yaml"), cases).unwrap();

    let (code, stdout, _) = run(&["test", "cases.yaml"], folder.path());

    assert_eq!(code, 0, "{stdout}");
    assert_eq!(stdout.lines().count(), 4, "{stdout}");
}

#[test]
fn every_metric_is_in_the_table_of_metrics() {
    let source = read("src/observe/metrics.rs");
    let (_, table) = source.split_once("\nmetrics! {\n").unwrap();
    let (table, _) = table.split_once("\n}\n").unwrap();
    let documented = read("docs/operating.md");
    let mut metrics = 0;
    for field in table.lines().filter(|line| line.contains(" = \"")) {
        let (kind, name) = field.split_once(" = \"").unwrap();
        let name = name.split('"').next().unwrap();
        let row = if kind.contains("Counter") {
            format!("| `hookgate_{name}_total` | counter |")
        } else if kind.contains("Histogram") {
            format!("| `hookgate_{name}` | histogram |")
        } else {
            format!("| `hookgate_{name}` | gauge |")
        };
        assert!(documented.contains(&row), "no {row}");
        metrics += 1;
    }
    assert!(metrics > 20, "only {metrics} metrics in the source");
}

#[test]
fn every_policy_is_listed_in_the_config_page_and_the_readme() {
    for kind in hookgate::policy::ALL {
        let link = format!("(policies/{0}.md)", kind.name);
        assert!(read("docs/config.md").contains(&link), "{link}");
        assert!(read("README.md").contains(&format!("`{}`", kind.name)));
    }
}

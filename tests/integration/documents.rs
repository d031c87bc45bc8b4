//! Files that must say what the code does.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hookgate::{api::openapi, error::ErrorReason};

use crate::harness::run;

fn house() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: impl AsRef<Path>) -> String {
    let path = house().join(file);
    fs::read_to_string(&path).unwrap_or_else(|it| panic!("{}: {it}", path.display()))
}

/// The pages that people read.
fn pages() -> Vec<PathBuf> {
    let folders = ["docs", "docs/agents", "docs/policies"].map(|it| house().join(it));
    let files = folders.iter().flat_map(|it| fs::read_dir(it).unwrap());
    let files = files.map(|it| it.unwrap().path());
    let pages = files.filter(|it| it.extension().is_some_and(|it| it == "md"));
    pages.chain([house().join("README.md")]).collect()
}

/// The content of a page's blocks of this language.
fn blocks(page: &Path, language: &str) -> Vec<String> {
    let (mut blocks, mut block) = (Vec::new(), None::<(usize, String)>);
    for line in read(page).lines() {
        let code = line.trim_start();
        match &mut block {
            None if code == format!("```{language}") => {
                block = Some((line.len() - code.len(), String::new()));
            }
            None => (),
            Some(_) if code == "```" => blocks.extend(block.take().map(|it| it.1)),
            Some((indent, text)) => {
                text.push_str(line.get(*indent..).unwrap_or_default());
                text.push('\n');
            }
        }
    }
    blocks
}

#[test]
fn the_openapi_document_is_that_of_the_code() {
    let written = read("openapi/hookgate.yaml");

    let made = openapi::to_yaml().unwrap();

    assert!(
        written.trim_end() == made.trim_end(),
        "renew it: cargo run -- openapi > openapi/hookgate.yaml"
    );
}

#[test]
fn every_error_reason_has_its_line_in_the_documentation() {
    let page = read("docs/errors.md");

    for reason in ErrorReason::ALL {
        let (status, canonical, word) = (reason.status(), reason.canonical_code(), reason.as_str());
        let line = page.lines().find(|it| it.contains(&format!("`{word}`")));
        let line = line.unwrap_or_else(|| panic!("docs/errors.md does not explain `{word}`"));
        assert!(line.contains(status.as_str()), "{status}: {line}");
        assert!(line.contains(canonical), "{canonical}: {line}");
    }
}

#[test]
fn every_config_in_the_documentation_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path(".gemini")).unwrap();
    fs::create_dir_all(path("gate")).unwrap();
    fs::write(path(".gemini/settings.json"), "{}").unwrap();
    fs::create_dir_all(path(".claude")).unwrap();
    fs::write(path(".claude/settings.json"), "{}").unwrap();
    fs::create_dir_all(path("gate/policies")).unwrap();
    fs::write(path("gate/policies/codex-hooks.json"), "{}").unwrap();
    let nothing = r#"{"hook_event_name":"SessionEnd","reason":"exit"}"#;
    fs::write(path("event.json"), nothing).unwrap();
    let mut seen = 0;

    for page in pages() {
        let blocks = blocks(&page, "yaml").into_iter();
        for block in blocks.filter(|it| !it.contains("cases:")) {
            let config = if block.starts_with("- {") {
                format!(
                    "hooks:\n  BeforeModel:\n  - hooks:\n    {}",
                    block.replace('\n', "\n    ")
                )
            } else {
                block
            };
            fs::write(path("gate/hookgate.yaml"), &config).unwrap();
            // It reads and builds a config, and needs neither upstream nor secret.
            let explain = [
                "explain",
                "--dry-run",
                "--config",
                "gate/hookgate.yaml",
                "event.json",
            ];
            let (code, _, said) = run(&explain, folder.path());
            assert_eq!(code, 0, "{}: {config}{said}", page.display());
            seen += 1;
        }
    }

    assert!(seen >= 15, "{seen}");
}

#[test]
fn what_is_commented_out_of_the_annotated_config_is_good_too() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let annotated = read("config/hookgate.yaml").replace("../.gemini/", "");
    let said = annotated
        .lines()
        .map(|line| match line.strip_prefix("  # ") {
            Some(commented_out) => format!("  {commented_out}\n"),
            None => line.replace(": {}", ":").replace(": []", ":") + "\n",
        });
    let said: String = said.collect();
    write("hookgate.yaml", &said.replace("disabled:", "disabled: []"));
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
    let (code, _, wrong) = run(&explain, folder.path());

    assert_eq!(code, 0, "{wrong}");
    assert!(said.contains("\n        - type: builtin"), "{said}");
}

#[test]
fn the_cases_in_the_documentation_hold() {
    let folder = tempfile::tempdir().unwrap();
    let examples = house().join("config/examples");
    let written = blocks(&house().join("docs/testing.md"), "yaml");
    let cases = written[0].replace("../demo.yaml", examples.join("demo.yaml").to_str().unwrap());
    fs::write(folder.path().join("cases.yaml"), cases).unwrap();

    let (code, said, _) = run(&["test", "cases.yaml"], folder.path());

    assert_eq!(code, 0, "{said}");
    assert_eq!(said.lines().count(), 4, "{said}");
}

#[test]
fn every_metric_is_in_the_table_of_metrics() {
    let source = read("src/observe/metrics.rs");
    let (_, table) = source.split_once("\nmetrics! {\n").unwrap();
    let (table, _) = table.split_once("\n}\n").unwrap();
    let documented = read("docs/operating.md");
    let mut fields = 0;
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
        fields += 1;
    }
    assert!(fields > 20, "{fields} fields are read");
}

#[test]
fn every_policy_is_named_where_policies_are_listed() {
    for kind in hookgate::policy::ALL {
        let link = format!("(policies/{0}.md)", kind.name);
        assert!(read("docs/config.md").contains(&link), "{link}");
        assert!(read("README.md").contains(&format!("`{}`", kind.name)));
    }
}

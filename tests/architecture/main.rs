//! Structural rules of the sources, checked on every `cargo test`.

#![allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test may panic"
)]

mod imports;
mod language;
mod manifests;
mod pages;
mod source;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use self::{
    imports::Imports,
    source::{Source, all_sources, packages, sources},
};

/// The top-level modules, lowest layer first. A module imports from lower layers only.
const LAYERS: &[&[&str]] = &[
    // `dialect` and `model` are those of `model-calls`.
    &[
        "authorization",
        "backoff",
        "dialect",
        "error_chain",
        "file_replacement",
        "invisible_char",
        "media_type",
        "model",
        "mutex",
        "regular_file",
        "resettable_timer",
        "sha256",
        "timestamp",
    ],
    &["event", "http_client", "service_client"],
    &["protocol"],
    &["condition", "config"],
    &["fleet", "observe"],
    &[
        "audit_log",
        "auth",
        "policy",
        "recording",
        "session",
        "test_case",
        "transport",
        "upstream",
    ],
    &["error", "hook"],
    &["proof"],
    &["state"],
    &["trial"],
    &["bundle", "middleware", "view"],
    &["proxy", "api", "console"],
    &["replay"],
    &["shadow"],
    &["server"],
    &["cli"],
    &["main"],
];

/// Modules that compute and never wait: no runtime, no network, no logging.
const PURE: &[&str] = &["event", "condition", "protocol", "policy"];
/// The crate of the same kind.
const PURE_CRATE: &str = "crates/model-calls/";
const IMPURE: &[&str] = &["tokio", "reqwest", "axum", "tracing"];
const IMPURE_STD: &[&str] = &["env", "fs", "net", "process", "thread"];

/// Names that may mean anything.
const VAGUE_NAMES: &[&str] = &[
    "util", "utils", "common", "helper", "helpers", "types", "misc", "manager", "service",
];

const MAX_FILE_LINES: usize = 400;
const MAX_FUNCTION_LINES: usize = 60;
/// Of 95 in 100 functions.
const USUAL_FUNCTION_LINES: usize = 30;
const MAX_FOLDER_FILES: usize = 20;

#[test]
fn modules_import_downwards_only() {
    let layer_of: BTreeMap<&str, usize> = LAYERS
        .iter()
        .enumerate()
        .flat_map(|(layer, modules)| modules.iter().map(move |module| (*module, layer)))
        .collect();
    let mut wrong = Vec::new();
    for file in sources() {
        let Some(&from) = layer_of.get(file.module.as_str()) else {
            continue;
        };
        for (line, target) in file.imported_modules() {
            match layer_of.get(target.as_str()) {
                None => wrong.push(format!(
                    "{}:{line} names `crate::{target}`, which is no module",
                    file.path
                )),
                Some(&to) if to >= from && target != file.module => {
                    wrong.push(format!(
                        "{}:{line} `{}` (layer {from}) imports `{target}` (layer {to})",
                        file.path, file.module
                    ));
                }
                Some(_) => (),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "imports must point down:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn super_stays_inside_the_module() {
    for file in sources() {
        // `super` of a top-level module's own file would leave it.
        let way_out = "super::".repeat(file.module_path.len().max(1));
        assert!(
            !file.code.contains(&way_out),
            "{} leaves its module by `{way_out}`; write `crate::`",
            file.path
        );
    }
}

#[test]
fn every_module_is_on_a_layer() {
    let listed: Vec<&str> = LAYERS.iter().copied().flatten().copied().collect();
    for file in sources() {
        let known = file.module == "lib" || listed.contains(&file.module.as_str());
        assert!(known, "{} is on no layer of LAYERS", file.path);
    }
}

#[test]
fn lib_only_lists_modules() {
    for file in sources().iter().filter(|file| file.module == "lib") {
        let mut lines = file.code.lines().filter(|line| !line.is_empty());
        let is_module = |line: &str| {
            line.starts_with("pub mod ") || line == "pub use model_calls::{dialect, model};"
        };
        let odd = lines.find(|line| !is_module(line));
        assert_eq!(odd, None, "{} has more than a list of modules", file.path);
    }
}

#[test]
fn no_file_has_a_vague_name() {
    for file in sources() {
        let is_vague = VAGUE_NAMES.contains(&file.stem());
        assert!(!is_vague, "{} has a vague name", file.path);
    }
}

#[test]
fn pure_modules_stay_pure() {
    for file in all_sources() {
        let is_pure = file.path.starts_with("src/") && PURE.contains(&file.module.as_str());
        if !is_pure && !file.path.starts_with(PURE_CRATE) {
            continue;
        }
        for name in IMPURE {
            let found = file.segments_after(name).next();
            assert!(found.is_none(), "{} uses `{name}`", file.path);
        }
        for (line, name) in file.segments_after("std") {
            let impure = IMPURE_STD.contains(&name.as_str());
            assert!(!impure, "{}:{line} uses `std::{name}`", file.path);
        }
    }
}

#[test]
fn there_is_no_global_state() {
    // The binary chooses its allocator by a `static`.
    for file in sources().iter().filter(|file| file.module != "main") {
        for word in ["static", "thread_local", "OnceLock", "LazyLock", "OnceCell"] {
            // `'static` is a lifetime: the quote is part of the word.
            let other = |c: char| !(c.is_alphanumeric() || c == '_' || c == '\'');
            let found = file.code.split(other).any(|found| found == word);
            assert!(
                !found,
                "{} keeps state in a `{word}`; put it in App",
                file.path
            );
        }
    }
}

#[test]
fn clients_follow_neither_redirects_nor_proxies() {
    for file in sources() {
        let is_builder = file.path.ends_with("service_client.rs");
        let found = file.code.contains("reqwest::Client::builder") != is_builder;
        assert!(!found, "{}: use `service_client`", file.path);
    }
}

#[test]
fn files_are_short() {
    for file in all_sources() {
        let lines = file.code.lines().count();
        assert!(
            lines <= MAX_FILE_LINES,
            "{} has {lines} lines; split it",
            file.path
        );
    }
}

#[test]
fn functions_are_short() {
    let mut lengths = Vec::new();
    for file in all_sources() {
        for (line, length) in file.functions() {
            assert!(
                length <= MAX_FUNCTION_LINES,
                "{}:{line} has {length} lines; split it",
                file.path
            );
            lengths.push(length);
        }
    }
    lengths.sort_unstable();
    let usual = lengths[lengths.len() * 95 / 100];
    assert!(
        usual <= USUAL_FUNCTION_LINES,
        "95 in 100 functions have up to {usual} lines; split some"
    );
}

#[test]
fn folders_are_small() {
    let mut files: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for file in all_sources() {
        let folder = Path::new(&file.path).parent().unwrap().to_owned();
        *files.entry(folder).or_default() += 1;
    }
    for (folder, count) in files {
        // `src` itself has one file per top-level module.
        let is_root = folder == Path::new("src");
        assert!(
            is_root || count <= MAX_FOLDER_FILES,
            "{} has {count} files; group them in subfolders",
            folder.display()
        );
    }
}

#[test]
fn files_do_not_import_each_other_in_a_cycle() {
    for package in packages() {
        let root = package.join("src");
        let files: Vec<Source> = all_sources()
            .into_iter()
            .filter(|file| Path::new(&file.path).starts_with(&root))
            .collect();
        assert!(!files.is_empty(), "{} has no sources", root.display());
        let cycle = Imports::between(&files).cycle();
        assert_eq!(
            cycle,
            None,
            "{}: these files import each other",
            root.display()
        );
    }
}

#[test]
fn every_file_has_a_header() {
    for file in all_sources() {
        assert!(
            file.text.starts_with("//! "),
            "{} has no `//!` line on top",
            file.path
        );
    }
}

/// Modules with a table of the implementations of one trait.
const TABLES: &[(&str, &str)] = &[
    ("crates/model-calls/src/dialect", "impl Dialect for"),
    ("src/policy", "impl Policy for"),
    ("src/protocol", "impl Protocol for"),
    ("src/transport", "impl Transport for"),
];

#[test]
fn every_dialect_policy_protocol_and_transport_is_registered() {
    for (module, implements) in TABLES {
        let root = fs::read_to_string(format!("{module}.rs")).unwrap();
        let table = &root[root.find("pub const ALL").unwrap()..];
        let table = &table[..table.find("];").unwrap()];
        for file in all_sources()
            .iter()
            .filter(|file| file.path.starts_with(module) && file.code.contains(implements))
        {
            let entry = format!("{}::", file.stem());
            assert!(
                table.contains(&entry),
                "{} is not in {module}::ALL",
                file.path
            );
        }
    }
}

#[test]
fn every_policy_has_its_page_its_example_and_its_test() {
    for file in sources() {
        if file.module != "policy" || !file.code.contains("PolicyKind::new::<") {
            continue;
        }
        let name = file.stem();
        if name == "policy" {
            continue;
        }
        for beside in [
            format!("docs/policies/{name}.md"),
            format!("config/examples/policies/{name}.yaml"),
            format!("config/examples/tests/policies/{name}.yaml"),
        ] {
            assert!(Path::new(&beside).exists(), "{} has no {beside}", file.path);
        }
    }
}

/// Rows of the threat model name tests of `tests/integration` as `folder::file::test`.
#[test]
fn every_threat_points_to_a_test() {
    let page = fs::read_to_string("docs/threat-model.md").unwrap();
    let (_, threats) = page.split_once("\n## Threats\n").unwrap();
    let (threats, _) = threats.split_once("\n## ").unwrap();
    let rows = threats.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter(|line| !line.starts_with("| threat "));
    let mut wrong = Vec::new();
    for row in rows {
        let (_, last) = row.trim_end_matches(" |").rsplit_once(" | ").unwrap();
        let tests: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() {
            wrong.push(format!("no test: {row}"));
        }
        let missing = tests.into_iter().filter(|test| !is_test(test));
        wrong.extend(missing.map(|test| format!("no such test: {test}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rows of the first table name tests of `claude_codex::reported_issues`.
#[test]
fn every_complaint_points_to_its_test() {
    let page = fs::read_to_string("docs/agents/complaints.md").unwrap();
    let (complaints, _) = page.split_once("\n## ").unwrap();
    let rows = complaints.lines().filter(|line| line.starts_with("| "));
    let mut count = 0;
    for row in rows.filter(|line| !line.starts_with("| complaint ")) {
        let test = row.trim_end_matches("` |").rsplit_once('`').unwrap().1;
        let path = format!("claude_codex::reported_issues::{test}");
        assert!(is_test(&path), "no such test: {row}");
        count += 1;
    }
    assert!(count > 10, "only {count} complaints");
}

fn is_test(path: &str) -> bool {
    let Some((module, name)) = path.rsplit_once("::") else {
        return false;
    };
    let file = format!("tests/integration/{}.rs", module.replace("::", "/"));
    let code = fs::read_to_string(file).unwrap_or_default();
    code.contains(&format!("fn {name}("))
}

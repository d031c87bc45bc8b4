//! Rules about pages that list parts of the code: they list all of them, and no others.

use std::{collections::BTreeSet, fs, path::Path};

use regex::Regex;

use crate::{
    LAYERS,
    source::{all_sources, files_of},
};

/// Files on one path from the proxy to the line that denies a tool call.
const MAX_PATH_FILES: usize = 7;

#[test]
fn the_table_of_modules_has_the_layers_of_the_code() {
    let page = fs::read_to_string("ARCHITECTURE.md").unwrap();
    let (_, table) = page.split_once("\n| layer | module |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let row = Regex::new(r"(?m)^\| (\d*) ?\| `(\w+)` \|").unwrap();
    let mut layer = 0;
    let listed: BTreeSet<(usize, String)> = row
        .captures_iter(table)
        .map(|row| {
            layer = row[1].parse().unwrap_or(layer);
            (layer, row[2].to_owned())
        })
        .collect();
    // Those of another crate, and the binary.
    let unlisted = ["dialect", "model", "main"];
    let layers = LAYERS.iter().enumerate();
    let layers = layers.flat_map(|(index, modules)| modules.iter().map(move |name| (index, *name)));
    let layers = layers.filter(|(_, name)| !unlisted.contains(name));
    let layers: BTreeSet<(usize, String)> = layers
        .map(|(index, name)| (index + 1, name.to_owned()))
        .collect();
    assert_eq!(listed, layers);
}

/// Each item of a list begins with its file, and this file has all code that the item quotes.
#[test]
fn the_paths_to_a_denied_tool_call_exist() {
    let page = fs::read_to_string("ARCHITECTURE.md").unwrap();
    let (_, section) = page.split_once("\n### From the README to").unwrap();
    let (section, _) = section.split_once("\n### ").unwrap();
    let item = Regex::new(r"(?m)^(\d+)\. `([^`]+)`: (.*)$").unwrap();
    let quoted = Regex::new("`([^`]+)`").unwrap();
    let (mut lists, mut wrong) = (0, Vec::new());
    for item in item.captures_iter(section) {
        let (number, file) = (item[1].parse::<usize>().unwrap(), &item[2]);
        lists += usize::from(number == 1);
        if number > MAX_PATH_FILES {
            wrong.push(format!("{file} is file {number} of its path"));
        }
        let code = fs::read_to_string(file).unwrap_or_default();
        for quoted in quoted.captures_iter(&item[3]) {
            let is_found = code.contains(&quoted[1]) || Path::new(&quoted[1]).is_file();
            if !is_found {
                wrong.push(format!("`{}` is not in {file}", &quoted[1]));
            }
        }
    }
    assert_eq!(lists, 2, "one list for hooks and one for policies");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A path may begin at any folder.
#[test]
fn the_files_that_guides_name_exist() {
    let folders = ["crates", "src", "tests"].map(Path::new);
    let files = folders.iter().flat_map(|folder| files_of(folder, &["rs"]));
    let files: Vec<String> = files.map(|file| format!("/{}", file.display())).collect();
    let quoted = Regex::new(r"`([\w./-]+\.rs)`").unwrap();
    let mut missing = Vec::new();
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(page).unwrap();
        for quoted in quoted.captures_iter(&text) {
            let end = format!("/{}", &quoted[1]);
            let is_found = files.iter().any(|file| file.ends_with(&end));
            // No file has this name, as the page states.
            if !is_found && &quoted[1] != "mod.rs" {
                missing.push(format!("{page} names {}", &quoted[1]));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn the_page_of_the_log_lists_every_message() {
    let page = fs::read_to_string("docs/logging.md").unwrap();
    let row = Regex::new(r"(?m)^\| (error|warn|info|debug) \| `+ ?(.+?) ?`+ \|").unwrap();
    let listed: BTreeSet<String> = row
        .captures_iter(&page)
        .map(|row| format!("{}: {}", &row[1], &row[2]))
        .collect();
    // The message is the last string of the call.
    let call = r#"\b(error|warn|info|debug|trace)!\((?:[^;"]|"(?:[^"\\]|\\.)*")*?"((?:[^"\\]|\\.)*)",?\s*\)"#;
    let call = Regex::new(call).unwrap();
    let mut logged = BTreeSet::new();
    for file in all_sources() {
        for call in call.captures_iter(&file.code) {
            logged.insert(format!("{}: {}", &call[1], &call[2]));
        }
    }
    let missing: Vec<&String> = logged.difference(&listed).collect();
    let unused: Vec<&String> = listed.difference(&logged).collect();
    assert!(
        missing.is_empty() && unused.is_empty(),
        "missing in docs/logging.md: {missing:#?}\nlogged nowhere: {unused:#?}"
    );
}

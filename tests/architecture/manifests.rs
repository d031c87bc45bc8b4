//! Rules about the manifests of the workspace: few dependencies, each with a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use crate::source::packages;

/// Maximum number of direct dependencies of hookgate, without the crates of the workspace.
/// `python3 tests/lines.py` prints the number.
const MAX_DIRECT_DEPENDENCIES: usize = 50;

#[test]
fn direct_dependencies_are_few() {
    let names = dependencies(&fs::read_to_string("Cargo.toml").unwrap());

    assert!(names.len() <= MAX_DIRECT_DEPENDENCIES, "{}", names.len());
}

#[test]
fn each_dependency_has_its_reason() {
    let packages = packages().into_iter();
    let manifests = packages.map(|package| package.join("Cargo.toml"));
    let (mut explained, mut used) = (BTreeSet::new(), BTreeMap::new());
    for manifest in manifests {
        for (name, reason) in dependencies(&fs::read_to_string(&manifest).unwrap()) {
            if reason.is_some() {
                explained.insert(name.clone());
            }
            used.insert(name, manifest.display().to_string());
        }
    }
    used.retain(|name, _| !explained.contains(name));
    assert!(used.is_empty(), "dependencies without a reason: {used:?}");
}

/// Returns the dependencies of a manifest with the comments behind them, without those that
/// are folders of the workspace.
fn dependencies(manifest: &str) -> Vec<(String, Option<String>)> {
    let lines = manifest.lines();
    let section = lines.skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = section.take_while(|line| !line.starts_with('['));
    let named = lines.filter_map(|line| line.split_once(" = "));
    let registered = named.filter(|(_, source)| !source.contains("path = "));
    let dependency = |(name, source): (&str, &str)| {
        let reason = source
            .split_once(" # ")
            .map(|(_, reason)| reason.to_owned());
        (name.to_owned(), reason)
    };
    registered.map(dependency).collect()
}

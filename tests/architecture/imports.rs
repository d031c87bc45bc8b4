//! Imports between files, with re-exports followed to the file that defines the item.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::source::Source;

type ModulePath = Vec<String>;

/// The import graph between the files of one crate.
pub struct Imports {
    edges: BTreeMap<ModulePath, BTreeSet<ModulePath>>,
}

/// An item by the module that names it. The item is empty for a module itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    module: ModulePath,
    item: String,
}

impl Target {
    /// The same item under the module that re-exports it.
    fn exported_by(&self, module: &[String]) -> Self {
        Self {
            module: module.to_vec(),
            item: self.item.clone(),
        }
    }
}

impl Imports {
    pub fn between(files: &[Source]) -> Self {
        let modules: BTreeSet<&ModulePath> = files.iter().map(|file| &file.module_path).collect();
        let statement = Regex::new(r"(pub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);").unwrap();
        let inline = Regex::new(r"\b(?:crate|super|self)(?:::\w+)+").unwrap();
        // Names a module without importing from it.
        let visibility = Regex::new(r"\bpub\(in [^)]*\)").unwrap();
        let mut named: BTreeMap<&ModulePath, Vec<Target>> = BTreeMap::new();
        let mut reexports: BTreeMap<Target, Target> = BTreeMap::new();
        for file in files {
            let from = &file.module_path;
            for captures in statement.captures_iter(&file.code) {
                let is_reexport = captures.get(1).is_some();
                let paths = expand(&captures[2]);
                let targets = paths
                    .iter()
                    .filter_map(|path| resolve(&modules, from, path));
                for target in targets {
                    let export = (target.exported_by(from), target.clone());
                    reexports.extend(is_reexport.then_some(export));
                    named.entry(from).or_default().push(target);
                }
            }
            let rest = statement.replace_all(&file.code, "");
            let rest = visibility.replace_all(&rest, "pub");
            for path in inline.find_iter(&rest) {
                named
                    .entry(from)
                    .or_default()
                    .extend(resolve(&modules, from, path.as_str()));
            }
        }
        let mut edges: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (from, targets) in named {
            let targets = targets
                .into_iter()
                .map(|target| defining(&reexports, target));
            let others = targets.filter(|module| module != from && !module.is_empty());
            edges.entry(from.clone()).or_default().extend(others);
        }
        Self { edges }
    }

    /// One path of files that leads back to its start, if there is any.
    pub fn cycle(&self) -> Option<Vec<String>> {
        let mut done = BTreeSet::new();
        self.edges.keys().find_map(|start| {
            let mut path = Vec::new();
            self.visit(start, &mut path, &mut done)
        })
    }

    fn visit<'a>(
        &'a self,
        module: &'a ModulePath,
        path: &mut Vec<&'a ModulePath>,
        done: &mut BTreeSet<&'a ModulePath>,
    ) -> Option<Vec<String>> {
        if let Some(start) = path.iter().position(|visited| *visited == module) {
            let files = path[start..].iter().chain([&module]);
            return Some(files.map(|file| file.join("::")).collect());
        }
        if done.contains(module) {
            return None;
        }
        path.push(module);
        let found = self
            .edges
            .get(module)
            .into_iter()
            .flatten()
            .find_map(|next| self.visit(next, path, done));
        path.pop();
        done.insert(module);
        found
    }
}

/// The module whose file defines the target, through all re-exports.
fn defining(reexports: &BTreeMap<Target, Target>, mut target: Target) -> ModulePath {
    let mut seen = BTreeSet::new();
    while let Some(next) = reexports.get(&target)
        && seen.insert(target.clone())
    {
        target = next.clone();
    }
    target.module
}

/// `None` for paths into other crates.
fn resolve(modules: &BTreeSet<&ModulePath>, from: &ModulePath, path: &str) -> Option<Target> {
    let path = path.split(" as ").next().unwrap_or_default();
    let mut segments: Vec<&str> = path.split("::").map(str::trim).collect();
    if segments.last() == Some(&"self") {
        segments.pop();
    }
    let mut module = from.clone();
    let mut at = 0;
    match segments.first().copied()? {
        "crate" => {
            module.clear();
            at = 1;
        }
        "self" => at = 1,
        "super" => {
            while segments.get(at) == Some(&"super") {
                module.pop();
                at += 1;
            }
        }
        child => {
            let mut inside = from.clone();
            inside.push(child.to_owned());
            if !modules.contains(&inside) {
                return None;
            }
        }
    }
    while let Some(segment) = segments.get(at) {
        module.push((*segment).to_owned());
        if !modules.contains(&module) {
            module.pop();
            break;
        }
        at += 1;
    }
    let item = segments.get(at).copied().unwrap_or_default().to_owned();
    Some(Target { module, item })
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`.
fn expand(tree: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for branch in split_top_level(tree) {
        let branch = branch.trim();
        match branch.split_once('{') {
            Some((prefix, group)) => {
                let group = group.trim_end().trim_end_matches('}');
                let inner = expand(group).into_iter();
                paths.extend(inner.map(|path| format!("{prefix}{path}")));
            }
            None if branch.is_empty() => (),
            None => paths.push(branch.to_owned()),
        }
    }
    paths
}

fn split_top_level(tree: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0_usize, 0);
    let mut branches = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                branches.push(&tree[start..at]);
                start = at + 1;
            }
            _ => (),
        }
    }
    branches.push(&tree[start..]);
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(module_path: &[&str], code: &str) -> Source {
        Source {
            path: module_path.join("/"),
            module: module_path.first().copied().unwrap_or("lib").to_owned(),
            module_path: module_path
                .iter()
                .map(|segment| (*segment).to_owned())
                .collect(),
            text: code.to_owned(),
            code: code.to_owned(),
        }
    }

    #[test]
    fn a_child_that_imports_an_item_of_its_parent_is_a_cycle() {
        let files = [
            file(&["a"], "mod b;\nuse self::b::Part;\npub struct Whole;"),
            file(&["a", "b"], "use super::Whole;\npub struct Part;"),
        ];

        let cycle = Imports::between(&files).cycle().unwrap();

        assert_eq!(cycle, ["a", "a::b", "a"]);
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_item() {
        let files = [
            file(&["a"], "mod b;\nmod c;\npub use self::{b::Part, c::Other};"),
            file(&["a", "b"], "pub struct Part;"),
            file(&["a", "c"], "use super::Part;\npub struct Other;"),
        ];

        assert!(Imports::between(&files).cycle().is_none());
    }
}

//! Source files as text, split into what the rules look at.

use std::{
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

/// A source file of the package or of a workspace crate.
pub struct Source {
    pub path: String,
    /// The first segment of its module path, or the crate's name.
    pub module: String,
    /// Its module path within its crate, such as `["hook", "plan"]`.
    pub module_path: Vec<String>,
    pub text: String,
    /// `text` without line comments and without an inline `mod tests`.
    pub code: String,
}

impl Source {
    fn read(path: &Path, root: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let inside = path.strip_prefix(root).unwrap().with_extension("");
        let mut module_path: Vec<String> = inside
            .iter()
            .map(|segment| segment.to_str().unwrap().to_owned())
            .collect();
        if module_path == ["lib"] {
            module_path.clear();
        }
        let module = module_path.first().cloned();
        let code = without_comments(&without_inline_tests(&text));
        Self {
            path: path.to_str().unwrap().to_owned(),
            module: module.unwrap_or_else(|| "lib".to_owned()),
            module_path,
            text,
            code,
        }
    }

    /// The file's name without folders and extension.
    pub fn stem(&self) -> &str {
        Path::new(&self.path).file_stem().unwrap().to_str().unwrap()
    }

    /// The top-level modules it names, with their lines. `main` is a crate of its own.
    pub fn imported_modules(&self) -> impl Iterator<Item = (usize, String)> {
        let root = if self.module == "main" {
            "hookgate"
        } else {
            "crate"
        };
        self.segments_after(root)
    }

    /// Every segment that follows `root::`, with its line, groups included.
    pub fn segments_after(&self, root: &str) -> impl Iterator<Item = (usize, String)> {
        let start = format!("{root}::");
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices(&start) {
            let before = &self.code[..at];
            if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let line = before.matches('\n').count() + 1;
            let rest = &self.code[at + start.len()..];
            let segments = match rest.strip_prefix('{') {
                Some(group) => first_segments(group),
                None => vec![ident(rest)],
            };
            found.extend(segments.into_iter().map(|segment| (line, segment)));
        }
        found.into_iter()
    }

    /// The first line of each function with a body, and its number of lines.
    pub fn functions(&self) -> Vec<(usize, usize)> {
        let head = r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?fn \w";
        let head = Regex::new(head).unwrap();
        let mut functions = Vec::new();
        let mut open = None;
        for (index, line) in self.code.lines().enumerate() {
            if let Some(head) = head.captures(line) {
                open = Some((index, format!("{}}}", &head[1])));
            }
            let Some((start, end)) = &open else { continue };
            let is_one_line = *start == index && line.ends_with('}');
            if is_one_line || line == end {
                functions.push((start + 1, index + 1 - start));
                open = None;
            }
        }
        functions
    }

    /// The comment of each line that has nothing else, with its line number.
    pub fn comments(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines.filter_map(|(index, line)| {
            let comment = line.trim_start().strip_prefix("//")?;
            Some((index + 1, comment.trim_start_matches(['/', '!']).trim()))
        })
    }
}

/// Every source file of the package, except out-of-line tests.
pub fn sources() -> Vec<Source> {
    sources_of(Path::new("src"))
}

/// The same for the package and all crates of the workspace.
pub fn all_sources() -> Vec<Source> {
    let roots = packages().into_iter().map(|package| package.join("src"));
    roots.flat_map(|root| sources_of(&root)).collect()
}

/// Folders of the package and of the workspace's crates.
pub fn packages() -> Vec<PathBuf> {
    let crates = fs::read_dir("crates").unwrap();
    let mut packages: Vec<PathBuf> = crates.map(|entry| entry.unwrap().path()).collect();
    packages.push(PathBuf::new());
    packages.sort();
    packages
}

/// Files of tests, benchmarks and fuzz targets.
pub fn test_sources() -> Vec<Source> {
    let root = Path::new("");
    let folders = ["benches", "crates", "fuzz/src", "src", "tests"];
    let files = folders.iter().flat_map(|folder| {
        let has_only_tests = ["benches", "fuzz/src"].contains(folder);
        let files = files_of(Path::new(folder), &["rs"]).into_iter();
        files.filter(move |file| has_only_tests || is_test(file))
    });
    files.map(|file| Source::read(&file, root)).collect()
}

fn sources_of(root: &Path) -> Vec<Source> {
    let files = files_of(root, &["rs"]).into_iter();
    let files = files.filter(|file| !is_test(file.strip_prefix(root).unwrap()));
    files.map(|file| Source::read(&file, root)).collect()
}

fn is_test(path: &Path) -> bool {
    path.iter()
        .any(|name| name == "tests" || name == "tests.rs")
}

/// Files of a folder and its subfolders that have one of these extensions.
pub fn files_of(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            files.extend(files_of(&path, extensions));
        } else if extension.is_some_and(|extension| extensions.contains(&extension)) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn without_inline_tests(text: &str) -> String {
    let Some((before, tests)) = text.split_once("#[cfg(test)]\nmod tests {") else {
        return text.to_owned();
    };
    let (_, after) = tests.split_once("\n}\n").unwrap_or_default();
    format!("{before}{after}")
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| {
        if line.trim_start().starts_with("//") {
            return "";
        }
        // A URL in a string has no blank before its slashes.
        line.split(" //").next().unwrap().trim_end()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The first segments of `a::b, c::{d, e}, f};...`: `a`, `c`, `f`.
fn first_segments(group: &str) -> Vec<String> {
    let mut segments = Vec::new();
    let (mut depth, mut is_start) = (0_usize, true);
    for (at, c) in group.char_indices() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            c if is_start && depth == 0 && (c.is_alphanumeric() || c == '_') => {
                segments.push(ident(&group[at..]));
                is_start = false;
            }
            _ => (),
        }
    }
    segments
}

fn ident(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

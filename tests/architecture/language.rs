//! Rules about words: what a reader greps for, and what only its author understands.

use std::{collections::BTreeMap, fs, path::Path};

use regex::Regex;

use crate::source::{Source, all_sources, files_of, test_sources};

/// Words that describe code as people, buildings or speech.
const METAPHORS: &[&str] = &[
    "anybody",
    "anyone",
    "door",
    "doors",
    "everybody",
    "fate",
    "floor",
    "floors",
    "forbid",
    "forget",
    "forgets",
    "forgot",
    "forgotten",
    "hands",
    "heart",
    "house",
    "judge",
    "judged",
    "judgement",
    "judges",
    "judging",
    "knew",
    "know",
    "knows",
    "nobody",
    "obey",
    "patience",
    "remember",
    "remembered",
    "remembers",
    "room",
    "rooms",
    "said",
    "say",
    "saying",
    "says",
    "somebody",
    "someone",
    "stand",
    "stands",
    "stranger",
    "strangers",
    "tell",
    "telling",
    "tells",
    "told",
    "whoever",
    "wish",
];

/// `(file, word, why it is the right word there)`.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "crates/mock-model-api/src/lib.rs",
    "said",
    "the mock's own answer in a doc example",
)];

/// Words that begin neither a statement about behaviour nor a noun phrase.
const QUESTION_WORDS: &[&str] = &[
    "how", "what", "when", "where", "whether", "which", "who", "why",
];

/// Doc comments of so few words repeat the name they document.
const MIN_DOC_WORDS: usize = 4;

fn is_exception(path: &str, word: &str) -> bool {
    EXCEPTIONS
        .iter()
        .any(|(file, exception, _)| *file == path && *exception == word)
}

#[test]
fn comments_and_identifiers_have_no_metaphors() {
    let quoted = Regex::new("`[^`]*`").unwrap();
    let word = Regex::new(r"[A-Za-z]+").unwrap();
    let defined =
        Regex::new(r"\b(?:fn|struct|enum|trait|type|const|mod|let|let mut)\s+(\w+)").unwrap();
    let part = Regex::new(r"[A-Z]+(?:[^a-z]|$)|[A-Z]?[a-z]+").unwrap();
    let mut wrong = Vec::new();
    for file in all_sources().into_iter().chain(test_sources()) {
        let mut check = |line: Option<usize>, found: &str| {
            let found = found.to_lowercase();
            if METAPHORS.contains(&found.as_str()) && !is_exception(&file.path, &found) {
                let line = line.map_or_else(String::new, |line| format!(":{line}"));
                wrong.push(format!("{}{line} `{found}`", file.path));
            }
        };
        for (line, comment) in file.comments() {
            let comment = quoted.replace_all(comment, "");
            for found in word.find_iter(&comment) {
                check(Some(line), found.as_str());
            }
        }
        for name in defined.captures_iter(&file.code) {
            for found in part.find_iter(&name[1]) {
                check(None, found.as_str());
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "use the field's terms (docs/style.md):\n{}",
        wrong.join("\n")
    );
}

/// Descriptions in the schema and the `OpenAPI` document come from doc comments.
#[test]
fn comments_of_shipped_files_have_no_metaphors() {
    let quoted = Regex::new("`[^`]*`").unwrap();
    let word = Regex::new(r"[A-Za-z]+").unwrap();
    let extensions = ["md", "nft", "py", "sh", "toml", "yaml", "yml"];
    let folders = ["config", "deploy", "docker"].iter();
    let files = folders.flat_map(|folder| files_of(Path::new(folder), &extensions));
    let mut wrong = Vec::new();
    for path in files {
        let name = path.to_str().unwrap();
        for (line, prose) in prose_of(&path) {
            let prose = quoted.replace_all(&prose, "").to_lowercase();
            let words = word.find_iter(&prose).map(|found| found.as_str());
            let words = words.filter(|word| METAPHORS.contains(word) && !is_exception(name, word));
            wrong.extend(words.map(|word| format!("{name}:{line} `{word}`")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The lines of a page, or the comments after `#` of any other file, with their numbers.
fn prose_of(path: &Path) -> Vec<(usize, String)> {
    let comment = Regex::new("(?:^|\\s)#(.*)").unwrap();
    let is_page = path.extension().is_some_and(|extension| extension == "md");
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().enumerate();
    let lines = lines.filter_map(|(index, line)| {
        let prose = if is_page {
            Some(line)
        } else {
            comment
                .captures(line)
                .and_then(|found| Some(found.get(1)?.as_str()))
        };
        Some((index + 1, prose?.to_owned()))
    });
    lines.collect()
}

#[test]
fn test_names_are_statements() {
    let test = r"#\[(?:tokio::)?test[^\]]*\]\s+(?:#\[[^\]]*\]\s+)*(?:async )?fn ([a-z]+)_(\w*)";
    let test = Regex::new(test).unwrap();
    for file in all_sources().into_iter().chain(test_sources()) {
        for name in test.captures_iter(&file.text) {
            let (first, rest) = (&name[1], &name[2]);
            assert!(
                !QUESTION_WORDS.contains(&first),
                "{}: `{first}_{rest}`: name the behaviour",
                file.path
            );
        }
    }
}

#[test]
fn closure_arguments_have_names() {
    let nameless = Regex::new(r"[(=,] ?(?:move )?\|(?:[^|]*\W)?it\b[^|]*\|").unwrap();
    let mut wrong = Vec::new();
    for file in all_sources().into_iter().chain(test_sources()) {
        for (index, line) in file.text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            if !is_comment && nameless.is_match(line) {
                wrong.push(format!("{}:{} {}", file.path, index + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let mut wrong = Vec::new();
    for file in all_sources().into_iter().chain(test_sources()) {
        let mut is_continued = false;
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
            let first = comment.and_then(|comment| comment.split_whitespace().next());
            let first = first.map(str::to_lowercase);
            if !is_continued && first.is_some_and(|first| QUESTION_WORDS.contains(&&*first)) {
                wrong.push(format!("{}:{} {line}", file.path, index + 1));
            }
            is_continued = comment.is_some();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn doc_comments_add_to_the_name() {
    let mut wrong = Vec::new();
    for file in all_sources().into_iter().chain(test_sources()) {
        for marker in ["///", "//!"] {
            for (line, text) in comment_blocks(&file, marker) {
                if text.split_whitespace().count() < MIN_DOC_WORDS {
                    wrong.push(format!("{}:{line} {text}", file.path));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "doc comments that repeat the name:\n{}",
        wrong.join("\n")
    );
}

/// Texts of adjacent lines that begin with `marker`, with the number of the first.
fn comment_blocks(file: &Source, marker: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut is_continued = false;
    for (index, line) in file.text.lines().enumerate() {
        let text = line.trim_start().strip_prefix(marker);
        match (text, blocks.last_mut()) {
            (Some(text), Some((_, block))) if is_continued => block.push_str(text),
            (Some(text), _) => blocks.push((index + 1, text.trim_start().to_owned())),
            (None, _) => (),
        }
        is_continued = text.is_some();
    }
    blocks
}

#[test]
fn type_names_are_defined_once() {
    // An indented enum is that of a macro call.
    let definition =
        r"(?m)^(?:(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type|union)| +pub.* enum) (\w+)";
    let definition = Regex::new(definition).unwrap();
    let mut files: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for file in all_sources() {
        let package = file.path.split("src/").next().unwrap_or_default();
        for name in definition.captures_iter(&file.code) {
            let key = (package.to_owned(), name[1].to_owned());
            files.entry(key).or_default().push(file.path.clone());
        }
    }
    let twice = files.iter().filter(|(_, paths)| paths.len() > 1);
    let twice: Vec<String> = twice
        .map(|((_, name), paths)| format!("{name}: {}", paths.join(", ")))
        .collect();
    assert!(
        twice.is_empty(),
        "one type name is one thing:\n{}",
        twice.join("\n")
    );
}

//! Cases of proofs: positions, and paths of files.

use std::path::Path;

use serde_json::{Value, json};

use super::{loader::Loader, pointers::matching};
use crate::config::{
    settings::proofs::PROOF_KEYS,
    spanned_yaml::{SpannedYaml, span_to_value},
};

/// JSON pointer patterns of the policies and hooks in a document.
const GUARDS: &[&str] = &["/policies/*", "/hooks/*/*/hooks/*"];

impl Loader {
    /// Completes the cases of a document for deserialization: each gets its position.
    /// Files of cases are watched for changes.
    pub(super) fn annotate_proofs(&mut self, document: &SpannedYaml, value: &mut Value) {
        let guards = GUARDS.iter().flat_map(|guards| matching(value, guards));
        let lists = guards.flat_map(|guard| PROOF_KEYS.map(|key| format!("{guard}/{key}/*")));
        let entries: Vec<String> = lists.flat_map(|list| matching(value, &list)).collect();
        for pointer in entries {
            if let Some(entry) = value.pointer_mut(&pointer) {
                self.annotate_proof(document, &pointer, entry);
            }
        }
    }

    fn annotate_proof(&mut self, document: &SpannedYaml, pointer: &str, entry: &mut Value) {
        let position = document.span(pointer);
        let span = span_to_value(&position);
        match entry {
            Value::String(path) => {
                let directory = position.file.parent().unwrap_or(Path::new(""));
                let path = directory.join(&*path);
                if !self.files.contains(&path) {
                    self.files.push(path.clone());
                }
                let outside = self.outside_of_bundle(&path, &position);
                // The proof reports a file that cannot be read.
                let text = match outside {
                    None => self.read_text(&path).ok(),
                    Some(_) => None,
                };
                self.problems.extend(outside);
                self.case_texts.extend(text.clone());
                *entry = json!({ "file": { "path": path, "text": text, "span": span } });
            }
            Value::Object(case) => {
                case.insert("span".to_owned(), span);
                *entry = json!({ "case": case });
            }
            // The validation has reported it.
            _ => (),
        }
    }
}

//! Documents that are appended to others: lists are joined, and mappings merged.

use serde_json::Value;

use super::{Position, SpannedYaml, YamlContent, YamlNode};
use crate::config::source_span::Problem;

impl SpannedYaml {
    /// Appends another document: the items of its lists follow those of this one, and the keys
    /// of its mappings are added. Returns a problem for each setting that both have.
    pub(crate) fn append(&mut self, mut other: Self) -> Vec<Problem> {
        let mut problems = other.duplicates();
        let offset = self.files.len();
        other.root.shift_files(offset);
        self.files.append(&mut other.files);
        let mut conflicts = Vec::new();
        self.root.append(other.root, &mut conflicts);
        problems.extend(conflicts.into_iter().map(|conflict| {
            let first = conflict.first.in_files(&self.files);
            let message = format!("`{}` is already set at {first}", conflict.key);
            Problem::at(&conflict.second.in_files(&self.files), message)
        }));
        problems
    }
}

/// A setting that two documents have.
struct Conflict {
    key: String,
    first: Position,
    second: Position,
}

impl YamlNode {
    fn shift_files(&mut self, offset: usize) {
        self.position.file += offset;
        match &mut self.content {
            YamlContent::Leaf(_) => (),
            YamlContent::List(items) => {
                for item in items.iter_mut() {
                    item.shift_files(offset);
                }
            }
            YamlContent::Map(entries) => {
                for entry in entries {
                    entry.key_position.file += offset;
                    entry.value.shift_files(offset);
                }
            }
        }
    }

    /// Appends another node. Returns whether that is possible.
    fn append(&mut self, other: Self, conflicts: &mut Vec<Conflict>) -> bool {
        match (&mut self.content, other.content) {
            // An empty document, or a key without a value.
            (YamlContent::Leaf(Value::Null), content) => {
                self.content = content;
                self.position = other.position;
            }
            (_, YamlContent::Leaf(Value::Null)) => (),
            (YamlContent::List(items), YamlContent::List(more)) => items.extend(more),
            (YamlContent::Map(entries), YamlContent::Map(more)) => {
                for entry in more {
                    let mut entries_before = entries.iter_mut();
                    let Some(before) = entries_before.find(|before| before.key == entry.key) else {
                        entries.push(entry);
                        continue;
                    };
                    let (first, second) = (before.key_position, entry.key_position);
                    if !before.value.append(entry.value, conflicts) {
                        let key = entry.key;
                        conflicts.push(Conflict { key, first, second });
                    }
                }
            }
            _ => return false,
        }
        true
    }
}

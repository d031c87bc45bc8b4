//! Warnings about YAML tags without an effect.

use std::path::PathBuf;

use super::{SpannedYaml, YamlContent, YamlNode};
use crate::config::source_span::Problem;

/// Prefix of the tags that YAML defines (YAML 1.2.2, section 3.2.1.2).
const CORE_PREFIX: &str = "tag:yaml.org,2002:";

/// Names of the tags with an effect, or that are refused where they are not possible. The empty one
/// is that of `!`, which makes a text of a value.
const EFFECTIVE_TAGS: [&str; 11] = [
    "",
    "binary",
    "bool",
    "float",
    "int",
    "map",
    "merge",
    "null",
    "seq",
    "str",
    "timestamp",
];

impl SpannedYaml {
    /// Returns a warning for each tag that is ignored.
    pub(crate) fn ignored_tags(&self) -> Vec<Problem> {
        let mut warnings = Vec::new();
        self.root.ignored_tags(&self.files, &mut warnings);
        warnings
    }
}

impl YamlNode {
    fn ignored_tags(&self, files: &[PathBuf], warnings: &mut Vec<Problem>) {
        let mut check = |tag: &Option<String>, position: super::Position| {
            if let Some(tag) = tag.as_deref().filter(|tag| !is_effective(tag)) {
                let tag = match tag.strip_prefix(CORE_PREFIX) {
                    Some(name) => format!("!!{name}"),
                    None => tag.to_owned(),
                };
                let message = format!("the YAML tag `{tag}` is unknown, and has no effect");
                warnings.push(Problem::at(&position.in_files(files), message));
            }
        };
        check(&self.tag, self.position);
        match &self.content {
            YamlContent::Leaf(_) => (),
            YamlContent::List(items) => {
                for item in items {
                    item.ignored_tags(files, warnings);
                }
            }
            YamlContent::Map(entries) => {
                for entry in entries {
                    check(&entry.key_tag, entry.key_position);
                }
                for entry in entries {
                    entry.value.ignored_tags(files, warnings);
                }
            }
        }
    }
}

fn is_effective(tag: &str) -> bool {
    let name = tag
        .strip_prefix(CORE_PREFIX)
        .or_else(|| tag.strip_prefix('!'));
    name.is_some_and(|name| EFFECTIVE_TAGS.contains(&name))
}

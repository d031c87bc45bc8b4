//! Texts of the files that a config was loaded from.

use std::{
    collections::BTreeMap,
    path::{Path, absolute},
};

use serde::{Deserialize, Serialize};

/// Texts of the config file, its hook files and its case files. Files of secrets and
/// certificates are not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFiles {
    /// Text of the config file; empty with a config of the command line.
    pub(super) config: String,
    /// Texts of other files by path: relative to the directory of the config file, or absolute
    /// if the file is elsewhere.
    others: BTreeMap<String, String>,
}

impl ConfigFiles {
    /// A config file that names no others.
    pub fn of_config(text: String) -> Self {
        Self {
            config: text,
            others: BTreeMap::new(),
        }
    }

    /// Returns whether there is no file, as with a config of the command line.
    pub fn is_empty(&self) -> bool {
        self.config.is_empty()
    }

    /// Returns the text of another file of the config in `directory`.
    pub(super) fn get(&self, path: &Path, directory: &Path) -> Option<&str> {
        self.others.get(&name(path, directory)).map(String::as_str)
    }

    pub(super) fn insert(&mut self, path: &Path, directory: &Path, text: &str) {
        self.others.insert(name(path, directory), text.to_owned());
    }
}

fn name(path: &Path, directory: &Path) -> String {
    let name = match path.strip_prefix(directory) {
        Ok(relative) => relative.to_owned(),
        Err(_) => absolute(path).unwrap_or_else(|_| path.to_owned()),
    };
    name.to_string_lossy().into_owned()
}

//! The folder in which configs that were in use are kept.

pub(in crate::config) mod source;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::schema::scalars::FilePathSchema;

/// The folder in which configs that were in use are kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Revisions")]
pub struct RevisionSettings {
    /// Path of the folder. It is created if its parent exists.
    #[schemars(with = "FilePathSchema")]
    pub path: PathBuf,
    /// Number of revisions to keep.
    #[serde(default = "default_keep")]
    #[schemars(range(min = 2, max = 1000))]
    pub keep: usize,
}

const fn default_keep() -> usize {
    50
}

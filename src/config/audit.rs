//! The decision log.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The decision log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The file that lines are added to. Absolute.
    pub path: PathBuf,
    /// Whether calls wait for it.
    pub mode: AuditMode,
    /// Whether lines hold what was said, and not only its hash.
    pub content: bool,
    /// When a file is full, and how many are kept.
    pub rotate: Rotation,
}

/// Whether calls wait for the decision log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditMode {
    /// No call goes upstream, and no denial is told, before it is on the disk;
    /// while that cannot be, calls are refused.
    #[default]
    Durable,
    /// Nobody waits, and lines may be lost.
    BestEffort,
}

/// When a file is full, and how many are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// The most bytes of a file, unless one line is longer.
    pub size: u64,
    /// How many full files are kept. Not zero.
    pub keep: usize,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            size: 100 * 1024 * 1024,
            keep: 10,
        }
    }
}

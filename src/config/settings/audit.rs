//! Settings of the audit log: its files, durability and rotation.

pub(crate) mod sink;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::sink::AuditSinkSettings;
use crate::config::{
    schema::scalars::{CountSchema, FilePathSchema},
    units::Size,
};

/// The audit log: a record of requests, events and decisions.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Audit")]
pub struct AuditSettings {
    /// Path of the file, in an existing directory. Rotated files are put beside it.
    #[schemars(with = "FilePathSchema")]
    pub path: PathBuf,
    /// Durability of records. With `durable`, calls wait until their records are written, and are
    /// refused if writing fails.
    #[serde(default)]
    pub mode: AuditMode,
    /// Record the content of requests and responses, not only its hash.
    #[serde(default)]
    pub content: bool,
    /// Rotation of the file.
    #[serde(default)]
    pub rotate: Rotation,
    /// An HTTP endpoint to which the written lines are sent. Default: none.
    #[serde(default)]
    pub sink: Option<AuditSinkSettings>,
}

/// Durability of log records before calls proceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditMode {
    /// No call is sent upstream, and no denial is returned, before its record is on
    /// disk. Calls are refused while records cannot be written.
    #[default]
    Durable,
    /// Calls do not wait, and records may be lost.
    BestEffort,
}

/// Rotation of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rotation {
    /// Maximum size of a file, unless a single record is larger.
    #[serde(with = "Size")]
    pub size: u64,
    /// Number of rotated files to keep.
    #[schemars(with = "CountSchema")]
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

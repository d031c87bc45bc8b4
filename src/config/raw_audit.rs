//! The decision log as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    AuditMode, AuditSettings, Rotation,
    raw::RawPath,
    units::{Count, Size},
};

/// The decision log: what was fired, asked, refused and told.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Audit")]
pub(super) struct RawAudit {
    /// The file; full ones lie beside it. Its folder must exist.
    #[expect(dead_code, reason = "resolved from where it stands, with its place")]
    path: RawPath,
    /// Whether calls wait until they are written down, and are refused if they
    /// cannot be.
    #[serde(default)]
    mode: AuditMode,
    /// Whether lines hold what was said, and not only its hash.
    #[serde(default)]
    content: bool,
    /// When a file is full, and how many are kept.
    #[serde(default)]
    rotate: RawRotation,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Rotation")]
struct RawRotation {
    /// The most that a file holds.
    size: Size,
    /// How many full files are kept.
    keep: Count,
}

impl Default for RawRotation {
    fn default() -> Self {
        Self {
            size: Size::mib(100),
            keep: Count(10),
        }
    }
}

impl RawAudit {
    /// With the file that `path` means.
    pub(super) fn checked(self, path: PathBuf) -> AuditSettings {
        AuditSettings {
            path,
            mode: self.mode,
            content: self.content,
            rotate: Rotation {
                size: self.rotate.size.0 as u64,
                keep: self.rotate.keep.0,
            },
        }
    }
}

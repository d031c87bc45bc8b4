//! Settings of recordings: which exchanges are recorded, where, and what is masked.

use std::path::PathBuf;

use age_file::Recipient;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::config::{
    schema::scalars::{AgeRecipientSchema, CountSchema, FilePathSchema},
    units::Size,
};

/// Recordings of exchanges with their content, for replays.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Record")]
pub struct RecordSettings {
    /// Folder of the segments. It is created if it is missing.
    #[schemars(with = "FilePathSchema")]
    pub path: PathBuf,
    /// Exchanges that are recorded.
    #[serde(default)]
    pub what: RecordSelection,
    /// Masking of secrets before anything is written.
    #[serde(default)]
    pub redact: RecordRedaction,
    /// Keys that recordings are encrypted to: age recipients. Default: they are not encrypted.
    #[serde(default, deserialize_with = "recipients")]
    #[schemars(with = "Vec<AgeRecipientSchema>", extend("minItems" = 1))]
    pub encrypt_to: Vec<Recipient>,
    /// Age and size at which segments are removed.
    #[serde(default)]
    pub keep: RecordRetention,
}

/// Exchanges that are recorded.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecordSelection {
    /// Share of sessions, or of calls, that are recorded, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0), extend("errorMessage" = "must be a share from 0 to 1"))]
    pub sample: f64,
    /// Names of the callers whose exchanges are recorded. Default: all.
    #[schemars(extend("minItems" = 1))]
    pub callers: Option<Vec<String>>,
    /// Unit of the sample.
    pub sessions: SampleUnit,
    /// Outcomes that are recorded.
    pub only: Vec<RecordedKind>,
}

/// Unit of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SampleUnit {
    /// All calls of a session or none.
    #[default]
    Whole,
    /// Each call by itself.
    Calls,
}

/// Outcome of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordedKind {
    /// Every exchange, whatever its outcome.
    All,
    /// The call or a tool call was denied.
    Denied,
    /// The request or the response was edited, or a hook answered.
    Edited,
}

/// Detectors and patterns whose matches are masked in recordings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordRedaction {
    /// All detectors, and the patterns of `redact` policies.
    #[default]
    All,
    /// Nothing; secrets are written as they are.
    None,
}

/// Age and size at which segments are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecordRetention {
    /// Days after which a segment is removed.
    #[schemars(with = "CountSchema")]
    pub days: u32,
    /// Size of all segments, above which the oldest are removed.
    #[serde(with = "Size")]
    pub size: u64,
}

impl Default for RecordSelection {
    fn default() -> Self {
        Self {
            sample: 1.0,
            callers: None,
            sessions: SampleUnit::default(),
            only: vec![RecordedKind::All],
        }
    }
}

impl Default for RecordRetention {
    fn default() -> Self {
        Self {
            days: 14,
            size: 20 * 1024 * 1024 * 1024,
        }
    }
}

fn recipients<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Recipient>, D::Error> {
    let texts: Vec<String> = Vec::deserialize(deserializer)?;
    let keys = texts.iter().map(|text| text.parse());
    keys.collect::<Result<_, _>>().map_err(D::Error::custom)
}

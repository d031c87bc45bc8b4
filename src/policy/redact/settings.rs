//! The settings of `redact`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::SecretString;
use serde::Deserialize;
use stream_redact::{DETECTORS, Mask, MaskError, Style};
use uuid::Uuid;

use crate::{
    config::{Format, Secret},
    dialect::TextKind,
};

/// Name under which a pattern is compiled to check it.
const CHECKED_PATTERN: &str = "checked";

/// Schema format of custom patterns.
pub(in crate::policy) const FORMAT: Format = Format {
    name: "mask-pattern",
    check: |text| {
        let mask = Mask::new(&[], &[(CHECKED_PATTERN, text)], &Style::Label);
        mask.map(drop).map_err(|error| pattern_error(&error))
    },
};

/// Masks, hashes or denies secrets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Redact")]
pub(super) struct RedactSettings {
    /// Detectors to use; all if absent.
    #[serde(default = "all_detectors")]
    detect: BTreeSet<DetectorName>,
    /// Custom detectors: regular expressions by name.
    #[serde(default)]
    patterns: BTreeMap<String, MaskPattern>,
    /// Content to search; all if absent.
    #[serde(default = "all_scopes")]
    pub(super) on: BTreeSet<RedactionScope>,
    /// Action on a match.
    #[serde(default)]
    pub(super) action: RedactionMode,
    /// Key of the hashes, which keeps them stable over restarts and equal on other
    /// machines; a random key per load if absent.
    key: Option<Secret>,
    /// Reason of a denial; a sentence that names the detectors if absent.
    pub(super) reason: Option<String>,
}

/// Content in which secrets are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Side")]
pub(super) enum RedactionScope {
    /// Texts of users and models in requests.
    Request,
    /// Texts and thoughts of models in responses.
    Answer,
    /// Arguments of tool calls, in responses, requests and `BeforeTool` events.
    ToolCalls,
    /// Results of tools, in requests and `AfterTool` events.
    ToolResults,
}

impl RedactionScope {
    /// The scope of a text in a request.
    pub(super) const fn from_request_text(kind: TextKind) -> Self {
        match kind {
            TextKind::Speech => Self::Request,
            TextKind::ToolCall => Self::ToolCalls,
            TextKind::ToolResult => Self::ToolResults,
        }
    }

    /// The scope of a text in a response.
    pub(super) const fn from_response_text(kind: TextKind) -> Self {
        match kind {
            TextKind::Speech => Self::Answer,
            TextKind::ToolCall => Self::ToolCalls,
            TextKind::ToolResult => Self::ToolResults,
        }
    }
}

/// Action on a match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Action")]
pub(super) enum RedactionMode {
    /// Replaces the match by `[REDACTED:<detector>]`.
    #[default]
    Mask,
    /// Replaces the match by a label with a keyed hash, so that equal secrets stay
    /// comparable.
    Hash,
    /// Denies the request, call or response.
    Deny,
}

/// The name of a detector.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct DetectorName(String);

impl JsonSchema for DetectorName {
    fn schema_name() -> Cow<'static, str> {
        "Detector".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = DETECTORS.iter().map(|detector| detector.name).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "MaskPattern", with = "String", extend("format" = "mask-pattern"))]
struct MaskPattern(String);

fn all_detectors() -> BTreeSet<DetectorName> {
    let names = DETECTORS.iter().map(|detector| detector.name.to_owned());
    names.map(DetectorName).collect()
}

fn all_scopes() -> BTreeSet<RedactionScope> {
    [
        RedactionScope::Request,
        RedactionScope::Answer,
        RedactionScope::ToolCalls,
        RedactionScope::ToolResults,
    ]
    .into()
}

impl RedactSettings {
    /// Returns whether there is nothing to search for, or no content to search.
    pub(super) fn is_idle(&self) -> bool {
        self.detect.is_empty() && self.patterns.is_empty() || self.on.is_empty()
    }

    /// Compiles the detectors and patterns.
    pub(super) fn mask(&self) -> Result<Mask, MaskError> {
        let detectors: Vec<&str> = self.detect.iter().map(|name| name.0.as_str()).collect();
        let patterns = self.patterns.iter();
        let patterns = patterns.map(|(name, pattern)| (name.as_str(), pattern.0.as_str()));
        let patterns: Vec<(&str, &str)> = patterns.collect();
        let key = self.key.clone().map(SecretString::from);
        let style = match self.action {
            RedactionMode::Hash => {
                Style::Hash(key.unwrap_or_else(|| Uuid::new_v4().to_string().into()))
            }
            RedactionMode::Mask | RedactionMode::Deny => Style::Label,
        };
        Mask::new(&detectors, &patterns, &style)
    }
}

/// The error of a pattern without its name, which follows from its position.
fn pattern_error(error: &MaskError) -> String {
    let message = error.to_string();
    let prefix = format!("pattern `{CHECKED_PATTERN}`");
    let reason = message.strip_prefix(&prefix).unwrap_or(&message);
    let reason = reason.trim_start_matches([',', ':', ' ']);
    format!("cannot be used: {reason}")
}

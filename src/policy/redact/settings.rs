//! The settings of `redact`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use uuid::Uuid;

use crate::{
    config::{Format, SecretSetting},
    dialect::TextKind,
};
use stream_redact::{DETECTORS, Mask, MaskError, Style};

/// How patterns of operators are written.
pub(in crate::policy) const FORMAT: Format = Format {
    name: "mask-pattern",
    check: |text| {
        let mask = Mask::new(&[], &[("it", text)], &Style::Label);
        mask.map(drop).map_err(|error| why(&error))
    },
};

/// Secrets are masked, hashed or refused.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Redact")]
pub(super) struct Settings {
    /// What is looked for; every detector if absent.
    #[serde(default = "every_detector")]
    detect: BTreeSet<DetectorName>,
    /// Regular expressions by name, looked for beside.
    #[serde(default)]
    patterns: BTreeMap<String, MaskPattern>,
    /// Where it is looked for; everywhere if absent.
    #[serde(default = "every_side")]
    pub(super) on: BTreeSet<Side>,
    /// What becomes of what is found.
    #[serde(default)]
    pub(super) action: Action,
    /// The key of hashes, so that they stay the same after a restart and on other
    /// machines; made anew at each load if absent.
    key: Option<SecretSetting>,
    /// What the agent is told if something is refused; a sentence that names the
    /// detectors if absent.
    pub(super) reason: Option<String>,
}

/// Where something is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Side {
    /// What people and models say in requests.
    Request,
    /// What models say and think in answers.
    Answer,
    /// Arguments of tools' calls, in answers, requests and `BeforeTool` events.
    ToolCalls,
    /// Results of tools, in requests and `AfterTool` events.
    ToolResults,
}

impl Side {
    /// The side of a request's text.
    pub(super) const fn of_request(kind: TextKind) -> Self {
        match kind {
            TextKind::Speech => Self::Request,
            TextKind::ToolCall => Self::ToolCalls,
            TextKind::ToolResult => Self::ToolResults,
        }
    }

    /// The side of an answer's text.
    pub(super) const fn of_answer(kind: TextKind) -> Self {
        match kind {
            TextKind::Speech => Self::Answer,
            TextKind::ToolCall => Self::ToolCalls,
            TextKind::ToolResult => Self::ToolResults,
        }
    }
}

/// What becomes of what is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// `[REDACTED:<detector>]` stands in its place.
    #[default]
    Mask,
    /// The same with a hash, so that equal secrets can be told to be equal.
    Hash,
    /// The request, call or answer is refused.
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
        let names: Vec<&str> = DETECTORS.iter().map(|it| it.name).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "MaskPattern", with = "String", extend("format" = "mask-pattern"))]
struct MaskPattern(String);

fn every_detector() -> BTreeSet<DetectorName> {
    let names = DETECTORS.iter().map(|it| it.name.to_owned());
    names.map(DetectorName).collect()
}

fn every_side() -> BTreeSet<Side> {
    [
        Side::Request,
        Side::Answer,
        Side::ToolCalls,
        Side::ToolResults,
    ]
    .into()
}

impl Settings {
    /// Whether there is nothing to look for.
    pub(super) fn is_idle(&self) -> bool {
        self.detect.is_empty() && self.patterns.is_empty() || self.on.is_empty()
    }

    /// What conceals.
    pub(super) fn mask(&self) -> Result<Mask, MaskError> {
        let detectors: Vec<&str> = self.detect.iter().map(|it| it.0.as_str()).collect();
        let patterns = self.patterns.iter();
        let patterns = patterns.map(|(name, it)| (name.as_str(), it.0.as_str()));
        let patterns: Vec<(&str, &str)> = patterns.collect();
        let key = self.key.as_ref().map(|it| it.0.clone());
        let style = match self.action {
            Action::Hash => Style::Hash(key.unwrap_or_else(|| Uuid::new_v4().to_string().into())),
            Action::Mask | Action::Deny => Style::Label,
        };
        Mask::new(&detectors, &patterns, &style)
    }
}

/// An error without the name of the pattern, which its place tells.
fn why(error: &MaskError) -> String {
    let said = error.to_string();
    let rest = said.strip_prefix("pattern `it`").unwrap_or(&said);
    let rest = rest.trim_start_matches([',', ':', ' ']);
    format!("cannot be used: {rest}")
}

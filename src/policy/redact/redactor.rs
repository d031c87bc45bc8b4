//! The configured redaction of texts.

use std::{collections::BTreeSet, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use stream_redact::Mask;

use super::settings::{RedactSettings, RedactionMode, RedactionScope};
use crate::event::HookOutput;

/// The names of detectors with a match.
pub(super) type FoundDetectors = BTreeSet<Arc<str>>;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "RedactSettings")]
#[schemars(with = "RedactSettings")]
pub(super) struct Redact {
    pub(super) mask: Mask,
    pub(super) on: BTreeSet<RedactionScope>,
    pub(super) mode: RedactionMode,
    reason: Option<Arc<str>>,
}

impl TryFrom<RedactSettings> for Redact {
    type Error = String;

    fn try_from(settings: RedactSettings) -> Result<Self, String> {
        if settings.is_idle() {
            return Err("has no effect: `detect` and `patterns`, or `on`, are empty".to_owned());
        }
        Ok(Self {
            mask: settings.mask().map_err(|error| error.to_string())?,
            on: settings.on,
            mode: settings.action,
            reason: settings.reason.map(Into::into),
        })
    }
}

impl Redact {
    /// Returns a denial if something was found and must not pass.
    pub(super) fn output(&self, found: &FoundDetectors) -> HookOutput {
        if self.mode != RedactionMode::Deny || found.is_empty() {
            return HookOutput::default();
        }
        if let Some(reason) = &self.reason {
            return HookOutput::denial(&**reason);
        }
        let found: Vec<&str> = found.iter().map(AsRef::as_ref).collect();
        HookOutput::denial(format!("Not allowed here: {}.", found.join(", ")))
    }

    /// Redacts a complete text. Returns `None` if nothing was found.
    pub(super) fn redact(
        &self,
        scope: RedactionScope,
        text: &str,
        found: &mut FoundDetectors,
    ) -> Option<String> {
        if !self.on.contains(&scope) {
            return None;
        }
        let concealed = self.mask.mask(text)?;
        found.extend(concealed.detectors);
        Some(concealed.text)
    }
}

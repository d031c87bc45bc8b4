//! The settings of `redact`, and the redaction of texts by them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;
use stream_redact::{DETECTORS, FoundSecret, Mask, MaskError, Style};
use strict_json::{unescaped_chars, unescaped_lossy};
use uuid::Uuid;

use crate::{
    config::{Format, Secret},
    dialect::TextKind,
    event::HookOutput,
};

/// The names of detectors with a match.
pub(super) type FoundDetectors = BTreeSet<Arc<str>>;

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
struct RedactSettings {
    /// Detectors to use; all if absent.
    #[serde(default = "all_detectors")]
    detect: BTreeSet<DetectorName>,
    /// Custom detectors: regular expressions by name.
    #[serde(default)]
    patterns: BTreeMap<String, MaskPattern>,
    /// Content to search; all if absent.
    #[serde(default = "all_scopes")]
    on: BTreeSet<RedactionScope>,
    /// Action on a match.
    #[serde(default)]
    action: RedactionMode,
    /// Key of the hashes, which keeps them stable over restarts and equal on other
    /// machines; a random key per load if absent.
    key: Option<Secret>,
    /// Reason of a denial; a sentence that names the detectors if absent.
    reason: Option<String>,
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

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[schemars(rename = "Detector", with = "String", extend("enum" = detector_names()))]
struct DetectorName(String);

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "MaskPattern", with = "String", extend("format" = "mask-pattern"))]
struct MaskPattern(String);

fn all_detectors() -> BTreeSet<DetectorName> {
    let names = detector_names().into_iter();
    names.map(|name| DetectorName(name.to_owned())).collect()
}

fn detector_names() -> Vec<&'static str> {
    DETECTORS.iter().map(|detector| detector.name).collect()
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

/// Masks, hashes or denies secrets.
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
        let (detect, patterns) = (&settings.detect, &settings.patterns);
        if detect.is_empty() && patterns.is_empty() || settings.on.is_empty() {
            return Err("has no effect: `detect` and `patterns`, or `on`, are empty".to_owned());
        }
        let detectors: Vec<&str> = detect.iter().map(|name| name.0.as_str()).collect();
        let patterns = patterns.iter();
        let patterns = patterns.map(|(name, pattern)| (name.as_str(), pattern.0.as_str()));
        let patterns: Vec<(&str, &str)> = patterns.collect();
        let random_key = || Uuid::new_v4().to_string().into();
        let style = match settings.action {
            RedactionMode::Hash => {
                Style::Hash(settings.key.map_or_else(random_key, SecretString::from))
            }
            RedactionMode::Mask | RedactionMode::Deny => Style::Label,
        };
        let mask = Mask::new(&detectors, &patterns, &style);
        Ok(Self {
            mask: mask.map_err(|error| error.to_string())?,
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

    /// Returns the scope of a text; `speech` is that of texts of users and models. A block may be
    /// any of them, so that it is searched in each scope.
    pub(super) fn scope_of(&self, kind: TextKind, speech: RedactionScope) -> RedactionScope {
        let (call, result) = (RedactionScope::ToolCalls, RedactionScope::ToolResults);
        match kind {
            TextKind::Speech => speech,
            TextKind::ToolCall => call,
            TextKind::ToolResult => result,
            TextKind::Block => {
                let mut scopes = [call, result].into_iter();
                let listed = scopes.find(|scope| self.on.contains(scope));
                listed.unwrap_or(speech)
            }
        }
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

    /// Redacts a text of a message; `speech` is the scope of texts of users and models. Calls are
    /// searched with their escapes decoded, too: arguments that are no unambiguous object are one
    /// text.
    pub(super) fn redact_kind(
        &self,
        kind: TextKind,
        speech: RedactionScope,
        text: &str,
        found: &mut FoundDetectors,
    ) -> Option<String> {
        let scope = self.scope_of(kind, speech);
        let has_escapes = match kind {
            TextKind::ToolCall | TextKind::Block => text.contains('\\'),
            TextKind::Speech | TextKind::ToolResult => false,
        };
        if has_escapes && self.on.contains(&scope) {
            return self.redact_escaped(text, found);
        }
        self.redact(scope, text, found)
    }

    /// Redacts a text by its secrets, and by those it has with decoded escapes. Escapes beside them
    /// are kept.
    fn redact_escaped(&self, text: &str, found: &mut FoundDetectors) -> Option<String> {
        let decoded = self.mask.secrets(&unescaped_lossy(text));
        let mut secrets = in_escaped_text(text, decoded);
        secrets.extend(self.mask.secrets(text));
        // Of two that begin together, with and without decoded escapes, the longer has the label.
        secrets.sort_by_key(|secret| (secret.place.start, Reverse(secret.place.end)));
        found.extend(secrets.iter().map(|secret| Arc::clone(&secret.detector)));
        (!secrets.is_empty()).then(|| with_labels(text, &secrets))
    }

    /// Redacts texts that are read as one, each in its place. Returns whether any was found.
    pub(super) fn redact_joined(
        &self,
        scope: RedactionScope,
        texts: &mut [String],
        found: &mut FoundDetectors,
    ) -> bool {
        if !self.on.contains(&scope) {
            return false;
        }
        let parts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let Some(masked) = self.mask.mask_parts(&parts) else {
            return false;
        };
        found.extend(masked.detectors);
        for (text, masked) in texts.iter_mut().zip(masked.texts) {
            *text = masked;
        }
        true
    }
}

/// Returns secrets of a text with decoded escapes with their places in the text itself.
fn in_escaped_text(text: &str, mut secrets: Vec<FoundSecret>) -> Vec<FoundSecret> {
    let (mut chars, mut at, mut decoded_at) = (unescaped_chars(text), 0, 0);
    let mut place_of = |decoded: usize| {
        while decoded_at < decoded
            && let Some((raw, letter)) = chars.next()
        {
            at += raw.len();
            decoded_at += letter.len_utf8();
        }
        at
    };
    for secret in &mut secrets {
        secret.place = place_of(secret.place.start)..place_of(secret.place.end);
    }
    secrets
}

/// Returns a text with labels in the place of secrets, which are in order and may overlap.
fn with_labels(text: &str, secrets: &[FoundSecret]) -> String {
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for secret in secrets {
        if secret.place.start >= at {
            out.push_str(text.get(at..secret.place.start).unwrap_or_default());
            out.push_str(&secret.label);
        }
        at = at.max(secret.place.end);
    }
    out + text.get(at..).unwrap_or_default()
}

/// The error of a pattern without its name, which follows from its position.
fn pattern_error(error: &MaskError) -> String {
    let message = error.to_string();
    let prefix = format!("pattern `{CHECKED_PATTERN}`");
    let reason = message.strip_prefix(&prefix).unwrap_or(&message);
    let reason = reason.trim_start_matches([',', ':', ' ']);
    format!("cannot be used: {reason}")
}

//! Origin of the bundles with policies and hooks.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use policy_bundle::PublicKey;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error};
use url::Url;

use crate::config::{
    policy_layer::BundleCapability,
    schema::scalars::{BundleKeySchema, BundleUrlSchema, FilePathSchema},
    secret::Secret,
    source_span::SourceSpan,
    units::{DurationText, duration},
};

/// Name of the only bundle of a `source`.
const ONLY_BUNDLE: &str = "bundle";

/// Origin of the bundles with policies and hooks: `url` and `keys` of one, or `layers`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Source")]
pub struct SourceSettings {
    /// URL of the bundle.
    #[schemars(with = "Option<BundleUrlSchema>")]
    pub(crate) url: Option<Url>,
    /// Public keys of which one must have signed the bundle.
    #[serde(default)]
    #[schemars(with = "Vec<BundleKeySchema>", extend("default" = []))]
    pub(crate) keys: Vec<PublicKey>,
    /// Bearer token for the server.
    pub(crate) token: Option<Secret>,
    /// True if a bundle without a signature is used if it has no commands and refers to no
    /// secrets.
    #[serde(default)]
    pub(crate) unsigned: bool,
    /// Capabilities of the bundle beside its policies. A bundle that uses another one is refused.
    #[serde(default = "BundleCapability::all")]
    pub(crate) allow: BTreeSet<BundleCapability>,
    /// Two bundles instead of one: the first is locked above the second.
    #[serde(default)]
    #[schemars(extend("maxItems" = 2, "errorMessage" = "must be two bundles: that of the organisation, and that of a team"))]
    pub(crate) layers: Vec<BundleOrigin>,
    /// Time between two requests to a server that does not hold them: a random one of this range.
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_POLL))]
    pub poll: PollRange,
    /// Time for which the server may hold a request until there is another bundle.
    #[serde(with = "DurationText", default = "default_wait")]
    #[schemars(with = "DurationText")]
    pub wait: Duration,
    /// Path of the folder with the bundles in use. It is created if its parent exists.
    #[schemars(with = "FilePathSchema")]
    pub persist: PathBuf,
    /// The position in the config, set by the loader.
    #[serde(default)]
    #[schemars(skip)]
    pub span: SourceSpan,
}

/// Origin of one bundle: its URL, and the public keys of its signers.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BundleOrigin")]
pub struct BundleOrigin {
    /// Name in messages, metrics and the admin API.
    #[schemars(extend("pattern" = "^[a-z0-9][a-z0-9_-]{0,31}$", "errorMessage" = "must be 1 to 32 of the characters a-z, 0-9, `_` and `-`"))]
    pub name: String,
    /// URL of the bundle.
    #[schemars(with = "BundleUrlSchema")]
    pub url: Url,
    /// Public keys of which one must have signed the bundle.
    #[serde(default)]
    #[schemars(with = "Vec<BundleKeySchema>", extend("default" = []))]
    pub keys: Vec<PublicKey>,
    /// Bearer token for the server.
    pub token: Option<Secret>,
    /// True if a bundle without a signature is used if it has no commands and refers to no
    /// secrets.
    #[serde(default)]
    pub unsigned: bool,
    /// Capabilities of the bundle beside its policies. A bundle that uses another one is refused.
    #[serde(default = "BundleCapability::all")]
    pub allow: BTreeSet<BundleCapability>,
}

/// A range of durations: `10s..20s`, or `10s` for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "DurationRange", extend("type" = "string", "pattern" = RANGE_PATTERN, "errorMessage" = "must be a range of durations such as `10s..20s`"))]
pub struct PollRange {
    /// The shortest duration of the range.
    #[schemars(skip)]
    pub min: Duration,
    /// The longest duration, at least `min`.
    #[schemars(skip)]
    pub max: Duration,
}

const DEFAULT_POLL: &str = "10s..20s";
const RANGE_PATTERN: &str = r"^[1-9][0-9]{0,9}(ms|s|m|h)(\.\.[1-9][0-9]{0,9}(ms|s|m|h))?$";

impl SourceSettings {
    /// Returns the same settings without tokens and the position, which may change while a gateway
    /// runs.
    #[must_use]
    pub fn for_comparison(&self) -> Self {
        let mut settings = self.clone();
        settings.token = None;
        settings.span = SourceSpan::default();
        for layer in &mut settings.layers {
            layer.token = None;
        }
        settings
    }

    /// Returns the bundles in their order.
    pub fn bundles(&self) -> Vec<BundleOrigin> {
        let only = self.url.as_ref().map(|url| BundleOrigin {
            name: ONLY_BUNDLE.to_owned(),
            url: url.clone(),
            keys: self.keys.clone(),
            token: self.token.clone(),
            unsigned: self.unsigned,
            allow: self.allow.clone(),
        });
        only.into_iter()
            .chain(self.layers.iter().cloned())
            .collect()
    }
}

impl Default for PollRange {
    fn default() -> Self {
        Self {
            min: Duration::from_secs(10),
            max: Duration::from_secs(20),
        }
    }
}

impl<'de> Deserialize<'de> for PollRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (min, max) = text.split_once("..").unwrap_or((&text, &text));
        let range = duration(min).zip(duration(max));
        let range = range.filter(|(min, max)| min <= max);
        let (min, max) = range.ok_or_else(|| D::Error::custom("not a range of durations"))?;
        Ok(Self { min, max })
    }
}

const fn default_wait() -> Duration {
    Duration::from_secs(30)
}

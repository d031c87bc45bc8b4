//! Policies that come from a bundle instead of the config file.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use policy_bundle::{Bundle, ExtractedBundle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::source_span::SourceSpan;

/// Name of the config in a bundle.
pub const BUNDLE_CONFIG: &str = "hookgate.yaml";

/// Settings that a bundle has, and a config with `source` has not.
pub(super) const BUNDLE_SETTINGS: [&str; 12] = [
    "policies",
    "hooks",
    "hooksConfig",
    "hook_files",
    "hook_defaults",
    "proof",
    "tool_names",
    "denials",
    "ask",
    "after_model",
    "events",
    "coverage",
];

/// Settings of a bundle behind the locked one. The others apply to all layers.
pub(super) const UNLOCKED_SETTINGS: [&str; 4] = ["policies", "hooks", "hooksConfig", "hook_files"];

/// A folder with the files of a bundle. The first layer is locked above those after it.
#[derive(Debug, Clone)]
pub struct PolicyLayer {
    /// Name in messages and metrics.
    pub name: String,
    /// Folder that contains the `hookgate.yaml` of the bundle.
    pub directory: PathBuf,
    /// Part of the config's version: hooks are not part of the config.
    pub digest: String,
    /// The bundle that was extracted there; `None` before it is built.
    pub bundle: Option<Arc<ExtractedBundle>>,
    /// Trust in the author of the bundle.
    pub trust: BundleTrust,
    /// Capabilities that the gateway allows the bundle.
    pub allowed: BTreeSet<BundleCapability>,
}

/// Trust in the author of a bundle. Commands are code, and a hook can send a secret anywhere, so
/// a bundle without a signature has neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleTrust {
    /// The bundle is signed by a known key, or not yet built.
    Signed,
    /// The bundle is used without a signature.
    Unsigned,
}

/// A capability of a bundle beside its policies.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum BundleCapability {
    /// Hooks that start processes: those of type `command` and `worker`.
    Commands,
    /// Hooks of type `http`, which send events to any URL.
    Http,
    /// References to secrets of the gateway, in `bearer` and `key`.
    Secrets,
}

impl PolicyLayer {
    /// The layer of an extracted bundle.
    pub fn of_bundle(
        name: String,
        bundle: Arc<ExtractedBundle>,
        trust: BundleTrust,
        allowed: BTreeSet<BundleCapability>,
    ) -> Self {
        Self {
            name,
            directory: bundle.directory().to_owned(),
            digest: bundle.bundle().digest(),
            bundle: Some(bundle),
            trust,
            allowed,
        }
    }

    /// Returns the bundle with its signature; `None` before it is built.
    pub fn signed_bundle(&self) -> Option<&Bundle> {
        self.bundle.as_deref().map(ExtractedBundle::bundle)
    }

    /// Returns whether a setting of the layer is at a position.
    pub fn contains(&self, span: &SourceSpan) -> bool {
        span.file.starts_with(&self.directory)
    }

    /// Returns the reason why the bundle must not use a capability; `None` if it may.
    pub(super) fn refusal(&self, capability: BundleCapability) -> Option<String> {
        if !self.allowed.contains(&capability) {
            let name = capability.as_str();
            return Some(format!("`allow` of the bundle does not list `{name}`"));
        }
        let needs_signature = capability != BundleCapability::Http;
        (needs_signature && self.trust == BundleTrust::Unsigned)
            .then(|| "the bundle is not signed".to_owned())
    }
}

impl BundleCapability {
    /// Returns all capabilities, which a bundle has by default.
    pub fn all() -> BTreeSet<Self> {
        [Self::Commands, Self::Http, Self::Secrets].into()
    }

    /// Returns the name in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Http => "http",
            Self::Secrets => "secrets",
        }
    }
}

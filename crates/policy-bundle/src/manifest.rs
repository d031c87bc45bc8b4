//! The manifest of a bundle.

use std::{collections::BTreeMap, fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::{
    error::BundleError,
    path::{check_folders, check_path},
};

/// Maximum length of a revision in bytes.
const MAX_REVISION_BYTES: usize = 64;

/// Name of the manifest in an archive.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Name of the signature in an archive.
pub(crate) const SIGNATURE: &str = "manifest.sig";

/// Contents of a bundle, and its position among others. Signed as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name of this state of the policy.
    pub revision: Revision,
    /// Time of the build. A bundle is newer than another if it was created later.
    pub created: Timestamp,
    /// Revision that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Revision>,
    /// True if a reader of this bundle may return to its parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allows_parent: bool,
    /// Versions of the reader that can use the bundle.
    pub requires: Requirement,
    /// SHA-256 of each file in hex, by path.
    pub files: BTreeMap<String, String>,
    /// Paths of the files that can be executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executable: Vec<String>,
}

/// Name of a state of a policy: up to 64 letters, digits, `.`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Revision(String);

/// The lowest version of the reader: `>=1.2` or `>=1.2.3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Requirement {
    lowest: [u64; 3],
}

impl Manifest {
    /// Returns the bytes that are signed.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Texts, lists and mappings with texts as keys are always serialized.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads a manifest, which must be in the form of [`Self::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, BundleError> {
        let manifest: Self = serde_json::from_slice(bytes)
            .map_err(|error| BundleError::Manifest(error.to_string()))?;
        for path in manifest.files.keys() {
            check_path(path)?;
        }
        check_folders(&manifest.files)?;
        let mut executable = manifest.executable.iter();
        if let Some(path) = executable.find(|path| !manifest.files.contains_key(*path)) {
            return Err(BundleError::Missing(path.clone()));
        }
        if manifest.to_bytes() != bytes {
            let message = "not in the form that `bundle build` writes".to_owned();
            return Err(BundleError::Manifest(message));
        }
        Ok(manifest)
    }
}

impl Requirement {
    /// Returns whether a version is high enough. One that is no version is not.
    pub fn allows(self, version: &str) -> bool {
        parse_version(version).is_some_and(|version| version >= self.lowest)
    }
}

impl FromStr for Requirement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let version = text.strip_prefix(">=").and_then(parse_version);
        let lowest = version.ok_or_else(|| format!("`{text}` is not like `>=1.2`"))?;
        Ok(Self { lowest })
    }
}

impl TryFrom<String> for Requirement {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lowest {
            [major, minor, 0] => write!(f, ">={major}.{minor}"),
            [major, minor, patch] => write!(f, ">={major}.{minor}.{patch}"),
        }
    }
}

impl Serialize for Requirement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Revision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !text.is_empty() && text.len() <= MAX_REVISION_BYTES && text.bytes().all(is_allowed) {
            return Ok(Self(text.to_owned()));
        }
        Err("a revision has 1 to 64 letters, digits, `.`, `_` and `-`".to_owned())
    }
}

impl TryFrom<String> for Revision {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads `1.2` or `1.2.3`.
fn parse_version(text: &str) -> Option<[u64; 3]> {
    let mut parts = text.split('.').map(|part| part.parse::<u64>().ok());
    let version = [
        parts.next()??,
        parts.next()??,
        parts.next().unwrap_or(Some(0))?,
    ];
    parts.next().is_none().then_some(version)
}

//! Secrets: referenced in the config, read from an environment variable or a file.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    env::VarError,
    fmt,
    path::{Path, PathBuf},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::overrides::MissingSecrets;
use crate::regular_file;

/// The text of a secret that the config refers to. `Debug` does not show it.
///
/// The loader replaces each `SecretReference` in a document by its text before the
/// document is deserialized; the JSON Schema is that of the source.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "String")]
pub struct Secret(SecretString);

/// The source of a secret, as written in the config.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Secret", extend("writeOnly" = true, "errorMessage" = "must be `{ env: NAME }` or `{ file: PATH }`; the config cannot contain the secret itself"))]
pub(super) enum SecretReference {
    /// Name of the environment variable with the secret.
    Env(String),
    /// Path of the file that contains only the secret.
    File(PathBuf),
}

/// The characters that a secret may contain. All secrets are sent in headers.
#[derive(Debug, Clone, Copy)]
pub(super) enum SecretChars {
    /// Printable ASCII without spaces.
    Token,
    /// Printable ASCII, as in a whole header value such as `Bearer …`.
    HeaderValue,
}

/// Maximum size of a file with a secret, in bytes.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// Text used for secrets that cannot be read or are not valid, with [`MissingSecrets::Placeholder`].
pub const PLACEHOLDER_SECRET: &str = "made-up";

impl SecretReference {
    /// Reads the secret. Relative paths start from `directory`.
    ///
    /// # Errors
    ///
    /// A message without any part of the secret.
    pub(super) fn read(
        &self,
        directory: &Path,
        missing: MissingSecrets,
        allowed: SecretChars,
    ) -> Result<String, String> {
        match (self.read_valid(directory, allowed), missing) {
            (Err(_), MissingSecrets::Placeholder) => Ok(PLACEHOLDER_SECRET.to_owned()),
            (text, _) => text,
        }
    }

    fn read_valid(&self, directory: &Path, allowed: SecretChars) -> Result<String, String> {
        let text = self.read_text(directory)?;
        let text = text.trim();
        if text.is_empty() {
            return Err(format!("{self} is empty"));
        }
        if !text.chars().all(|char| allowed.contains(char)) {
            return Err(format!("{self} contains spaces or special characters"));
        }
        Ok(text.to_owned())
    }

    fn read_text(&self, directory: &Path) -> Result<String, String> {
        match self {
            Self::Env(name) => std::env::var(name).map_err(|error| match error {
                VarError::NotPresent => format!("{self} is not set"),
                VarError::NotUnicode(_) => format!("{self} is not UTF-8"),
            }),
            Self::File(path) => {
                let text = regular_file::read_text(&directory.join(path), MAX_SECRET_BYTES);
                text.map_err(|error| format!("{self} cannot be read: {error}"))
            }
        }
    }
}

impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "environment variable `{name}`"),
            Self::File(path) => write!(f, "file `{}`", path.display()),
        }
    }
}

impl SecretChars {
    fn contains(self, char: char) -> bool {
        char.is_ascii_graphic() || (char == ' ' && matches!(self, Self::HeaderValue))
    }
}

impl Secret {
    /// Returns the value of a header, marked as sensitive; `None` if the text cannot be one.
    pub fn header_value(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(self.expose_secret()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Returns headers with secrets as values, marked as sensitive.
pub fn header_map(headers: &BTreeMap<String, Secret>) -> HeaderMap {
    let pairs = headers.iter().filter_map(|(name, secret)| {
        Some((HeaderName::try_from(name).ok()?, secret.header_value()?))
    });
    pairs.collect()
}

impl ExposeSecret<str> for Secret {
    fn expose_secret(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<Secret> for SecretString {
    fn from(secret: Secret) -> Self {
        secret.0
    }
}

/// Not in constant time: for comparing configs with each other only.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose_secret() == other.expose_secret()
    }
}

impl Eq for Secret {}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        SecretReference::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        SecretReference::json_schema(generator)
    }
}

//! Secrets: found where the config says, and never shown.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{MissingSecrets, raw::RawSecret};

/// What stands for a secret that is not there.
const MADE_UP: &str = "made-up";

/// A secret among the settings of a hook or policy: written like any other, read
/// when it is in place.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "String")]
pub struct SecretSetting(pub SecretString);

impl From<String> for SecretSetting {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl JsonSchema for SecretSetting {
    fn schema_name() -> Cow<'static, str> {
        RawSecret::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RawSecret::json_schema(generator)
    }
}

/// The settings that are secrets, of whichever hook or policy.
pub(super) const SETTINGS: &[&str] = &["bearer", "key"];

/// Fetches a setting that is a secret and puts it in place. The file that it
/// came from, if it came from one.
pub(super) fn put(
    settings: &mut Map<String, Value>,
    name: &str,
    directory: &Path,
    missing: MissingSecrets,
) -> Result<Option<PathBuf>, String> {
    let Some(written) = settings.get_mut(name) else {
        return Ok(None);
    };
    let secret: RawSecret =
        serde_json::from_value(written.clone()).map_err(|error| error.to_string())?;
    *written = resolve(&secret, directory, missing)?.expose_secret().into();
    Ok(match secret {
        RawSecret::Env(_) => None,
        RawSecret::File(path) => Some(directory.join(path)),
    })
}

/// Fetches a secret; `directory` is what a relative path starts from. The error
/// says what is wrong and holds nothing of the secret.
pub(super) fn resolve(
    secret: &RawSecret,
    directory: &Path,
    missing: MissingSecrets,
) -> Result<SecretString, String> {
    resolve_as(secret, directory, missing, |it| it.is_ascii_graphic())
}

/// The same for all that a header holds, which may have blanks in it, such as the
/// one behind `Bearer`.
pub(super) fn resolve_header(
    secret: &RawSecret,
    directory: &Path,
    missing: MissingSecrets,
) -> Result<SecretString, String> {
    let fits = |it: char| it.is_ascii_graphic() || it == ' ';
    resolve_as(secret, directory, missing, fits)
}

fn resolve_as(
    secret: &RawSecret,
    directory: &Path,
    missing: MissingSecrets,
    fits: fn(char) -> bool,
) -> Result<SecretString, String> {
    let (origin, found) = match secret {
        RawSecret::Env(name) => {
            let origin = format!("environment variable `{name}`");
            let found = std::env::var(name).map_err(|_| format!("{origin} is not set"));
            (origin, found)
        }
        RawSecret::File(path) => {
            let origin = format!("file `{path}`");
            let found = std::fs::read_to_string(directory.join(path))
                .map_err(|error| format!("{origin} cannot be read: {error}"));
            (origin, found)
        }
    };
    let text = match (found, missing) {
        (Err(_), MissingSecrets::MadeUp) => return Ok(MADE_UP.into()),
        (found, _) => found?,
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("{origin} is empty"));
    }
    // Every secret here goes into a header one day.
    if !text.chars().all(fits) {
        return Err(format!("{origin} holds blanks or special characters"));
    }
    Ok(text.into())
}
